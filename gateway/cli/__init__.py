"""The ``specroute`` command: one module a subcommand; each imports what it needs when it runs."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="specroute",
    help="OpenAI-compatible gateway that routes each request to the vLLM server whose speculative "
    "decoding will finish it soonest.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
)


def main() -> None:
    """Run the command line."""
    from gateway.cli import check, classify, demo, explain, launch, serve, sim

    for module in (serve, demo, check, explain, classify, launch, sim):
        module.register(app)
    app()
