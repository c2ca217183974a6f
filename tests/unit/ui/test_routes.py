from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest
from fastapi import FastAPI

from gateway.ui import routes
from gateway.ui.decisions import Decisions
from gateway.ui.routes import Page
from tests.unit.ui.test_board import board
from tests.unit.ui.test_decisions import KNOWN, RECORD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gateway.ui.board import Board

__all__ = ["board"]
STATUS = {
    "policy": {"revision": "r", "fleet_revision": "f", "routes": ["a"], "problems": [], "warnings": []},
    "fleet": {"revision": "f", "backends": []},
    "learning": {"mode": "auto", "share": 1.0, "explored": 0, "roles": {}, "statements": {}},
}


@pytest.fixture
def asked() -> list[bytes]:
    return []


@pytest.fixture
def page(board: Board, asked: list[bytes]) -> Page:
    async def explained(body: bytes) -> str:
        asked.append(body)
        return "what was pasted is <no> request"

    return Page(
        board=board,
        decisions=Decisions(lambda: KNOWN),
        status=lambda: STATUS,
        explained=explained,
        models=lambda: ["tiny"],
        body_limit=1000,
    )


@pytest.fixture
async def client(page: Page) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    app.include_router(page.router())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as found:
        yield found


async def test_the_page_lets_nothing_in_from_outside(client: httpx.AsyncClient) -> None:
    answer = await client.get("/ui")
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in answer.text.replace("http-equiv", "")


@pytest.mark.parametrize(
    "name", ["page.js", "style.css", "icon.svg", "vendor/htmx.min.js", "vendor/LICENSES.txt"]
)
async def test_files_of_the_page_are_served(client: httpx.AsyncClient, name: str) -> None:
    answer = await client.get(f"/ui/static/{name}")
    assert answer.status_code == 200
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "name", ["%2e%2e/routes.py", "..%2froutes.py", "page.html", "vendor", "nothing.js", ""]
)
async def test_nothing_else_is(client: httpx.AsyncClient, name: str) -> None:
    assert (await client.get(f"/ui/static/{name}")).status_code == 404


async def test_what_can_be_shown_is_a_closed_set(client: httpx.AsyncClient) -> None:
    assert (await client.get("/ui/live?show=gain&window=60")).status_code == 200
    assert (await client.get("/ui/live?show=secrets")).status_code == 422
    assert (await client.get("/ui/live?window=1e9")).status_code == 422


async def test_the_board_is_there_as_data(client: httpx.AsyncClient, page: Page) -> None:
    page.decisions.on_record(RECORD)
    found = (await client.get("/-/board")).json()
    assert found["status"] == STATUS
    assert found["totals"]["requests_per_second"] == 5.0
    assert found["decisions"][0]["backend"] == "a"
    assert (await client.get("/ui/data")).json()["models"] == ["tiny"]


async def test_text_is_explained_as_a_chat_and_json_as_it_is(
    client: httpx.AsyncClient, asked: list[bytes]
) -> None:
    answer = await client.post("/ui/explain", data={"request": "Solve it.", "model": "tiny"})
    assert "&lt;no&gt;" in answer.text
    await client.post("/ui/explain", data={"request": ' {"model": "x"}', "model": "tiny"})
    await client.post("/ui/explain", content=b"\xff\x00")
    assert json.loads(asked[0]) == {"model": "tiny", "messages": [{"role": "user", "content": "Solve it."}]}
    assert asked[1] == b' {"model": "x"}'
    assert len(asked) == 3


async def test_too_much_to_explain_is_refused(client: httpx.AsyncClient, asked: list[bytes]) -> None:
    assert "more than" in (await client.post("/ui/explain", data={"request": "x" * 2000})).text
    assert asked == []


def events(text: str) -> list[dict[str, str]]:
    blocks = [block for block in text.split("\n\n") if block.startswith("event:")]
    return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "_STREAM_SECONDS", 0.02)
    monkeypatch.setattr(routes, "_LOOK_SECONDS", 0.01)


@pytest.mark.usefixtures("short")
async def test_the_stream_begins_with_the_last_and_goes_on_where_it_ended(
    client: httpx.AsyncClient, page: Page
) -> None:
    for _ in range(30):
        page.decisions.on_record(RECORD)
    first = events((await client.get("/ui/decisions")).text)
    assert [each["id"] for each in first] == [str(number) for number in range(19, 31)]
    assert "lowest cost" in first[0]["data"]
    page.decisions.on_record(RECORD)
    again = events((await client.get("/ui/decisions", headers={"last-event-id": "30"})).text)
    assert [each["id"] for each in again] == ["31"]
    # After a restart of the gateway numbers begin anew.
    assert events((await client.get("/ui/decisions", headers={"last-event-id": "900"})).text) == []
    assert (await client.get("/ui/decisions", headers={"last-event-id": "9" * 5000})).status_code == 200


@pytest.mark.usefixtures("short")
async def test_viewers_are_bounded_and_counted_down(client: httpx.AsyncClient, page: Page) -> None:
    page._viewers = 32
    assert (await client.get("/ui/decisions")).status_code == 503
    page._viewers = 0
    await client.get("/ui/decisions")
    assert page._viewers == 0
