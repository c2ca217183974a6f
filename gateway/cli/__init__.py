"""The ``specroute`` command: one module a subcommand; each imports what it needs when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from gateway import __version__

app = typer.Typer(
    name="specroute",
    help="OpenAI-compatible gateway that routes each request to the vLLM server whose speculative "
    "decoding will finish it soonest.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that every command shares; the help is the application's."""


def main() -> None:
    """Run the command line."""
    from gateway.cli import (
        advise,
        check,
        classify,
        dashboards,
        demo,
        diff,
        drafts,
        drift,
        explain,
        launch,
        learned,
        replay,
        serve,
        sim,
        simulate,
        sweep,
        top,
    )

    for module in (
        serve,
        demo,
        check,
        explain,
        classify,
        drift,
        drafts,
        learned,
        launch,
        sim,
        simulate,
        replay,
        diff,
        sweep,
        advise,
        dashboards,
        top,
    ):
        module.register(app)
    app()
