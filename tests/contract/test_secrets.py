"""Keys of clients and servers stay where they belong: not in logs, metrics, answers, or on another's wire."""

import json
import logging

import aiohttp
import pytest

from gateway.app import Gateway
from gateway.cli.running import serving
from gateway.runtime.reload import load_files
from gateway.settings import Settings
from tests.contract.stack import listening

CLIENTS, SERVERS = "canary-of-a-client", "canary-of-a-server"
FLEET = """\
version: 1
backends:
  - {{name: a, url: "{0}", model: m, api_key_env: KEY}}
  - {{name: b, url: "http://127.0.0.1:1", model: m, api_key_env: KEY}}
"""
POLICY = """\
version: 1
routes:
  - {name: all, prefer: [b, a]}
"""
SENT = {
    "authorization": f"Bearer {CLIENTS}",
    "x-api-key": CLIENTS,
    "cookie": f"session={CLIENTS}",
    "proxy-authorization": f"Basic {CLIENTS}",
}


@pytest.mark.parametrize("upstream", ["lean", "httpx"])
async def test_no_key_leaves_by_a_log_a_metric_or_an_error(tmp_path, upstream, caplog):
    seen = []

    async def server(scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        seen.append(scope)
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b'{"error":{"message":"who are you?"}}'})

    caplog.set_level(logging.DEBUG)
    records, said = [], []
    async with listening(server) as url:
        (tmp_path / "fleet.yaml").write_text(FLEET.format(url))
        (tmp_path / "policy.yaml").write_text(POLICY)
        settings = Settings(
            fleet=tmp_path / "fleet.yaml", policy=tmp_path / "policy.yaml", port=0, upstream=upstream,
            probe_interval=60.0, scrape_interval=60.0,
        )  # fmt: skip
        loaded = load_files(settings.fleet, settings.policy, {"KEY": SERVERS})
        async with (
            serving(Gateway(settings, loaded, on_record=[records.append]), settings) as gateway,
            aiohttp.ClientSession(gateway, headers=SENT) as session,
        ):
            for path, body in (
                ("/v1/chat/completions", b'{"model":"m","messages":[]}'),
                ("/v1/chat/completions", b"{"),
                ("/v1/chat/completions", b'{"model":"nobody"}'),
                ("/-/decide", b'{"model":"m","messages":[]}'),
                ("/-/policy/check", b"version: 1\n"),
            ):
                async with session.post(
                    path, data=body, headers={"content-type": "application/json"}
                ) as answer:
                    said += [str(answer.headers), await answer.text()]
            for path in ("/metrics", "/status", "/-/policy", "/v1/models"):
                async with session.get(path) as answer:
                    said.append(await answer.text())
    asked = [dict(scope["headers"]) for scope in seen if scope["method"] == "POST"]
    assert [headers[b"authorization"] for headers in asked] == [f"Bearer {SERVERS}".encode()]
    assert CLIENTS.encode() not in b"".join(b"".join(pair) for headers in asked for pair in headers.items())
    everywhere = "\n".join([caplog.text, *said, json.dumps(list(map(repr, records)))])
    assert len(records) == 3
    assert "who are you?" in everywhere
    assert CLIENTS not in everywhere
    assert SERVERS not in everywhere


MISTAKEN = """\
version: 1
backends:
  - {{name: a, url: "{0}", model: m, api_key_env: sk-{1}}}
  - {{name: b, url: "me:{1}@127.0.0.1:1", model: m, draft_tokens: sk-{1}, sk-{1}: 1}}
  - {{name: c, url: "http://127.0.0.1:2/v1?api_key={1}", model: m, labels: {{sk-{1}: 1}}}}
"""


async def test_a_key_in_the_wrong_place_of_a_file_is_not_repeated(tmp_path, caplog):
    async def server(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with listening(server) as url:
        (tmp_path / "fleet.yaml").write_text(FLEET.format(url))
        (tmp_path / "policy.yaml").write_text(POLICY)
        settings = Settings(fleet=tmp_path / "fleet.yaml", policy=tmp_path / "policy.yaml", port=0)
        loaded = load_files(settings.fleet, settings.policy, {"KEY": SERVERS})
        async with (
            serving(Gateway(settings, loaded), settings) as gateway,
            aiohttp.ClientSession(gateway) as session,
        ):
            (tmp_path / "fleet.yaml").write_text(MISTAKEN.format(url, SERVERS))
            async with session.post("/-/reload") as answer:
                assert answer.status == 422
                said = [await answer.text()]
            for path in ("/status", "/-/policy", "/-/board", "/ui/live"):
                async with session.get(path) as answer:
                    said.append(await answer.text())
    places = ("backends[0].api_key_env", "backends[1].url", "backends[1].draft_tokens", "backends[2].url")
    assert all(place in text for place in places for text in (said[0], caplog.text))
    assert SERVERS not in "\n".join([*said, caplog.text])
