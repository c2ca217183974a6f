"""``specroute top``: what a gateway does right now, in the terminal."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.files import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

NO_BACKEND = 1
"""Exit code of ``--once`` and ``--json`` where no backend can take a request."""

_DECISIONS = 8

_HEADING = 3
_HEAD = 2
"""Lines of the heading, and of the head of a table."""

_GIVING_WAY = frozenset({"Fleet", "method", "backend", "result", "why"})
"""Columns that are cut where there is no room for all."""

_STALE = 15.0
"""Seconds after which a load is too old to be trusted, as on the status page and for the alert."""

_SHOWN = 80
"""Characters shown of an answer that is no board."""

_WIDE, _TALL = 120, 40
"""Columns and lines from which on there is room for all that is known."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("top")(top)


def top(
    url: Annotated[str, typer.Argument(help="Address of the gateway.")] = "http://127.0.0.1:8000",
    *,
    window: Annotated[int, typer.Option(help="Seconds that rates are taken over.", min=60, max=900)] = 300,
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.2)] = 2.0,
    header: Annotated[
        list[str] | None,
        typer.Option(help="A header to send, such as 'authorization: Bearer ...'.", show_default=False),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print it once and end.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print it once as JSON and end.")] = False,
) -> None:
    """Show traffic, acceptance, decisions and fleet of a gateway, live; Ctrl-C ends it.

    With --once or --json, exit code 0: a backend can take a request; 1: none can; 2: the gateway does not
    answer.

    Example: **specroute top http://gateway:8000 --window 60**
    """
    import httpx
    from rich.console import Console

    console = Console()
    try:
        with httpx.Client(
            base_url=url.rstrip("/"), headers=_headers(header), timeout=5.0, trust_env=False
        ) as client:
            found = _look(client, window)
            shown = _drawn(found, url, console.width)
            if not (once or json_):
                _live(client, console, url, window, interval)
                return
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        refuse(f"specroute: {url} does not answer as a gateway: {error}")
    if json_:
        print(json.dumps(found, indent=2))
    else:
        console.print(shown)
    raise typer.Exit(0 if any(each["available"] for each in _everybody(found)) else NO_BACKEND)


def _headers(given: list[str] | None) -> dict[str, str]:
    pairs = [each.partition(":") for each in given or ()]
    if any(not colon for _, colon, _ in pairs):
        refuse("specroute: a header is written as 'name: value'")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _look(client: httpx.Client, window: int) -> dict[str, Any]:
    answer = client.get("/-/board", params={"window": window})
    answer.raise_for_status()
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict) or "cells" not in found:
        kind = answer.headers.get("content-type", "no content-type")
        raise ValueError(f"/-/board is no board but {kind!r}: {answer.text[:_SHOWN]!r}")
    return found


