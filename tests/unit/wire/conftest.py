import asyncio

import pytest
import uvloop

from tests.asgi import Conversation


def pytest_asyncio_loop_factories(config, item):
    """What speaks to sockets is tested on both loops; the rest of the package on asyncio's."""
    loops = {"asyncio": asyncio.new_event_loop}
    if item.path.name in {"test_pipe.py", "test_upstream.py"} or item.path.parent.name == "lean":
        loops["uvloop"] = uvloop.new_event_loop
    if item.path.name in {"test_protocol.py", "test_slow_clients.py"}:
        return {"uvloop": uvloop.new_event_loop}
    return loops


@pytest.fixture(params=[False, True], ids=["messages", "pipe"])
def piped(request, monkeypatch):
    """Answers go to the client by messages of ASGI, or through the pipe."""
    monkeypatch.setattr(Conversation, "piped", request.param)
    return request.param
