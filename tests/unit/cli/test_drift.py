from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner, Result

from gateway.cli import drift

if TYPE_CHECKING:
    from collections.abc import Iterator


def watch(share: float | None, *, drifted: bool = False) -> dict[str, Any]:
    return {
        "reference": {"answers": 500, "share": 0.9},
        "last": {"answers": 0 if share is None else 200, "share": share},
        "standard_errors": 9.25,
        "drifted": drifted,
    }


CLASSIFIER = {
    "answers": {"math": {"math": 450, "text": 51}, "code": {"code": 440, "math": 260}},
    "agreement": {"math": watch(None), "code": watch(0.5, drifted=True)},
}


def run(*arguments: str) -> Result:
    app = typer.Typer()
    drift.register(app)
    return CliRunner().invoke(app, arguments)


@contextmanager
def gateway(body: bytes, status: int = 200) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/status" else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def status(classifier: dict[str, Any]) -> bytes:
    return json.dumps({"policy": {}, "classifier": classifier}).encode()


def test_drift_is_told_with_the_matrix_and_by_the_exit_code() -> None:
    with gateway(status(CLASSIFIER)) as url:
        done = run(f"{url}/")
    assert done.exit_code == drift.DRIFTED
    rows = [" ".join(line.replace("│", " ").split()) for line in done.stdout.splitlines()]
    assert "math 0 0 450 0 51" in rows
    assert "code 90.0% of 500 50.0% 9.2 drifted" in rows
    assert rows[-1] == "Drifted: code."


def test_without_drift_all_is_well() -> None:
    with gateway(status({**CLASSIFIER, "agreement": {"math": watch(0.9)}})) as url:
        done = run(url)
    assert done.exit_code == 0
    assert done.stdout.rstrip().endswith("As many answers agree with their labels as usually do: math.")


def test_before_there_is_a_full_block_nothing_is_compared() -> None:
    with gateway(status({**CLASSIFIER, "agreement": {"math": watch(None)}})) as url:
        done = run(url)
    assert done.exit_code == 0
    assert "Nothing to compare yet: the first 500 answers" in done.stdout
    (row,) = (line for line in done.stdout.splitlines() if "90.0%" in line)
    assert row.replace("│", " ").split() == ["math", "90.0%", "of", "500", "–", "–"]


def test_a_gateway_that_has_answered_nothing_says_so() -> None:
    with gateway(status({"answers": {}, "agreement": {}})) as url:
        done = run(url)
    assert (done.exit_code, done.stdout) == (0, "No answer has been judged yet.\n")


def test_answers_to_own_labels_alone_are_shown_without_a_verdict_on_them() -> None:
    with gateway(status({"answers": {"legal": {"text": 1}}, "agreement": {}})) as url:
        done = run(url)
    assert done.exit_code == 0
    assert "of the last" not in done.stdout
    assert "Nothing to compare yet" in done.stdout


def test_the_same_as_json() -> None:
    with gateway(status(CLASSIFIER)) as url:
        done = run(url, "--json")
    assert done.exit_code == drift.DRIFTED
    assert json.loads(done.stdout) == CLASSIFIER | {"drifted": ["code"]}


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        (b"no", 503, "/status answers 503"),
        (b"no", 200, "tells nothing of classifier"),
        (b"{}", 200, "tells nothing of classifier"),
        (b"[]", 200, "tells nothing of classifier"),
    ],
)
def test_what_is_no_gateway_is_refused(body: bytes, code: int, says: str) -> None:
    with gateway(body, code) as url:
        done = run(url)
    assert done.exit_code == 2
    assert says in done.stderr


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nowhere", "http://[", "ftp://x"])
def test_an_address_that_cannot_be_asked_is_refused(url: str) -> None:
    done = run(url)
    assert done.exit_code == 2
    assert "cannot be asked" in done.stderr