def _live(client: httpx.Client, console: Console, url: str, window: int, interval: float) -> None:
    import httpx
    from rich.live import Live
    from rich.text import Text

    with Live(console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                try:
                    shown = _drawn(_look(client, window), url, *console.size)
                except (httpx.HTTPError, ValueError) as error:
                    shown = Text(f"{url} does not answer as a gateway: {error}", style="bold red")
                live.update(shown, refresh=True)
                time.sleep(interval)
        except KeyboardInterrupt:
            return


def _drawn(found: dict[str, Any], url: str, columns: int, lines: int | None = None) -> RenderableType:
    """A board as tables, which raises ValueError where it is not of the shape that this version knows."""
    try:
        return render(found, url, columns, lines)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        known = f"{type(error).__name__}: {error}"
        raise ValueError(f"/-/board is not what this version knows ({known}); compare versions") from error


def render(found: dict[str, Any], url: str, columns: int, lines: int | None = None) -> RenderableType:
    """A board as tables.

    Args:
        found: What ``/-/board`` says.
        url: Of the gateway, for the heading.
        columns: Of the screen.
        lines: Of a screen that it has to fit; None shows everything.
    """
    from rich.console import Group

    backends = _everybody(found)
    cells = [cell for cell in found["cells"] if cell["requests"]]
    positions, decisions = found["positions"], found["decisions"][:_DECISIONS]
    if lines is not None:
        room = lines - _HEADING
        if lines < _TALL:
            positions = []
        tables = [backends, cells, decisions, positions]
        most = fitted([len(rows) for rows in tables], room)
        backends = _first(backends, most[0], lambda each: (each["available"], -each["in_flight"]))
        cells = _first(cells, most[1], lambda each: -each["requests"])
        decisions, positions = decisions[: most[2]], positions[: most[3]]
    narrow = columns < _WIDE
    return Group(
        _heading(found, url),
        _fleet(backends, methods=lines is None or not narrow),
        *([_routes(cells, narrow=narrow)] if cells else []),
        *([_decisions(decisions, narrow=narrow)] if decisions else []),
        *([_positions(positions)] if positions else []),
        *([_advice(found["status"]["learning"]["statements"])] if lines is None else []),
    )


def _first(
    rows: list[dict[str, Any]], count: int, rank: Callable[[dict[str, Any]], Any]
) -> list[dict[str, Any]]:
    """The rows that rank first, in the order in which they were."""
    kept = {id(row) for row in sorted(rows, key=rank)[:count]}
    return [row for row in rows if id(row) in kept]


def fitted(rows: list[int], room: int) -> list[int]:
    """How many rows of each table there is room for, one after the other in turn.

    Args:
        rows: How many each has.
        room: Lines, of which each table that is there needs two for its head.
    """
    room -= sum(_HEAD for wanted in rows if wanted)
    given = [0] * len(rows)
    while room > 0 and given != rows:
        for place, wanted in enumerate(rows):
            if room > 0 and given[place] < wanted:
                given[place] += 1
                room -= 1
    return given


def _heading(found: dict[str, Any], url: str) -> RenderableType:
    from rich.text import Text

    totals, policy = found["totals"], found["status"]["policy"]
    line = Text()
    line.append(f"{url}", style="bold")
    line.append(f"  policy {policy['revision']}")
    if found["workers"] > 1:
        line.append(f"  one of {found['workers']} workers and its share")
    if policy["problems"]:
        line.append("  the files have a mistake, the last good policy is kept", style="bold red")
    line.append(f"\n{totals['requests_per_second']:.1f} requests/s, {totals['open']} open, ")
    line.append(f"{totals['waiting']} waiting, ")
    failed, speed = totals["failed_share"], totals["stream_speed"]
    if failed is None:
        line.append("none ended of late")
    else:
        line.append(f"{failed:.2%} failed", style="red" if failed else "")
        line.append("" if speed is None else f"; {_number(speed)} tok/s a stream")
        line.append(f", {_number(totals['output_tokens_per_second'])} tok/s in all")
    if (gain := totals["gain_over_baseline"]) is not None:
        line.append("; since the start ")
        line.append(f"{gain:.2f}x no speculation", style="green" if gain > 1 else "red")
    return line


def _table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold underline")
    for column in columns:
        # Where the screen is narrow, words give way and numbers do not.
        justify: Any = "right" if column in right else "left"
        table.add_column(column, justify=justify, no_wrap=column not in _GIVING_WAY, min_width=len(column))
    return table


def _words(text: str, style: str = "") -> Text:
    """Words from outside, which are no markup, on one line that may be cut."""
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _routes(cells: list[dict[str, Any]], *, narrow: bool) -> Table:
    numbers = ("requests", "failed", "first token", "tok/s", "gain", "acceptance", "tokens/step")
    if narrow:
        numbers = ("req", "bad", "TTFT", "tok/s", "gain", "accept", "tok/step")
    table = _table("Workload", "backend", *numbers, right=numbers)
    for cell in cells:
        gain, length, first = cell["speedup"], cell["mean_accepted_length"], cell.get("first_token")
        table.add_row(
            cell["workload"],
            _words(cell["backend"]),
            str(cell["requests"]),
            f"[red]{cell['failed']}[/]" if cell.get("failed") else "",
            "" if first is None else f"{first * 1000:.0f} ms",
            _number(cell["speed"]),
            "" if gain is None else f"[{'green' if gain >= 1 else 'red'}]{gain:.2f}x[/]",
            _share(cell["acceptance_rate"]),
            "" if length is None else f"{length:.2f}",
        )
    return table


def _positions(rows: list[dict[str, Any]]) -> Table:
    most = max(len(row["shares"]) for row in rows)
    places = tuple(map(str, range(most)))
    table = _table("Acceptance by position", *places, right=places)
    for row in rows:
        table.add_row(row["backend"], *map(_share, row["shares"]))
    return table


def _everybody(found: dict[str, Any]) -> list[dict[str, Any]]:
    fleet = found["status"]["fleet"]
    return [*fleet["backends"], *fleet.get("stand_ins", [])]  # an older gateway knows of none


def _fleet(backends: list[dict[str, Any]], *, methods: bool) -> Table:
    numbers = ("in flight", "running", "waiting", "KV", "seen")
    table = _table("Fleet", *(["method"] if methods else []), "state", *numbers, "why", right=numbers)
    for backend in backends:
        method, tokens, age = backend["method"], backend["draft_tokens"], backend["load_age_seconds"]
        state = "[green]ready[/]" if backend["available"] else f"[red]{backend['unavailable']}[/]"
        table.add_row(
            _words(backend["name"]),
            *([_words(f"{method}-{tokens}" if tokens else method)] if methods else []),
            state,
            f"{backend['in_flight']}/{backend['limit']}",
            "?" if backend["running"] is None else str(backend["running"]),
            "?" if backend["waiting"] is None else str(backend["waiting"]),
            _share(backend["kv_usage"]),
            "never" if age is None else f"[{'red' if age > _STALE else 'default'}]{age:.0f} s[/]",
            _words(backend["reason"]),
        )
    return table


def _advice(statements: dict[str, list[str]]) -> RenderableType:
    from rich.text import Text

    return Text("\n".join(f"{target}: {words}" for target, said in statements.items() for words in said))


def _decisions(lines: list[dict[str, Any]], *, narrow: bool) -> Table:
    table = _table("Decisions", "workload", "backend", "result", *([] if narrow else ["why"]))
    for line in lines:
        colour = "green" if line["status"] == "ok" else "red"
        table.add_row(
            datetime.fromtimestamp(line["unix"]).astimezone().strftime("%H:%M:%S"),
            line["workload"],
            _words(line["backend"] or "nowhere"),
            _words(line["result"], colour),
            *([] if narrow else [_words(line["why"])]),
        )
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"
