from __future__ import annotations

import io
import json
import logging
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest

from gateway.core.outcome import Trace
from gateway.telemetry.logging import configure, dropped, logging_to_stderr
from gateway.telemetry.trace_context import CURRENT

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("gateway")
    handlers, level, own = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:], root.level = handlers, level
    ours.setLevel(own)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_json_with_time_level_logger_and_message() -> None:
    out = io.StringIO()
    configure("info", "json", logging.StreamHandler(out))
    logging.getLogger("gateway.runtime.fleet").info("backend %s is back", "a")
    logging.getLogger("gateway.runtime.fleet").debug("nothing")
    (line,) = lines(out)
    assert line["message"] == "backend a is back"
    assert (line["level"], line["logger"]) == ("info", "gateway.runtime.fleet")
    assert line["time"].endswith("Z")
    assert "trace_id" not in line


def test_a_line_of_a_request_has_its_trace() -> None:
    out = io.StringIO()
    configure("debug", "json", logging.StreamHandler(out))
    token = CURRENT.set(Trace("a" * 32, "b" * 16))
    logging.getLogger("gateway").debug("in a request")
    CURRENT.reset(token)
    (line,) = lines(out)
    assert (line["trace_id"], line["span_id"]) == ("a" * 32, "b" * 16)


def test_a_traceback_shows_no_local_variables() -> None:
    out = io.StringIO()
    configure("info", "json", logging.StreamHandler(out))
    try:
        key = "canary-of-a-key"
        raise ValueError(len(key))  # noqa: TRY301
    except ValueError:
        logging.getLogger("gateway").exception("it failed")
    (line,) = lines(out)
    assert "ValueError: 15" in line["exception"]
    assert "raise ValueError(len(key))" in line["exception"]
    assert "canary" not in line["exception"].replace('key = "canary-of-a-key"', "")


def test_libraries_say_nothing_but_warnings_even_at_debug() -> None:
    out = io.StringIO()
    configure("debug", "json", logging.StreamHandler(out))
    for name in ("httpx", "httpcore.http11", "asyncio", "watchfiles.main", "uvicorn.error"):
        logging.getLogger(name).debug("headers: canary")
        logging.getLogger(name).info("headers: canary")
        logging.getLogger(name).warning("beware")
    assert [line["message"] for line in lines(out)] == ["beware"] * 5


def test_text_is_for_people() -> None:
    out = io.StringIO()
    configure("warning", "text", logging.StreamHandler(out))
    logging.getLogger("gateway.app").warning("it is late")
    logging.getLogger("gateway.app").info("nothing")
    assert out.getvalue().rstrip().endswith("WARNING gateway.app: it is late")


def test_lines_are_written_before_the_end_of_the_process(capfd: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr("info"):
        for number in range(50):
            logging.getLogger("gateway").info("line %d ä\ud800", number)
    lines = capfd.readouterr().err.splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == [f"line {at} ä\\ud800" for at in range(50)]


def test_a_line_is_written_as_soon_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.telemetry.lines._INTERVAL", 600.0)
    written = threading.Event()
    monkeypatch.setattr("gateway.telemetry.stderr.write", lambda _: written.set())
    with logging_to_stderr("info"):
        logging.getLogger("gateway").info("at once")
        assert written.wait(20)


def test_what_does_not_get_to_stderr_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: bytes) -> None:
        raise OSError

    monkeypatch.setattr("gateway.telemetry.stderr.write", full)
    with logging_to_stderr("info"):
        logging.getLogger("gateway").info("lost")
    assert dropped() >= 1


def test_a_line_that_cannot_be_made_says_where_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr("info"):
        logging.getLogger("gateway").info("%d", "no number")
    assert re.fullmatch(r"a line of \S+test_logging\.py:\d+ cannot be formatted\n", capfd.readouterr().err)


def test_what_is_no_json_becomes_text() -> None:
    out = io.StringIO()
    configure("info", "json", logging.StreamHandler(out))
    logging.getLogger("gateway").info("object %s", {1, 2}, extra={"odd": object()})
    assert lines(out)[0]["message"] == "object {1, 2}"
