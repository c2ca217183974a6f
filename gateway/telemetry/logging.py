"""How the process logs: JSON or text on stderr, with the trace of the request, and never content or keys.

Only the gateway's own loggers follow the level that is asked for. Those of libraries stay at warnings: at
debug they tell of headers. Lines are written by a thread of their own: nobody may read stderr.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gateway.telemetry import stderr
from gateway.telemetry.lines import Lines
from gateway.telemetry.trace_context import CURRENT

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

    Event = MutableMapping[str, Any]

JSON: Final = "json"
TEXT: Final = "text"

_OURS: Final = ("gateway", "backends")
_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


_LAST_SECONDS: Final = 2.0
"""How long the last lines may take: nobody may read them."""


@contextmanager
def logging_to_stderr(level: str, form: str = TEXT) -> Iterator[None]:
    """Let the process log to stderr; at the end wait until the lines are written, but not for long.

    A forked process needs a context of its own: the thread that writes is not in it.

    Args:
        level: Least level of the gateway's own lines: ``debug``, ``info``, ``warning`` or ``error``.
        form: ``json`` or ``text``.
    """
    handler = _Queued()
    configure(level, form, handler)
    handler.lines.start()
    try:
        yield
    finally:
        handler.lines.close(_LAST_SECONDS)


def configure(level: str, form: str, handler: logging.Handler) -> None:
    """Let a handler have all lines; level and form as of :func:`logging_to_stderr`."""
    handler.setFormatter(_json() if form == JSON else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in _OURS:
        logging.getLogger(name).setLevel(level.upper())


def dropped() -> int:
    """Lines that did not get to stderr: they came too fast, or nothing took them."""
    return sum(each.lines.dropped for each in logging.getLogger().handlers if isinstance(each, _Queued))


class _Queued(logging.Handler):
    """Hands lines to the thread that writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Lines[str] = Lines("log", _encoded, stderr.write, at_once=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Make a line where what it tells of is still as it was; never blocks and never raises."""
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - whatever it is; the usual handler would write to stderr
            line = f"a line of {record.pathname}:{record.lineno} cannot be formatted"
        self.lines.put(line)


def _encoded(line: str) -> bytes:
    return f"{line}\n".encode(errors="backslashreplace")


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
