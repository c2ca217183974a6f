"""Real servers and the gateway in front of them, started once for all tests of this folder."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from anyio.from_thread import start_blocking_portal

from backends.fleet_file import write_fleet
from gateway.app import Gateway
from gateway.cli.running import serving
from gateway.policy.load import Invalid
from gateway.runtime.reload import load_files
from gateway.settings import Settings
from tests.vllm import chain, servers
from tests.vllm.asking import ask
from tests.vllm.collector import Collector, collecting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gateway.core.outcome import Record
    from tests.vllm.servers import Server

PYTHON = "SPECROUTE_VLLM_PYTHON"

POLICY = """\
version: 1
models: {made-up: tiny}
allow_pin: true
routes:
  - name: code
    match: {workload: code}
    prefer: [ngram]
  - name: default
    prefer: [draft-model, baseline]
"""


class Records:
    """The records of finished requests by their ids."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._changed = threading.Condition()

    def add(self, record: Record) -> None:
        with self._changed:
            self._records[record.request_id] = record
            self._changed.notify_all()

    def of(self, request_id: str, within: float = 30.0) -> Record:
        """The record of a request, as soon as there is one, within so many seconds."""
        with self._changed:
            assert self._changed.wait_for(lambda: request_id in self._records, timeout=within)
            return self._records[request_id]


@dataclass(frozen=True, slots=True)
class Front:
    """The gateway as it runs in this process."""

    url: str
    records: Records


_PATIENCE: Final = pytest.mark.timeout(900)
"""The first test waits for a dozen servers, which begin together on as many CPUs as there are."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Tests that start servers of their own come first: a dozen others would take time from them.
    here = Path(__file__).parent

    def waits(item: pytest.Item) -> bool:
        return here in item.path.parents and "fleet" in getattr(item, "fixturenames", ())

    items.sort(key=waits)
    for item in filter(waits, items):
        item.add_marker(_PATIENCE)


def pytest_runtest_setup() -> None:
    if not os.environ.get(PYTHON):
        pytest.skip(f"{PYTHON} names no interpreter with vLLM: make test-vllm sets it")


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    return Path(os.environ[PYTHON])


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="session")
def checkpoints(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    subprocess.run(  # noqa: S603 - our own interpreter
        [vllm_python, "-m", "tests.vllm.checkpoints", folder], cwd=servers.ROOT, check=True, timeout=120
    )
    return folder


@pytest.fixture(scope="session")
def fleet(
    vllm_python: Path, checkpoints: Path, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Server]]:
    scratch = tmp_path_factory.mktemp("vllm")
    wanted = servers.specs(checkpoints, f"{collector.url}/v1/traces", suffix=servers.has_suffix(vllm_python))
    with servers.running(vllm_python, wanted, scratch) as fleet:
        # Prompt lookup is compiled for some seconds when it first runs.
        ask(fleet["ngram"].url, chain.LOOPING)
        yield fleet


@pytest.fixture(scope="session")
def front(
    fleet: dict[str, Server], collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Front]:
    with fronting(fleet.values(), POLICY, collector, tmp_path_factory.mktemp("gateway")) as front:
        yield front


@contextlib.contextmanager
def fronting(fleet: Iterable[Server], policy: str, collector: Collector, folder: Path) -> Iterator[Front]:
    """Run a gateway in front of servers."""
    settings = Settings(
        fleet=folder / "fleet.yaml",
        policy=folder / "policy.yaml",
        port=0,
        otlp_endpoint=collector.url,
        scrape_interval=0.5,  # more often, a dozen servers would be busy with telling their counters
        counter_window=1.0,
        counter_lag=3.0,
    )
    settings.fleet.write_text(fleet_file(fleet), encoding="utf-8")
    settings.policy.write_text(policy, encoding="utf-8")
    loaded = load_files(settings.fleet, settings.policy, os.environ)
    assert not isinstance(loaded, Invalid), loaded.problems
    records = Records()
    with pytest.MonkeyPatch.context() as patch, start_blocking_portal() as portal:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        gateway = Gateway(settings, loaded, on_record=[records.add])
        with portal.wrap_async_context_manager(serving(gateway, settings)) as url:
            yield Front(url, records)


def fleet_file(fleet: Iterable[Server]) -> str:
    """The fleet file as specroute launch writes it; by construction all targets give the same answers."""
    return write_fleet(replace(server.spec, target=servers.SERVED_MODEL) for server in fleet)
