from __future__ import annotations

import io
import json
import logging
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gateway.core.outcome import Trace
from gateway.telemetry.logging import configure
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
    configure("info", "json", out)
    logging.getLogger("gateway.runtime.fleet").info("backend %s is back", "a")
    logging.getLogger("gateway.runtime.fleet").debug("nothing")
    (line,) = lines(out)
    assert line["message"] == "backend a is back"
    assert (line["level"], line["logger"]) == ("info", "gateway.runtime.fleet")
    assert line["time"].endswith("Z")
    assert "trace_id" not in line


def test_a_line_of_a_request_has_its_trace() -> None:
    out = io.StringIO()
    configure("debug", "json", out)
    token = CURRENT.set(Trace("a" * 32, "b" * 16))
    logging.getLogger("gateway").debug("in a request")
    CURRENT.reset(token)
    (line,) = lines(out)
    assert (line["trace_id"], line["span_id"]) == ("a" * 32, "b" * 16)


def test_a_traceback_shows_no_local_variables() -> None:
    out = io.StringIO()
    configure("info", "json", out)
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
    configure("debug", "json", out)
    for name in ("httpx", "httpcore.http11", "asyncio", "watchfiles.main", "uvicorn.error"):
        logging.getLogger(name).debug("headers: canary")
        logging.getLogger(name).info("headers: canary")
        logging.getLogger(name).warning("beware")
    assert [line["message"] for line in lines(out)] == ["beware"] * 5


def test_text_is_for_people() -> None:
    out = io.StringIO()
    configure("warning", "text", out)
    logging.getLogger("gateway.app").warning("it is late")
    logging.getLogger("gateway.app").info("nothing")
    assert out.getvalue().rstrip().endswith("WARNING gateway.app: it is late")


def test_a_line_goes_to_what_stderr_is_when_it_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", first)
        configure("info")
    first.close()
    logging.getLogger("gateway").info("still there")
    assert capsys.readouterr().err.endswith("INFO gateway: still there\n")


def test_what_is_no_json_becomes_text() -> None:
    out = io.StringIO()
    configure("info", "json", out)
    logging.getLogger("gateway").info("object %s", {1, 2}, extra={"odd": object()})
    assert lines(out)[0]["message"] == "object {1, 2}"
