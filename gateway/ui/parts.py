"""The parts of the page that change, as HTML."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from gateway.ui.figures import milliseconds, number, percent, times
from gateway.ui.heat import left_out, method
from gateway.ui.markup import Html, join, tag

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.policy.explain import Explanation
    from gateway.ui.decisions import Line

STALE: Final = 15.0
"""Seconds after which a load is too old to be trusted, as for the alert."""

ROWS: Final = 100
"""Of the fleet's table."""

_MODES: Final = {
    "static": "does not decide: the policy's lists do",
    "shadow": "only watches",
    "canary": "decides for a share of the requests",
    "auto": "decides",
    "frozen": "decides and learns no more",
}


def live(part: str, *children: Html, **attributes: str) -> Html:
    """A part that takes the place of the one on the page."""
    return tag("div", *children, id=part, hx_swap_oob="innerHTML", **attributes)


def totals(found: dict[str, Any]) -> Html:
    """The numbers on top."""
    gain, best, failed = found["gain_over_baseline"], found["gain_over_best"], found["failed_share"]
    tiles = (
        ("Requests", number(found["requests_per_second"], 1), "per second", ""),
        ("Open", str(found["open"]), f"{found['waiting']} wait for a backend", ""),
        ("Failed", percent(failed, 2), "by our fault or a backend's", "bad" if failed else ""),
        ("A stream", number(found["stream_speed"], 0), "tokens per second", ""),
        (
            "First token",
            milliseconds(found["client_first_token"]),
            f"mean; {milliseconds(found['first_token'])} after dispatch",
            "",
        ),
        ("All answers", number(found["output_tokens_per_second"], 0), "tokens per second", ""),
        ("Gain", times(gain), "over no speculation, since the start", "good" if (gain or 0) > 1 else ""),
        ("As routed", times(best), "of the best single backend, since the start", ""),
    )
    return join(
        *(
            tag(
                "li",
                tag("span", name, class_="name"),
                tag("strong", value),
                tag("span", unit, class_="unit"),
                class_=mood or None,
            )
            for name, value, unit, mood in tiles
        )
    )  # fmt: skip


def share(workers: int) -> Html:
    """That the page shows one process of several, where it does."""
    words = f"One of {workers} worker processes and its share of the traffic; /metrics has all of them."
    return tag("p", words, class_="note") if workers > 1 else Html()


def positions(rows: list[dict[str, Any]]) -> Html:
    """Acceptance by position in numbers, for those who cannot see the chart."""
    if not rows:
        return tag("p", "No answer has told of its acceptance in this time.", class_="empty")
    most = max(len(row["shares"]) for row in rows)
    head = tag("tr", tag("th", "Backend", scope="col"), *(tag("th", at, scope="col") for at in range(most)))
    body = [
        tag(
            "tr",
            tag("th", row["backend"], tag("small", method(row)), scope="row"),
            *(tag("td", percent(share)) for share in row["shares"]),
            *(tag("td") for _ in range(most - len(row["shares"]))),
        )
        for row in rows
    ]
    return tag("table", tag("thead", head), tag("tbody", *body))


def fleet(backends: list[dict[str, Any]]) -> Html:
    """How every backend is, those that are out first."""
    every = len(backends)
    backends = sorted(backends, key=lambda backend: bool(backend["available"]))[:ROWS]
    heads = ("Backend", "Target", "State", "In flight", "Running", "Waiting", "KV cache", "Seen")
    table = tag(
        "table",
        tag("thead", tag("tr", *(tag("th", head, scope="col") for head in heads))),
        tag("tbody", *map(_backend, backends)),
    )
    return table if every <= ROWS else join(table, left_out(ROWS, every, "those that are out first"))


def policy(status: dict[str, Any]) -> Html:
    """The policy in force, and the last mistake."""
    problems = status["problems"]
    told = [*problems, *status["warnings"]]
    good = tag("p", tag("span", "in force", class_="tag good"), " what the files say")
    bad = tag(
        "p",
        tag("span", "kept", class_="tag bad"),
        " The files on disk have a mistake, so the last good policy stays in force.",
    )
    return join(
        bad if problems else good,
        tag(
            "dl",
            tag("dt", "Policy"), tag("dd", tag("code", status["revision"])),
            tag("dt", "Fleet"), tag("dd", tag("code", status["fleet_revision"])),
            tag("dt", "Routes"), tag("dd", ", ".join(status["routes"])),
        ),
        *(tag("pre", each["text"], class_="problem") for each in told),
    )  # fmt: skip


