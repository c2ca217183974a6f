"""Panels and dashboards as data, and the JSON that Grafana loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gateway.telemetry.dashboards.promql import growth
from gateway.telemetry.names import POLICY_LOADS, REQUESTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.telemetry.names import Metric

COLUMNS: Final = 24
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_SCHEMA: Final = 39


@dataclass(frozen=True, slots=True)
class Query:
    """One expression with the name of its series, as in ``{{backend}}``."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        title: What it shows, in a few words.
        help: What it means and what to look for.
        queries: What it shows.
        unit: Grafana's name of the unit: ``s``, ``percentunit``, ``reqps``, ``short``, …
        kind: ``timeseries``, ``stat`` or ``matrix`` (a table of two labels).
        rows: Label of a matrix' rows.
        columns: Label of its columns.
        width: Of 24 columns.
        steps: Colours from a value on, the first from below.
        stacked: Whether the series add up.
        exemplars: Whether single requests are shown, each with its trace.
    """

    title: str
    help: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = "timeseries"
    rows: str = ""
    columns: str = ""
    width: int = 12
    steps: tuple[tuple[str, float | None], ...] = ()
    stacked: bool = False
    exemplars: bool = False


SPEED_STEPS: Final = (("red", None), ("yellow", 0.97), ("green", 1.03))
"""Colours of a ratio that should be above 1."""

GOOD_AT_ONE: Final = (("red", None), ("green", 1.0))
GOOD_AT_ZERO: Final = (("green", None), ("red", 0.001))


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top of a dashboard: the values of a label."""

    name: str
    metric: Metric


WORKLOAD: Final = Variable("workload", REQUESTS)
BACKEND: Final = Variable("backend", REQUESTS)


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard.

    Attributes:
        name: Of its file and address, ``specroute-NAME``.
    """

    name: str
    title: str
    help: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()

    @property
    def queries(self) -> Iterator[Query]:
        """Every query of every panel."""
        for row in self.rows:
            for panel in row.panels:
                yield from panel.queries

    def grafana(self) -> dict[str, Any]:
        """As Grafana loads it."""
        return {
            "uid": f"specroute-{self.name}",
            "title": f"Specroute / {self.title}",
            "description": self.help,
            "tags": ["specroute"],
            "schemaVersion": _SCHEMA,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "10s",
            "time": {"from": "now-30m", "to": "now"},
            "links": [
                {
                    "type": "dashboards", "tags": ["specroute"], "asDropdown": True, "title": "Specroute",
                    "includeVars": True, "keepTime": True,
                }
            ],
            "templating": {"list": [_source(), *map(_choice, self.variables)]},
            "annotations": {"list": [_policy_loads()]},
            "panels": list(self._placed()),
        }  # fmt: skip

    def _placed(self) -> Iterator[dict[str, Any]]:
        number, top = 0, 0
        for row in self.rows:
            number += 1
            yield {
                "id": number, "type": "row", "title": row.title, "collapsed": False, "panels": [],
                "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
            }  # fmt: skip
            top += 1
            left = height = 0
            for panel in row.panels:
                if left + panel.width > COLUMNS:
                    left, top = 0, top + height
                    height = 0
                number += 1
                tall = 4 if panel.kind == "stat" else 8
                place = {"x": left, "y": top, "w": panel.width, "h": tall}
                yield {"id": number, "gridPos": place, **_grafana(panel)}
                left, height = left + panel.width, max(height, tall)
            top += height


def _grafana(panel: Panel) -> dict[str, Any]:
    matrix = panel.kind == "matrix"
    found: dict[str, Any] = {
        "type": "table" if matrix else panel.kind,
        "title": panel.title,
        "description": panel.help,
        "datasource": _SOURCE,
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
                "exemplar": panel.exemplars,
                **({"instant": True, "range": False, "format": "table"} if matrix else {}),
            }
            for number, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _field(panel), "overrides": []},
        "options": _options(panel),
    }
    if matrix:
        shape = {"rowField": panel.rows, "columnField": panel.columns, "valueField": "Value"}
        found["transformations"] = [{"id": "groupingToMatrix", "options": shape}]
    return found


def _field(panel: Panel) -> dict[str, Any]:
    field: dict[str, Any] = {"unit": panel.unit}
    if panel.kind == "timeseries":
        field["custom"] = {
            "lineWidth": 1,
            "fillOpacity": 40 if panel.stacked else 6,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none"},
        }
        if panel.unit in {"percentunit", "reqps", "s"}:
            field["min"] = 0
    if panel.kind == "matrix":
        field["custom"] = {"cellOptions": {"type": "color-background"}, "align": "center"}
    if panel.steps:
        field["thresholds"] = {
            "mode": "absolute",
            "steps": [{"color": colour, "value": value} for colour, value in panel.steps],
        }
        field["color"] = {"mode": "thresholds"}
    elif panel.kind == "matrix":
        field["color"] = {"mode": "continuous-RdYlGr" if panel.unit != "s" else "continuous-GrYlRd"}
    return field


def _options(panel: Panel) -> dict[str, Any]:
    if panel.kind == "timeseries":
        return {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    if panel.kind == "stat":
        return {
            "reduceOptions": {"calcs": ["lastNotNull"]},
            "colorMode": "value",
            "graphMode": "area",
            "textMode": "auto",
        }
    return {"cellHeight": "sm", "showHeader": True}


def _source() -> dict[str, Any]:
    return {"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus"}


def _choice(variable: Variable) -> dict[str, Any]:
    metric = variable.metric
    name = metric.prometheus
    return {
        "type": "query",
        "name": variable.name,
        "datasource": _SOURCE,
        "query": {"query": f"label_values({name}, {variable.name})", "refId": "values"},
        "definition": f"label_values({name}, {variable.name})",
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _policy_loads() -> dict[str, Any]:
    return {
        "name": "Policy loaded",
        "datasource": _SOURCE,
        "enable": True,
        "iconColor": "blue",
        "expr": f"{growth(POLICY_LOADS, how='max')} > 0",
        "titleFormat": "A policy came into force",
    }
