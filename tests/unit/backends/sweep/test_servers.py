from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backends import render
from backends.machine import Engine, Machine, port_is_free
from backends.spec import LaunchSpec
from backends.supervise import Patience
from backends.sweep import servers as module
from backends.sweep.model import BASELINE, Candidate
from backends.sweep.servers import Given, Launched, NoServerError, Place, ready_within, spec_of

if TYPE_CHECKING:
    from collections.abc import Sequence

FAKE = Path(__file__).parents[1] / "fake_vllm.py"
METHODS = frozenset({"ngram"})


def launched(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str = "none",
    *,
    draft_fault: str = "none",
    free=lambda _host, _port: True,
    ready: float = 20.0,
    key: str | None = None,
    refused: dict[str, str] | None = None,
) -> tuple[Launched, list[str]]:
    """Servers that are a script which looks like vLLM."""
    port = next(one for one in range(23_000, 30_000) if port_is_free("127.0.0.1", one))

    def argv(spec: LaunchSpec, python: str, **_: object) -> Sequence[str]:
        own = draft_fault if spec.speculates else fault
        return [python, str(FAKE), str(spec.port), spec.served_model, own, str(tmp_path / "mark")]

    monkeypatch.setattr(render, "argv", argv)
    spec = LaunchSpec("one", "some/model", "served", port=port, api_key_env=key)
    draft = LaunchSpec("two", "some/model", "served", method="ngram", draft_tokens=2, port=port)
    machine = Machine("cpu", Engine(sys.executable, "0.32.0", "cpu", METHODS), None, free, env=os.environ)
    said: list[str] = []
    patience = Patience(ready=ready, stop=1.0, poll=0.05)
    return (
        Launched(
            {"none": spec, "ngram": draft},
            machine,
            tmp_path,
            lambda *one: said.append(" ".join(one)),
            refused=refused,
            patience=patience,
        ),
        said,
    )


async def test_a_server_runs_while_it_is_measured_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers, said = launched(tmp_path, monkeypatch)
    async with servers.open(BASELINE) as place:
        port = int(place.url.rpartition(":")[2])
        assert place.model == "served"
        assert not port_is_free("127.0.0.1", port)
    assert port_is_free("127.0.0.1", port)
    assert said[0].startswith("none starting http://127.0.0.1")
    assert (tmp_path / "none.log").read_bytes().startswith(b"loading")


async def test_a_server_that_does_not_start_is_told_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers, _ = launched(tmp_path, monkeypatch, "refuse")
    with pytest.raises(
        NoServerError, match=r"exit code 1 before it was ready(.|\n)*ValueError: no such draft"
    ):
        async with servers.open(BASELINE):
            pass


async def test_a_server_that_is_never_ready_is_waited_for_only_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers, _ = launched(tmp_path, monkeypatch, "never", ready=1.0)
    with pytest.raises(NoServerError, match="not ready"):
        async with servers.open(BASELINE):
            pass


async def test_a_server_that_hangs_while_it_loads_is_waited_for_by_what_others_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    def within(most: float, slowest: float) -> float:
        waited.append(slowest)
        return 1.0 if slowest else most

    monkeypatch.setattr(module, "ready_within", within)
    servers, _ = launched(tmp_path, monkeypatch, draft_fault="never", ready=60.0)
    async with servers.open(BASELINE):
        pass
    with pytest.raises(NoServerError, match="not ready after 1 s"):
        async with servers.open(Candidate("ngram", 4)):
            pass
    assert waited[0] == 0.0 < waited[1]


@pytest.mark.parametrize(
    ("slowest", "within"), [(0.0, 3600.0), (10.0, 900.0), (300.0, 1500.0), (1000.0, 3600.0)]
)
def test_others_say_how_long_a_server_may_load(slowest: float, within: float) -> None:
    assert ready_within(3600.0, slowest) == within


async def test_a_port_that_somebody_else_has_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers, _ = launched(tmp_path, monkeypatch, free=port_is_free)
    place = ("127.0.0.1", spec_of(servers._specs, BASELINE).port)
    with socket.create_server(place), pytest.raises(NoServerError, match="port"):
        async with servers.open(BASELINE):
            pass


async def test_a_server_with_a_key_is_started_with_it_and_asked_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEPT_KEY", "secret")
    servers, _ = launched(tmp_path, monkeypatch, key="SWEPT_KEY")
    async with servers.open(BASELINE) as place:
        assert place.key == "secret"


async def test_what_vllm_refuses_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers, said = launched(tmp_path, monkeypatch, refused={"ngram-4": "vLLM refuses it"})
    with pytest.raises(NoServerError, match="vLLM refuses it"):
        async with servers.open(Candidate("ngram", 4)):
            pass
    assert said == []


async def test_what_cannot_run_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers, said = launched(tmp_path, monkeypatch, free=lambda _host, _port: False)
    with pytest.raises(NoServerError, match="port"):
        async with servers.open(Candidate("ngram", 4)):
            pass
    with pytest.raises(NoServerError, match="no way to start dflash"):
        async with servers.open(Candidate("dflash", 7)):
            pass
    assert said == []


def test_a_candidate_is_started_with_its_own_draft_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers, _ = launched(tmp_path, monkeypatch)
    spec = spec_of(servers._specs, Candidate("ngram", 8))
    assert (spec.name, spec.method, spec.draft_tokens) == ("ngram-8", "ngram", 8)


async def test_a_running_server_that_does_not_answer_is_not_measured() -> None:
    servers = Given({BASELINE: Place("http://127.0.0.1:1", "served")}, patience=0.1)
    with pytest.raises(NoServerError, match=r"http://127\.0\.0\.1:1 does not answer"):
        async with servers.open(BASELINE):
            pass
    with pytest.raises(NoServerError, match="no server of mtp-1 was named"):
        async with servers.open(Candidate("mtp", 1)):
            pass


async def test_a_running_server_that_takes_connections_and_says_nothing_is_waited_for_no_longer() -> None:
    calls: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: calls.append(writer), "127.0.0.1", 0)
    async with silent:
        place = Place(f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}", "served")
        with pytest.raises(NoServerError, match="does not answer"):
            async with Given({BASELINE: place}, patience=1.0).open(BASELINE):
                pass
        assert len(calls) == 1
        calls[0].close()
