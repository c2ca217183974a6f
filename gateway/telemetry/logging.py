"""How the process logs: JSON or text on stderr, with the trace of the request, and never content or keys.

Only the gateway's own loggers follow the level that is asked for. Those of libraries stay at warnings: at
debug they tell of headers.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

import msgspec

from gateway.telemetry.trace_context import CURRENT

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    Event = MutableMapping[str, Any]

JSON: Final = "json"
TEXT: Final = "text"

_OURS: Final = ("gateway", "backends")
_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def configure(level: str, form: str = TEXT, stream: TextIO | None = None) -> None:
    """Set the process' logging up.

    Args:
        level: Least level of the gateway's own lines: ``debug``, ``info``, ``warning`` or ``error``.
        form: ``json`` or ``text``.
        stream: Where to; stderr if left out.
    """
    handler = _ToStderr() if stream is None else logging.StreamHandler(stream)
    handler.setFormatter(_json() if form == JSON else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in _OURS:
        logging.getLogger(name).setLevel(level.upper())


class _ToStderr(logging.StreamHandler[TextIO]):
    """Writes to what stderr is when a line comes: it may have been replaced, and the one before closed."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def _json() -> logging.Formatter:
    import structlog  # noqa: PLC0415 - with rich, which it loads, a tenth of the start and 5 MB

    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            _traced,
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            # Plain tracebacks: those of structlog hold local variables, and they hold prompts and keys.
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("message"),
            structlog.processors.JSONRenderer(serializer=_dumps),
        ],
    )


def _traced(_: object, __: str, event: Event) -> Event:
    """Add the trace of the request that the line was written in."""
    if (trace := CURRENT.get()) is not None:
        event["trace_id"], event["span_id"] = trace.trace_id, trace.span_id
    return event


def _dumps(event: Event, **_: object) -> str:
    return msgspec.json.encode(event, enc_hook=str, order="deterministic").decode()
