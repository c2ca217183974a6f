"""The report of a sweep, as Markdown and as one HTML page that needs nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from backends.sweep import panels, words
from backends.sweep.charts import legend

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backends.sweep.choose import Choice
    from backends.sweep.fleetplan import FleetPlan
    from gateway.policy.evidence import Evidence, Measurement, Range


@dataclass(frozen=True, slots=True)
class Report:
    """What is reported; ``words`` are its paragraphs, the most important first."""

    evidence: Evidence
    choice: Choice
    plans: Sequence[FleetPlan]
    words: Sequence[str]

    @property
    def title(self) -> str:
        """Its heading."""
        return f"What to run for {self.evidence.target}"

    def markdown(self) -> str:
        """The report as Markdown: words and tables."""
        parts = [
            f"# {self.title}",
            *self.words,
            _facts(self.evidence),
        ]
        parts += ["## Best of each workload", _markdown(WINNERS, _winners(self.choice))]
        parts += ["## All measurements", _markdown(CELLS, map(_cell, self.evidence.measurements))]
        return "\n\n".join(parts) + "\n"

    def html(self) -> str:
        """The report as a page: words, charts and tables."""
        paragraphs = "".join(
            f"<p{' class=lead' if not place else ''}>{escape(one)}</p>"
            for place, one in enumerate(self.words)
        )
        facts = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in words.facts(self.evidence))
        sections = "".join(
            f"<section><h2>{escape(one.title)}</h2><p>{escape(one.words)}</p>"
            f"{legend(one.legend) if len(one.legend) > 1 else ''}"
            f"<div class=charts>{_figures(one)}</div></section>"
            for one in panels.sections(self.evidence)
            if one.charts
        )
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<style>{_STYLE}</style></head><body><main><h1>{escape(self.title)}</h1>{paragraphs}"
            f"<dl>{facts}</dl>{sections}<section><h2>Best of each workload</h2>"
            f"{_table(WINNERS, _winners(self.choice))}</section>"
            "<section><h2>All measurements</h2><details><summary>Show the table</summary>"
            f"{_table(CELLS, map(_cell, self.evidence.measurements))}</details></section>"
            "</main></body></html>\n"
        )


WINNERS = ("workload", "in flight", "prompts", "sampling", "best", "speed-up (95 %)", "may be as fast")
CELLS = (
    "configuration", "workload", "in flight", "prompts", "sampling", "requests", "failed", "tokens/s (95 %)",
    "speed-up (95 %)", "accepted length", "acceptance", "TTFT p50 / p99 ms", "TPOT ms",
    "step cost", "different", "GPU memory GiB",
)  # fmt: skip


def _figures(section: panels.Section) -> str:
    return "".join(f"<figure>{chart.svg()}</figure>" for chart in section.charts)


def _winners(choice: Choice) -> Iterator[tuple[str, ...]]:
    for one in choice.winners:
        bounds = f" ({one.low:.2f}–{one.high:.2f})" if one.low is not None and one.high is not None else ""
        speedup = "–" if one.candidate.is_baseline else f"{one.speedup:.2f}{bounds}"
        tied = ", ".join(who.label for who in one.tied[:4]) + (" …" if len(one.tied) > 4 else "")
        where = one.workload, str(one.concurrency), one.prompt, one.sampling
        yield *where, one.candidate.label, speedup, tied or "–"


def _cell(one: Measurement) -> tuple[str, ...]:
    ttft = "–" if one.ttft_p50 is None else f"{one.ttft_p50 * 1e3:.0f} / {(one.ttft_p99 or 0) * 1e3:.0f}"
    return (
        one.label, one.workload, str(one.concurrency), one.prompt, one.sampling, str(one.requests),
        str(one.failures), _spelled(one.tokens_per_second, 0),
        "–" if one.speedup is None or one.is_baseline else _spelled(one.speedup, 2),
        "–" if one.mean_accepted_length is None else f"{one.mean_accepted_length:.2f}",
        "–" if one.acceptance_rate is None else f"{one.acceptance_rate:.0%}", ttft,
        "–" if one.tpot is None else f"{one.tpot.value * 1e3:.2f}",
        "–" if one.cost is None else f"{one.cost:.2f}",
        f"{one.different} of {one.compared}" if one.compared else "–",
        "–" if one.memory is None else f"{one.memory / 1024:.1f}",
    )  # fmt: skip


def _spelled(found: Range, digits: int) -> str:
    bounds = ""
    if found.low is not None and found.high is not None:
        bounds = f" ({found.low:,.{digits}f}–{found.high:,.{digits}f})"
    return f"{found.value:,.{digits}f}{bounds}"


def _facts(evidence: Evidence) -> str:
    return "\n".join(f"- {what}: {value}" for what, value in words.facts(evidence))


def _markdown(head: Sequence[str], rows: Iterator[tuple[str, ...]] | map[tuple[str, ...]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def _table(head: Sequence[str], rows: Iterator[tuple[str, ...]] | map[tuple[str, ...]]) -> str:
    heads = "".join(f"<th>{escape(one)}</th>" for one in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div class=scroll><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"


_STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#5b6570;--line:#d8dee4;--page:#fff;--card:#f6f8fa}
@media(prefers-color-scheme:dark){
:root{--ink:#e6edf3;--soft:#9aa5b1;--line:#30363d;--page:#0d1117;--card:#161b22}}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
main{max-width:1120px;margin:0 auto;padding:32px 24px 64px}
h1{font-size:28px;line-height:1.25;margin:0 0 16px;overflow-wrap:anywhere}
h2{font-size:20px;margin:40px 0 6px}
p{max-width:78ch;margin:0 0 12px}.lead{font-size:19px;font-weight:600}section>p{color:var(--soft)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;background:var(--card);
border:1px solid var(--line);border-radius:8px;padding:12px 16px;margin:20px 0;font-size:14px}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(310px,1fr));gap:12px}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:6px}
svg{display:block;width:100%;height:auto}svg text{font-family:system-ui,sans-serif;fill:var(--soft)}
.title{font-size:12.5px;font-weight:600}svg .title{fill:var(--ink)}
.tick{font-size:10px}.axis{font-size:10.5px}
.name{paint-order:stroke;stroke:var(--card);stroke-width:3px;stroke-linejoin:round}
.mid{text-anchor:middle}.end{text-anchor:end}
.grid{stroke:var(--line);stroke-width:.7}.ref{stroke:var(--soft);stroke-width:1;stroke-dasharray:2 3}
.line{fill:none;stroke-width:1.8}.bar{stroke-width:1.2;opacity:.7}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:14px;margin:0 0 8px}
.legend span{display:inline-flex;align-items:center;gap:6px}.key{width:14px;height:14px}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px;white-space:nowrap}
th,td{text-align:left;padding:4px 12px 4px 0;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:600}
td{font-variant-numeric:tabular-nums}details summary{cursor:pointer;color:var(--soft);margin:6px 0}
"""
