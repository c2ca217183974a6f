from __future__ import annotations

import asyncio
import os
import select
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from backends.commands import Command, Event
from backends.supervise import Patience, Supervisor

FAKE = Path(__file__).parent / "fake_vllm.py"
CERTIFICATE = Path(__file__).parents[2] / "fixtures/tls/localhost.pem"
SIGNED = CERTIFICATE.with_name("signed.pem")
KEY = "sk-that-nobody-is-told"
QUICK = Patience(ready=60.0, stop=30.0, poll=0.02, backoff=0.02, longest_backoff=0.04, steady=0.0)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def command(tmp_path: Path, name: str, fault: str = "none", model: str = "tiny") -> Command:
    port = free_port()
    argv = (sys.executable, str(FAKE), str(port), model, fault, str(tmp_path / f"{name}.mark"))
    return Command(name, argv, dict(os.environ), f"http://127.0.0.1:{port}", "tiny", tmp_path / f"{name}.log")


class Heard:
    """What a supervisor told, and when something was told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Event]] = []
        self.details: dict[tuple[str, Event], str] = {}
        self.lines: list[tuple[str, str]] = []
        self._changed = asyncio.Event()

    def tell(self, name: str, event: Event, detail: str) -> None:
        self.events.append((name, event))
        self.details[name, event] = detail
        self._changed.set()

    def line(self, name: str, line: str) -> None:
        self.lines.append((name, line))

    async def until(self, name: str, event: Event, times: int = 1) -> None:
        async with asyncio.timeout(60):
            while self.events.count((name, event)) < times:
                self._changed.clear()
                await self._changed.wait()


async def test_servers_are_started_in_order_and_stopped(tmp_path: Path) -> None:
    heard = Heard()
    commands = [command(tmp_path, "one"), command(tmp_path, "two")]
    async with Supervisor(commands, tell=heard.tell, line=heard.line, patience=QUICK) as supervisor:
        assert await supervisor.ready() == ["one", "two"]
        assert heard.events == [
            ("one", Event.STARTING), ("one", Event.READY), ("two", Event.STARTING), ("two", Event.READY),
        ]  # fmt: skip
    assert {event for event in heard.events if event[1] is Event.STOPPED} == {
        ("one", Event.STOPPED), ("two", Event.STOPPED),
    }  # fmt: skip
    assert ("one", "loading tiny") in heard.lines
    assert (tmp_path / "two.log").read_text(encoding="utf-8") == "loading tiny\n"


async def test_several_may_load_at_the_same_time(tmp_path: Path) -> None:
    heard = Heard()
    commands = [command(tmp_path, "one"), command(tmp_path, "two")]
    async with Supervisor(commands, tell=heard.tell, at_once=2, patience=QUICK) as supervisor:
        await supervisor.ready()
    assert heard.events[:2] == [("one", Event.STARTING), ("two", Event.STARTING)]


async def test_one_that_does_not_start_is_told_of_with_the_end_of_its_log(tmp_path: Path) -> None:
    heard = Heard()
    commands = [command(tmp_path, "bad", "refuse"), command(tmp_path, "good")]
    async with Supervisor(commands, tell=heard.tell, patience=QUICK) as supervisor:
        assert await supervisor.ready() == ["good"]
    detail = heard.details["bad", Event.FAILED]
    assert detail.startswith("exit code 1 before it was ready: ValueError: no such draft; the end of")
    assert "ValueError: no such draft" in detail
    assert heard.events.count(("bad", Event.STARTING)) == 1


async def test_one_that_cannot_be_run_is_told_of(tmp_path: Path) -> None:
    heard = Heard()
    missing = replace(command(tmp_path, "bad"), argv=(str(tmp_path / "python"),))
    async with Supervisor([missing], tell=heard.tell, patience=QUICK) as supervisor:
        assert await supervisor.ready() == []
    assert heard.details["bad", Event.FAILED].endswith("No such file or directory")


async def test_one_that_serves_something_else_is_never_ready(tmp_path: Path) -> None:
    heard = Heard()
    other = command(tmp_path, "bad", model="other")
    async with Supervisor([other], tell=heard.tell, patience=replace(QUICK, ready=1.0)) as supervisor:
        assert await supervisor.ready() == []
    assert heard.details["bad", Event.FAILED].startswith(
        "not ready after 1 s: it lists the models other and not tiny; the end of"
    )


async def test_one_that_ends_later_is_started_again(tmp_path: Path) -> None:
    heard = Heard()
    # It dies right after it listed its models for the first time, so once it has counted as ready.
    async with Supervisor(
        [command(tmp_path, "s", "die-once")], tell=heard.tell, patience=QUICK
    ) as supervisor:
        assert await supervisor.ready() == ["s"]
        await heard.until("s", Event.READY, times=2)
    assert heard.details["s", Event.ENDED] == "exit code 3, started again in 0.02 s"


async def test_what_a_server_started_ends_with_it(tmp_path: Path) -> None:
    heard = Heard()
    async with Supervisor([command(tmp_path, "s", "worker")], tell=heard.tell, patience=QUICK) as supervisor:
        await supervisor.ready()
        worker = os.pidfd_open(int((tmp_path / "s.mark").read_text(encoding="utf-8")))
        assert select.select([worker], [], [], 0)[0] == []
    assert select.select([worker], [], [], 30)[0] == [worker]
    os.close(worker)


async def test_one_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    heard = Heard()
    patience = replace(QUICK, stop=0.1)
    async with Supervisor([command(tmp_path, "s", "deaf")], tell=heard.tell, patience=patience) as supervisor:
        await supervisor.ready()
    assert heard.details["s", Event.STOPPED] == "exit code -9"


async def test_a_start_can_be_given_up(tmp_path: Path) -> None:
    heard = Heard()
    commands = [command(tmp_path, "slow", model="other"), command(tmp_path, "next")]
    async with Supervisor(commands, tell=heard.tell, patience=QUICK):
        await heard.until("slow", Event.STARTING)
    assert ("next", Event.STARTING) not in heard.events
    assert ("slow", Event.STOPPED) in heard.events


def keyed(tmp_path: Path, asked: str, shown: str = "") -> Command:
    plain = command(tmp_path, "s")
    return replace(plain, env={**plain.env, "VLLM_API_KEY": asked}, key=shown)


async def test_one_that_asks_for_a_key_is_shown_it(tmp_path: Path) -> None:
    heard = Heard()
    one = keyed(tmp_path, KEY, KEY)
    async with Supervisor([one], tell=heard.tell, patience=QUICK) as supervisor:
        assert await supervisor.ready() == ["s"]
    assert KEY not in repr((heard.events, heard.details, one.key and repr(replace(one, env={}))))


@pytest.mark.parametrize("shown", ["", "sk-another"])
async def test_one_that_takes_another_key_is_told_of_at_once(tmp_path: Path, shown: str) -> None:
    heard = Heard()
    async with Supervisor([keyed(tmp_path, KEY, shown)], tell=heard.tell, patience=QUICK) as supervisor:
        assert await supervisor.ready() == []
    told = heard.details["s", Event.FAILED]
    assert told.startswith("it does not take the key it was shown" if shown else "it asks for a key")
    assert KEY not in told


def secured(tmp_path: Path, served: Path = CERTIFICATE, host: str = "127.0.0.1") -> Command:
    plain = command(tmp_path, "s")
    url = plain.url.replace("http", "https").replace("127.0.0.1", host)
    return replace(plain, argv=(*plain.argv, str(served), host), url=url)


@pytest.mark.parametrize("served", [CERTIFICATE, SIGNED], ids=["signed by itself", "by an authority"])
async def test_one_with_a_certificate_of_its_own_is_believed(tmp_path: Path, served: Path) -> None:
    heard = Heard()
    one = replace(secured(tmp_path, served), certificate=str(served))
    async with Supervisor([one], tell=heard.tell, patience=QUICK) as supervisor:
        assert await supervisor.ready() == ["s"]


@pytest.mark.parametrize(
    ("certificate", "host", "why"),
    [("", "127.0.0.1", "self-signed certificate"), (str(CERTIFICATE), "127.0.0.2", "IP address mismatch")],
)
async def test_one_whose_certificate_is_of_another_is_told_of_at_once(
    tmp_path: Path, certificate: str, host: str, why: str
) -> None:
    heard = Heard()
    one = replace(secured(tmp_path, host=host), certificate=certificate)
    async with Supervisor([one], tell=heard.tell, patience=QUICK) as supervisor:
        assert await supervisor.ready() == []
    assert heard.details["s", Event.FAILED].startswith("its certificate is not believed: ")
    assert why in heard.details["s", Event.FAILED]


async def test_one_whose_certificate_cannot_be_read_is_told_of(tmp_path: Path) -> None:
    heard = Heard()
    one = replace(secured(tmp_path), certificate=str(tmp_path / "gone.pem"))
    async with Supervisor([one], tell=heard.tell, patience=QUICK) as supervisor:
        assert await supervisor.ready() == []
    assert heard.details["s", Event.FAILED].startswith(f"{tmp_path / 'gone.pem'}: No such file or directory")


@pytest.mark.parametrize("log", ["/dev/full", "a folder"])
async def test_a_log_that_cannot_be_written_stops_nobody(tmp_path: Path, log: str) -> None:
    heard = Heard()
    (tmp_path / "a folder").mkdir()
    one = replace(command(tmp_path, "s", "talk"), log=tmp_path / log)
    async with Supervisor([one], tell=heard.tell, line=heard.line, patience=QUICK) as supervisor:
        assert await supervisor.ready() == ["s"]
        await heard.until("s", Event.UNLOGGED)
    assert ("s", "line 999") in heard.lines
    assert heard.events.count(("s", Event.UNLOGGED)) == 1
    assert heard.details["s", Event.UNLOGGED].startswith(f"{one.log}: ")
    assert ("s", Event.STOPPED) in heard.events


@pytest.mark.parametrize("listener", ["tell", "line"])
async def test_whatever_goes_wrong_no_server_is_left(tmp_path: Path, listener: str) -> None:
    one = command(tmp_path, "s", "worker")
    workers, servers = [], []

    def fail(*said: str) -> None:
        if said[1] in (Event.READY, "worker started"):
            worker = int((tmp_path / "s.mark").read_text(encoding="utf-8"))
            workers.append(os.pidfd_open(worker))
            servers.append(Path("/proc", str(os.getpgid(worker))))
            raise SystemError(said)

    async def run() -> None:
        listeners = {"tell": Heard().tell, listener: fail}
        async with Supervisor([one], patience=QUICK, **listeners) as supervisor:
            await supervisor.ready()
            await asyncio.Event().wait()

    with pytest.raises(BaseExceptionGroup, match="unhandled errors"):
        await run()
    assert [one.exists() for one in servers] == [False], "killed, but never waited for"
    assert select.select(workers, [], [], 30)[0] == workers != []
    os.close(workers[0])


async def test_one_that_never_answers_is_given_up(tmp_path: Path) -> None:
    heard = Heard()
    patience = replace(QUICK, ready=0.2, answer=0.1)
    async with Supervisor([command(tmp_path, "s", "mute")], tell=heard.tell, patience=patience) as supervisor:
        assert await supervisor.ready() == []
    assert "does not answer; the end of" in heard.details["s", Event.FAILED]
