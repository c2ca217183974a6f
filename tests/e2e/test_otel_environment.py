"""A gateway in a container that brings OpenTelemetry's usual variables, with processes of its own."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import aiohttp
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from backends.sim.fleet import Member, run_fleet
from tests.e2e.test_drain import FLEET, POLICY, REQUEST, gateway

KINDS = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}


@pytest.fixture
def receiver():
    """Its address, and what it was sent: pairs of a path and the name of the service."""
    sent = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = KINDS[self.path].FromString(self.rfile.read(int(self.headers["content-length"])))
            (resource,) = body.resource_spans if self.path == "/v1/traces" else body.resource_metrics
            names = {one.key: one.value.string_value for one in resource.resource.attributes}
            sent.append((self.path, names["service.name"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", sent
        server.shutdown()
        thread.join()


@pytest.fixture
async def asked(tmp_path, monkeypatch):
    """Asks one question of a gateway in an environment. Gives its metrics and the rest of its log."""

    async def ask(env):
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        members = [Member(REQUEST["model"]), Member(REQUEST["model"], "dflash", 7)]
        async with run_fleet(members) as fleet:
            process, url = await gateway(tmp_path, [one.url for one in fleet])
            try:
                async with aiohttp.ClientSession(url) as session:
                    body = REQUEST | {"max_tokens": 4}
                    async with session.post("/v1/chat/completions", json=body) as answer:
                        assert (await answer.read()).endswith(b"data: [DONE]\n\n")
                    async with asyncio.timeout(20.0):
                        while "specroute_requests_total{" not in (page := await metrics(session)):  # noqa: ASYNC110
                            await asyncio.sleep(0.01)
                process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(20.0):
                    return page, (await process.stderr.read()).decode()
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    return ask


async def metrics(session):
    async with session.get("/metrics") as answer:
        return await answer.text()


@pytest.mark.parametrize(
    ("env", "found"),
    [
        pytest.param(
            {"OTEL_SERVICE_NAME": "edge", "OTEL_TRACES_SAMPLER": "always_on"},
            {"/v1/traces", "/v1/metrics"},
            id="both",
        ),
        pytest.param(
            {"OTEL_RESOURCE_ATTRIBUTES": "service.name=edge", "OTEL_TRACES_EXPORTER": "none"},
            {"/v1/metrics"},
            id="metrics",
        ),
    ],
)
async def test_the_usual_variables_alone_send_what_they_ask_for(asked, receiver, env, found):
    address, sent = receiver
    await asked(env | {"OTEL_EXPORTER_OTLP_ENDPOINT": address})
    assert set(sent) == {(path, "edge") for path in found}


async def test_disabled_sends_nothing_and_the_metrics_page_is_whole(asked, receiver):
    address, sent = receiver
    page, _ = await asked({"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_SDK_DISABLED": "true"})
    assert sent == []
    assert "specroute_backend_healthy{" in page


async def test_what_cannot_be_used_is_told_and_ends_nothing(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    wrong = {"BSP_MAX_QUEUE_SIZE": "many", "METRIC_EXPORT_INTERVAL": "-1", "EXPORTER_OTLP_TIMEOUT": "soon"}
    (tmp_path / "fleet.yaml").write_text(FLEET.format(address, address))
    (tmp_path / "policy.yaml").write_text(POLICY)
    arguments = ("serve", "--fleet", tmp_path / "fleet.yaml", "--policy", tmp_path / "policy.yaml")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway.cli", *arguments, "--port", "0", "--otlp-endpoint", address,
        stderr=asyncio.subprocess.PIPE, env=os.environ | {f"OTEL_{name}": value for name, value in wrong.items()},
    )  # fmt: skip
    said = ""
    async with asyncio.timeout(30.0):
        async for line in process.stderr:
            said += line.decode()
            if "serving on" in said:
                break
        process.send_signal(signal.SIGTERM)
        said += (await process.stderr.read()).decode()
        assert await process.wait() == 0
    assert [said.count(f"OTEL_{name} is left out") for name in wrong] == [1] * len(wrong)
    assert "Traceback" not in said