def advice(learning: dict[str, Any]) -> Html:
    """Who decides, the roles of servers, and what is advised."""
    roles = [
        tag("li", tag("strong", service), " ", ", ".join(members))
        for by_service in learning["roles"].values()
        for service, members in by_service.items()
    ]
    said = [
        tag("li", tag("strong", target), ": ", words)
        for target, statements in learning["statements"].items()
        for words in statements
    ]
    return join(
        tag("p", "The learnt score ", tag("strong", _MODES.get(learning["mode"], learning["mode"])), "."),
        join(tag("h3", "Servers kept for"), tag("ul", *roles)) if roles else Html(),
        join(tag("h3", "Advice"), tag("ul", *said)) if said else Html(),
    )


def decision(line: Line) -> Html:
    """A finished request as an item of the list."""
    moment = datetime.fromtimestamp(line.unix, UTC)
    mood = (
        "good" if line.status == "ok" else "quiet" if line.status in {"cancelled", "client_error"} else "bad"
    )
    return tag(
        "li",
        tag("time", moment.strftime("%H:%M:%S"), datetime=moment.isoformat(timespec="milliseconds")),
        tag("span", line.workload or "–", class_="work", title=f"confidence {line.confidence:.2f}"),
        tag("span", "→", aria_hidden="true"),
        tag("span", line.backend or "nowhere", class_="where"),
        tag("span", "to learn", class_="tag quiet") if line.explored else None,
        tag("span", line.why, class_="why"),
        tag("span", line.result, class_=f"result {mood}"),
        tag("code", line.request_id, class_="id"),
    )  # fmt: skip


def explanation(found: Explanation) -> Html:
    """Where a pasted request would go."""
    stands_for = f", which is {found.target}" if found.target != found.model else None
    return join(
        tag("p", found.verdict, class_="verdict"),
        tag(
            "dl",
            tag("dt", "Model"), tag("dd", found.model or "none", stands_for),
            tag("dt", "Workload"), tag("dd", found.classified, f" ({found.hint})" if found.hint else None),
            *((tag("dt", "Route"), tag("dd", f"{found.route}: {found.matched}")) if found.route else ()),
        ),
        _listed("Candidates, best first", ((one.backend, one.words) for one in found.candidates)),
        _listed("Out", ((one.backend, one.words) for one in found.rejected)),
        tag("p", found.baseline) if found.baseline else Html(),
    )  # fmt: skip


def mistake(message: str) -> Html:
    """What is wrong with what was pasted."""
    return tag("p", message, class_="problem", role="alert")


def _listed(title: str, pairs: Iterable[tuple[str, str]]) -> Html:
    items = [tag("li", tag("strong", name), " ", words) for name, words in pairs]
    return join(tag("h3", title), tag("ol", *items)) if items else Html()


def _backend(backend: dict[str, Any]) -> Html:
    state = (
        ("ready", "good") if backend["available"] else (str(backend["unavailable"]).replace("_", " "), "bad")
    )
    kv, age = backend["kv_usage"], backend["load_age_seconds"]
    busy = backend["in_flight"] / backend["limit"] if backend["limit"] else 1.0
    return tag(
        "tr",
        tag("th", backend["name"], tag("small", method(backend)), scope="row"),
        tag("td", backend["target"]),
        tag("td", tag("span", state[0], class_=f"tag {state[1]}"), tag("small", backend["reason"])),
        tag("td", _meter(busy), f"{backend['in_flight']} of {backend['limit']}"),
        tag("td", "?" if backend["running"] is None else backend["running"]),
        tag("td", "?" if backend["waiting"] is None else backend["waiting"]),
        tag("td", *(("?",) if kv is None else (_meter(kv), percent(kv)))),
        tag("td", _age(age)),
    )  # fmt: skip


def _age(seconds: float | None) -> Html | str:
    """When the load was last read; too long ago, and routing knows the gateway's own requests alone."""
    if seconds is None:
        return "never"
    return tag("span", f"{seconds:.1f} s ago", class_="tag bad" if seconds > STALE else None)


def _meter(share: float) -> Html:
    return tag("meter", value=f"{share:.3f}", max="1", high="0.9", optimum="0", aria_hidden="true")
