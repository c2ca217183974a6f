"""Write docs/settings.md from gateway/settings.py: python tools/settings_reference.py."""

from pathlib import Path

from gateway.settings import Settings

TARGET = Path(__file__).parents[1] / "docs" / "settings.md"


def reference() -> str:
    """The page."""
    rows = []
    for name, field in Settings.model_fields.items():
        default = (
            "required"
            if field.is_required()
            else f"`{field.default}`"
            if field.default is not None
            else "none"
        )
        rows.append(f"| `SPECROUTE_{name.upper()}` | {default} | {field.description} |")
    return "\n".join(
        [
            "# Settings of a gateway process",
            "",
            "Addresses, files and limits of one process, from the environment; `specroute serve` has options",
            "for the commonest. How requests are routed is never a setting but [policy](policy.md). Made by",
            "`python tools/settings_reference.py`. A variable `SPECROUTE_…` that is no setting is",
            "warned of at the start, with the nearest one.",
            "",
            "| variable | default | what it is |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
