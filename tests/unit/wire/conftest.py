import asyncio

import uvloop


def pytest_asyncio_loop_factories(config, item):
    """What speaks to sockets is tested on both loops; the rest of the package on asyncio's."""
    loops = {"asyncio": asyncio.new_event_loop}
    if item.path.name == "test_upstream.py" or item.path.parent.name == "lean":
        loops["uvloop"] = uvloop.new_event_loop
    if item.path.name == "test_protocol.py":
        return {"uvloop": uvloop.new_event_loop}
    return loops
