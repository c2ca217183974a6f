"""The table of bars, for people and as JSON."""

from rich.table import Table

from tests.bench.routing.bars import DIGITS

COLUMNS = ("bar", "what", "cells x seeds", "figure", "seen", "worst in", "ceiling", "bar")


def table(results):
    found = Table(title="Routing: bars of the yardstick", title_justify="left")
    right = {"seen", "ceiling", "bar", "reach for"}
    for name in (*COLUMNS, "met", "reach for", "reached"):
        found.add_column(name, justify="right" if name in right else "left")
    for result in results:
        number, title, complete = result["bar"], result["title"], result["complete"]
        for one in result["criteria"]:
            sign = "≤" if one["at_most"] else "≥"
            reach = one["reach"]
            found.add_row(
                str(number),
                title,
                complete,
                one["what"],
                f"{one['value']:.{DIGITS}f}",
                one["cell"],
                "" if one["ceiling"] is None else f"{one['ceiling']:.{DIGITS}f}",
                f"{sign} {one['least']:.3g}",
                "[green]yes" if one["met"] else "[red]no",
                "" if reach is None else f"{sign} {reach:.3g}",
                "" if reach is None else "yes" if one["reached"] else "no",
            )
            number = title = complete = ""
        found.add_section()
    return found


def cells(result):
    """Mean figures of each policy in each cell."""
    found = Table(title=f"Bar {result['bar']}: {result['title']}", title_justify="left")
    found.add_column("cell")
    names = list(dict.fromkeys(policy for runs in result["cells"].values() for policy in runs))
    for name in names:
        found.add_column(name, justify="right")
    for cell, runs in result["cells"].items():
        shown = []
        for name in names:
            figures = runs.get(name, {})
            key = next(
                (key for key in ("share", "mean", "rate", "bulk", "of_best", "tokens") if key in figures),
                None,
            )
            shown.append(
                "" if key is None else f"{figures[key]:.3f}" if figures[key] < 100 else f"{figures[key]:.0f}"
            )
        found.add_row(cell, *shown)
    return found
