"""The checks before a launch, with vLLM's own opinion of real checkpoints, and a launch from one end to the other."""

from __future__ import annotations

import ssl
import subprocess
import sys
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import httpx
import pytest

from backends import engine
from backends.faults import faults_of
from backends.fleet_file import read_fleet, write_fleet
from backends.machine import Machine
from backends.preflight import preflight
from tests.vllm import servers

if TYPE_CHECKING:
    from pathlib import Path

    from backends.spec import LaunchSpec

CERTIFICATE: Final = servers.ROOT / "tests/fixtures/tls/localhost.pem"
KEY: Final = "sk-that-nobody-is-told"
pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]


async def test_vllm_takes_what_passes_our_checks_and_refuses_what_we_refuse(
    vllm_python: Path, checkpoints: Path
) -> None:
    all_of_them = servers.specs(checkpoints, "http://127.0.0.1:1", suffix=False)
    good = {
        one.name: one for one in all_of_them if one.name in ("baseline", "ngram", "draft-model", "dflash")
    }
    bad = {
        "no layers for it": replace(good["ngram"], method="mtp", draft_tokens=1),
        "two GPUs for the draft": replace(good["draft-model"], speculative={"draft_tensor_parallel_size": 2}),
        "a key that is none": replace(good["ngram"], speculative={"prompt_lookup_mx": 3}),
        "bounds the wrong way round": replace(
            good["ngram"], speculative={"prompt_lookup_min": 5, "prompt_lookup_max": 2}
        ),
    }
    past_the_block = replace(good["dflash"], name="past the block", draft_tokens=9, port=22_000)
    named = [replace(spec, name=name, port=21_000 + place) for place, (name, spec) in enumerate(bad.items())]
    answer = await engine.ask(str(vllm_python), [*good.values(), *named, past_the_block])
    assert answer.engine.platform == "cpu"
    assert {"ngram", "eagle3", "dflash", "dspark", "mtp"} <= answer.engine.methods

    placed = [replace(spec, port=20_000 + place) for place, spec in enumerate(good.values())]
    known = {f"{one.build} {one.wrong}" for one in faults_of(answer.engine, frozenset())}
    ours = preflight(placed, Machine("cpu", answer.engine))
    assert [str(one) for one in ours if one.wrong not in known] == []
    # What vLLM lets pass and should not: it does not compare N with DFlash's block.
    assert {one.server for one in answer.findings} == set(bad)
    wrong = {
        one.server: one.wrong for one in preflight([*named, past_the_block], Machine("cpu", answer.engine))
    }
    assert {*bad, "past the block"} <= set(wrong)
    assert wrong["past the block"] == "9 draft tokens do not fit a block of 4, of which one is the anchor"


def test_a_server_with_a_key_and_a_certificate_is_launched_and_handed_over(
    vllm_python: Path, checkpoints: Path, tmp_path: Path
) -> None:
    """From ``specroute launch`` to a gateway that serves the file which that has written."""
    (_, ngram, *_) = servers.specs(checkpoints, "http://127.0.0.1:1", suffix=False)
    args = {**ngram.args, "ssl-certfile": str(CERTIFICATE)}
    spec = replace(ngram, port=servers.free_port(), scheme="https", api_key_env="FLEET_KEY", args=args)
    planned, written = tmp_path / "fleet.yaml", tmp_path / "running.yaml"
    planned.write_text(write_fleet([spec]), encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="vllm-") as temporary:
        env = servers.environment(tmp_path, temporary)
        env |= {"FLEET_KEY": KEY, "SSL_CERT_FILE": str(CERTIFICATE), "PYTHONUNBUFFERED": "1"}
        words = ["--fleet", planned, "--python", vllm_python, "--write", written, "--logs", tmp_path / "logs"]
        command = [sys.executable, "-m", "gateway.cli", "launch", *map(str, words)]
        with subprocess.Popen(  # noqa: S603 - our own interpreter
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, cwd=servers.ROOT
        ) as launching:
            assert launching.stdout is not None
            said = []
            for line in launching.stdout:
                said.append(line.rstrip())
                if "All servers are ready" in line:
                    break
            else:
                raise AssertionError("\n".join(said))
            try:
                (running,) = _read(written)
                assert (running.url, running.api_key_env) == (spec.url, "FLEET_KEY")
                tls = ssl.create_default_context(cafile=str(CERTIFICATE))
                ask = {"model": running.served_model, "prompt": "zu zu zu", "max_tokens": 8}
                with httpx.Client(verify=tls, base_url=running.url, timeout=120.0, trust_env=False) as client:
                    assert client.post("/v1/completions", json=ask).status_code == 401
                    shown = {"authorization": f"Bearer {KEY}"}
                    answer = client.post("/v1/completions", json=ask, headers=shown)
                    assert (answer.status_code, answer.json()["usage"]["completion_tokens"]) == (200, 8)
            finally:
                launching.terminate()
                rest, _ = launching.communicate(timeout=120)
            assert launching.returncode == 0
    everything = [*said, rest, *(log.read_text(encoding="utf-8") for log in (tmp_path / "logs").iterdir())]
    assert KEY not in "\n".join(everything)
    assert "does not list its models" not in rest


def _read(file: Path) -> tuple[LaunchSpec, ...]:
    found = read_fleet(file.read_text(encoding="utf-8"), str(file))
    assert isinstance(found, tuple), found
    return found
