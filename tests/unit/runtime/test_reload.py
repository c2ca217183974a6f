from __future__ import annotations

import asyncio
import logging
import threading
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import pytest

from gateway.policy import load as policies
from gateway.policy.load import Config, Invalid, Loaded
from gateway.runtime import tasks
from gateway.runtime.reload import Configuration, _watched, load_files
from tests.factories import learnt_labels

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    Watch = Callable[[Configuration], Awaitable["Watched"]]

FLEET = """\
version: 1
backends:
  - name: base
    url: http://127.0.0.1:8101
    model: org/Tiny
"""
POLICY = """\
version: 1
models: {tiny: org/Tiny}
routes:
  - name: default
    prefer: [any]
"""


def renamed(name: str) -> str:
    return POLICY.replace("name: default", f"name: {name}")


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET)
    return file


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return file


@pytest.fixture
def configuration(fleet: Path, policy: Path) -> Configuration:
    return configured(fleet, policy)


def configured(fleet: Path, policy: Path) -> Configuration:
    loaded = load_files(fleet, policy, {})
    assert isinstance(loaded, Loaded), loaded
    return Configuration(fleet, policy, loaded)


def route_names(configuration: Configuration) -> list[str]:
    return [route.name for route in configuration.config.policy.routes]


# Loading


def test_both_files_are_read(fleet: Path, policy: Path) -> None:
    loaded = load_files(fleet, policy, {})
    assert isinstance(loaded, Loaded)
    assert [backend.name for backend in loaded.value.fleet.backends] == ["base"]
    assert [route.name for route in loaded.value.policy.routes] == ["default"]


def test_keys_come_from_the_environment(fleet: Path, policy: Path) -> None:
    fleet.write_text(f"{FLEET}    api_key_env: TINY_KEY\n")
    loaded = load_files(fleet, policy, {"TINY_KEY": "canary"})
    assert isinstance(loaded, Loaded)
    assert loaded.value.fleet.backends[0].api_key == "canary"


def test_files_that_cannot_be_read_are_problems_of_their_own(
    fleet: Path, policy: Path, tmp_path: Path
) -> None:
    fleet.unlink()
    policy.write_bytes(b"version: 1 # \xff")
    loaded = load_files(fleet, policy, {})
    assert isinstance(loaded, Invalid)
    assert list(map(str, loaded.problems)) == [
        f"{fleet}:1:1: cannot be read: No such file or directory; name a file that exists",
        f"{policy}:1:1: is not UTF-8: invalid start byte; save it as UTF-8",
    ]
    loaded = load_files(tmp_path, policy, {})
    assert isinstance(loaded, Invalid)
    assert "cannot be read: Is a directory" in str(loaded.problems[0])


# Reloading


def test_at_the_start_all_is_well(configuration: Configuration) -> None:
    assert configuration.problems == ()
    assert configuration.warnings == ()
    assert route_names(configuration) == ["default"]


async def test_a_changed_file_comes_into_force_and_is_told(
    configuration: Configuration, policy: Path
) -> None:
    told: list[Config] = []
    configuration.on_change(told.append)
    configuration.on_change(told.append)
    before = configuration.config
    write(policy, renamed("other"))
    assert await configuration.reload()
    assert route_names(configuration) == ["other"]
    assert told == [configuration.config] * 2
    assert configuration.config.policy.revision != before.policy.revision
    assert configuration.config.fleet == before.fleet


async def test_those_that_are_told_find_it_in_force(configuration: Configuration, policy: Path) -> None:
    found: list[list[str]] = []
    configuration.on_change(lambda _: found.append(route_names(configuration)))
    write(policy, renamed("other"))
    await configuration.reload()
    assert found == [["other"]]


async def test_an_unchanged_file_is_no_change(configuration: Configuration, policy: Path) -> None:
    told: list[Config] = []
    configuration.on_change(told.append)
    before = configuration.config
    write(policy, POLICY)
    assert await configuration.reload()
    assert configuration.config is before
    assert told == []


@pytest.mark.parametrize(
    ("text", "place", "wrong"),
    [
        (POLICY.replace("[any]", "[nobody]"), "5:14", "nobody"),
        (POLICY.replace("version: 1", "version: 2"), "1:10", "2"),
        (POLICY + "routes: []\n", "6:1", "routes"),
        (POLICY + "rotues: []\n", "6:1", "rotues"),
    ],
)
async def test_a_broken_file_leaves_the_last_good_one_in_force_and_says_where(
    configuration: Configuration, policy: Path, caplog: pytest.LogCaptureFixture,
    text: str, place: str, wrong: str,
) -> None:  # fmt: skip
    told: list[Config] = []
    configuration.on_change(told.append)
    before = configuration.config
    write(policy, text)
    with caplog.at_level(logging.ERROR):
        assert not await configuration.reload()
    assert configuration.config is before
    assert told == []
    assert f"{policy}:{place}" in {f"{one.file}:{one.line}:{one.column}" for one in configuration.problems}
    assert any(wrong in one.wrong for one in configuration.problems)
    assert [one.getMessage() for one in caplog.records] == [
        f"{problem} (the last good configuration stays in force)" for problem in configuration.problems
    ]


async def test_bad_files_are_told_each_time_they_change_and_so_is_that_they_are_right_again(
    configuration: Configuration, policy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    right = await asyncio.to_thread(policy.read_text)
    caplog.set_level("INFO", logger="gateway.runtime.reload")
    assert await configuration.reload()
    assert caplog.messages == []
    for text in ("routes: [", "routes: [", "\nroutes: ["):
        write(policy, text)
        assert not await configuration.reload()
    first, second = caplog.messages
    assert f"{policy}:1:" in first
    assert f"{policy}:2:" in second
    write(policy, right)
    assert await configuration.reload()
    assert caplog.messages[2:] == ["the files are right again and say what is in force"]


async def test_files_that_did_not_change_are_not_checked_again(
    configuration: Configuration, fleet: Path, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []

    def load(fleet_text: str, policy_text: str, **options: Any) -> Loaded[Config] | Invalid:
        checked.append(policy_text)
        return policies.load(fleet_text, policy_text, **options)

    monkeypatch.setattr("gateway.runtime.reload.load", load)
    assert await configuration.reload()
    assert checked == []
    for text, good in ((renamed("other"), True), ("routes: [", False), (renamed("other"), True)):
        write(policy, text)
        assert [await configuration.reload() for _ in range(3)] == [good] * 3
        assert checked == [text]
        checked.clear()
    remove(fleet)
    assert [await configuration.reload() for _ in range(2)] == [False] * 2
    assert checked == []


async def test_a_mistake_is_logged_once_until_it_changes(
    configuration: Configuration, policy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for text in (POLICY + "rotues: []\n", POLICY + "rotues: [] # still\n", POLICY + "rootes: []\n"):
        write(policy, text)
        assert not await configuration.reload()
    assert [word for one in caplog.records for word in ("rotues", "rootes") if word in one.getMessage()] == [
        "rotues", "rootes",
    ]  # fmt: skip


async def test_a_file_that_vanished_changes_nothing_in_force(
    configuration: Configuration, fleet: Path
) -> None:
    remove(fleet)
    assert not await configuration.reload()
    assert configuration.config.fleet.backends
    assert [one.file for one in configuration.problems] == [str(fleet)]


async def test_a_mended_file_comes_into_force(configuration: Configuration, policy: Path) -> None:
    write(policy, "routes: [")
    assert not await configuration.reload()
    write(policy, renamed("mended"))
    assert await configuration.reload()
    assert configuration.problems == ()
    assert route_names(configuration) == ["mended"]


async def test_a_file_that_was_put_back_is_well_but_no_change(
    configuration: Configuration, policy: Path
) -> None:
    told: list[Config] = []
    configuration.on_change(told.append)
    write(policy, "routes: [")
    assert not await configuration.reload()
    write(policy, POLICY)
    assert await configuration.reload()
    assert configuration.problems == ()
    assert told == []


async def test_warnings_are_those_of_the_files_in_force(configuration: Configuration, policy: Path) -> None:
    write(policy, POLICY.replace("[any]", "[any, base]"))  # the second names nobody new
    assert await configuration.reload()
    assert configuration.warnings
    write(policy, POLICY)
    assert await configuration.reload()
    assert configuration.warnings == ()


async def test_the_environment_of_the_process_is_read_anew(
    configuration: Configuration, fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINY_KEY", "canary")
    write(fleet, f"{FLEET}    api_key_env: TINY_KEY\n")
    assert await configuration.reload()
    assert configuration.config.fleet.backends[0].api_key == "canary"


async def test_files_are_read_and_checked_beside_the_loop(
    configuration: Configuration, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def load(*texts: str, **options: Any) -> Loaded[Config] | Invalid:
        threads.append(threading.current_thread())
        return policies.load(*texts, **options)

    monkeypatch.setattr("gateway.runtime.reload.load", load)
    configuration.on_change(lambda _: threads.append(threading.current_thread()))
    write(policy, renamed("other"))
    assert await configuration.reload()
    assert threads[0] is not threading.current_thread()
    assert threads[1:] == [threading.current_thread()]


async def test_of_two_reloads_at_once_the_later_one_wins(
    configuration: Configuration, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[list[str]] = []
    configuration.on_change(lambda _: told.append(route_names(configuration)))
    loop, begun, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def load(*texts: str, **options: Any) -> Loaded[Config] | Invalid:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait()
        return policies.load(*texts, **options)

    monkeypatch.setattr("gateway.runtime.reload.load", load)
    write(policy, renamed("first"))
    first = tasks.spawn(configuration.reload(), name="first")
    await begun.wait()
    write(policy, renamed("second"))
    second = tasks.spawn(configuration.reload(), name="second")
    await asyncio.sleep(0)
    go_on.set()
    assert all(await asyncio.gather(first, second))
    assert told == [["first"], ["second"]]


async def test_examples_are_read_beside_the_policy_each_time_it_changes(
    configuration: Configuration, policy: Path
) -> None:
    write(policy, f"{POLICY}classify: {{examples: own.json}}\n")
    assert not await configuration.reload()
    labels = learnt_labels(9.0)
    (policy.parent / "own.json").write_text(labels.to_json())
    for remark in ("one", "two"):
        write(policy, f"{POLICY}classify: {{examples: own.json}} # {remark}\n")
        assert await configuration.reload()
        assert configuration.config.policy.classifier.examples == labels


def learnt(bias: float) -> str:
    return learnt_labels(bias).to_json()


NAMING = f"{POLICY}classify: {{examples: labels/own.json}}\n"


@pytest.fixture
def own(policy: Path) -> Path:
    file = policy.parent / "labels/own.json"
    file.parent.mkdir()
    file.write_text(learnt(1.0))
    policy.write_text(NAMING)
    return file


def bias(configuration: Configuration) -> float:
    examples = configuration.config.policy.classifier.examples
    assert examples is not None
    return examples.heads["sql"].bias


async def test_changed_examples_come_into_force_with_a_revision_of_their_own(
    fleet: Path, policy: Path, own: Path
) -> None:
    configuration = configured(fleet, policy)
    told: list[Config] = []
    configuration.on_change(told.append)
    assert await configuration.reload()
    assert told == []
    first = configuration.config.policy.revision
    write(own, learnt(2.0))
    assert await configuration.reload()
    assert (bias(configuration), len(told)) == (2.0, 1)
    assert configuration.config.policy.revision != first
    write(own, learnt(1.0))
    assert await configuration.reload()
    assert configuration.config.policy.revision == first


async def test_examples_that_change_right_after_the_start_are_not_missed(
    fleet: Path, policy: Path, own: Path
) -> None:
    loaded = load_files(fleet, policy, {})
    assert isinstance(loaded, Loaded)
    write(own, learnt(2.0))
    configuration = Configuration(fleet, policy, loaded)
    assert await configuration.reload()
    assert bias(configuration) == 2.0


async def test_broken_examples_leave_the_last_good_ones_until_they_are_mended(
    fleet: Path, policy: Path, own: Path
) -> None:
    configuration = configured(fleet, policy)
    write(own, "{}")
    assert not await configuration.reload()
    assert bias(configuration) == 1.0
    assert "'labels/own.json' cannot be used" in str(configuration.problems[0])
    remove(own)
    assert not await configuration.reload()
    assert "No such file" in str(configuration.problems[0])
    write(own, learnt(3.0))
    assert await configuration.reload()
    assert (bias(configuration), configuration.problems) == (3.0, ())


async def test_unchanged_examples_are_not_checked_again(
    fleet: Path, policy: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = configured(fleet, policy)
    checked: list[str] = []

    def load(fleet_text: str, policy_text: str, **options: Any) -> Loaded[Config] | Invalid:
        checked.append(policy_text)
        return policies.load(fleet_text, policy_text, **options)

    monkeypatch.setattr("gateway.runtime.reload.load", load)
    assert await configuration.reload()
    assert checked == []
    write(own, learnt(2.0))
    assert [await configuration.reload() for _ in range(2)] == [True, True]
    assert len(checked) == 1


# Watching


class Watched:
    """A configuration that is being watched; :meth:`change` waits for the next one that comes into force."""

    def __init__(self, configuration: Configuration) -> None:
        self._changes: asyncio.Queue[list[str]] = asyncio.Queue()
        configuration.on_change(lambda _: self._changes.put_nowait(route_names(configuration)))
        self._stop = asyncio.Event()
        self._task = tasks.spawn(configuration.watch(self._stop), name="watch")

    async def change(self) -> list[str]:
        return await self._changes.get()

    async def end(self) -> None:
        self._stop.set()
        await self._task


@pytest.fixture
async def watch() -> AsyncIterator[Watch]:
    watching: list[Watched] = []

    async def start(configuration: Configuration) -> Watched:
        watching.append(Watched(configuration))
        await asyncio.sleep(0)  # the watch is set up before it first waits
        return watching[-1]

    yield start
    for one in watching:
        await one.end()


async def test_a_file_written_in_place_is_noticed(
    configuration: Configuration, policy: Path, watch: Watch
) -> None:
    watched = await watch(configuration)
    write(policy, renamed("first"))
    assert await watched.change() == ["first"]
    write(policy, renamed("second"))
    assert await watched.change() == ["second"]


async def test_a_replaced_file_is_noticed(
    configuration: Configuration, policy: Path, watch: Watch, tmp_path: Path
) -> None:
    watched = await watch(configuration)
    for name in ("first", "second"):
        new = tmp_path / "policy.yaml.new"
        new.write_text(renamed(name))
        new.replace(policy)
        assert await watched.change() == [name]


async def test_a_file_that_is_mended_after_a_mistake_is_noticed(
    configuration: Configuration, policy: Path, watch: Watch
) -> None:
    watched = await watch(configuration)
    write(policy, "routes: [")
    write(policy, renamed("mended"))
    assert await watched.change() == ["mended"]


async def test_examples_in_a_folder_of_their_own_are_watched(
    fleet: Path, policy: Path, own: Path, watch: Watch
) -> None:
    configuration = configured(fleet, policy)
    watched = await watch(configuration)
    for value in (2.0, 3.0):
        write(own, learnt(value))
        await watched.change()
        assert bias(configuration) == value


async def test_examples_that_a_policy_comes_to_name_are_watched_from_then_on(
    fleet: Path, policy: Path, own: Path, watch: Watch
) -> None:
    write(policy, POLICY)
    configuration = configured(fleet, policy)
    watched = await watch(configuration)
    for text, value in ((NAMING, 1.0), (NAMING, 2.0)):
        write(own, learnt(value))
        write(policy, text)
        await watched.change()
        assert bias(configuration) == value


async def test_files_in_two_folders_are_both_watched(fleet: Path, tmp_path: Path, watch: Watch) -> None:
    policy = tmp_path / "elsewhere/policy.yaml"
    policy.parent.mkdir()
    write(policy, POLICY)
    configuration = configured(fleet, policy)
    watched = await watch(configuration)
    write(policy, renamed("first"))
    assert await watched.change() == ["first"]
    write(fleet, FLEET.replace("base", "plain"))
    await watched.change()
    assert configuration.config.fleet.backends[0].name == "plain"


async def test_a_mounted_config_map_is_noticed_each_time_it_is_swapped(tmp_path: Path, watch: Watch) -> None:
    def publish(version: str, route: str) -> Path:
        """Swap as a kubelet does: a new folder, then the link ..data in one step, then the old one goes."""
        folder = tmp_path / f"..{version}"
        folder.mkdir()
        (folder / "fleet.yaml").write_text(FLEET)
        (folder / "policy.yaml").write_text(renamed(route))
        swap(tmp_path / "..data", folder)
        return folder

    old = publish("v1", "first")
    for name in ("fleet.yaml", "policy.yaml"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    watched = await watch(configured(tmp_path / "fleet.yaml", tmp_path / "policy.yaml"))
    for version, route in (("v2", "second"), ("v3", "third")):
        new = publish(version, route)
        rmtree(old)
        assert await watched.change() == [route]
        old = new


async def test_a_link_to_another_folder_is_followed(fleet: Path, tmp_path: Path, watch: Watch) -> None:
    link = tmp_path / "policy.yaml"
    files = [tmp_path / name / "policy.yaml" for name in ("one", "two")]
    for file in files:
        file.parent.mkdir()
        file.write_text(renamed(file.parent.name))
    link.symlink_to(files[0])
    watched = await watch(configured(fleet, link))
    files[0].write_text(renamed("edited"))
    assert await watched.change() == ["edited"]
    swap(link, files[1])
    assert await watched.change() == ["two"]
    files[1].write_text(renamed("edited-too"))
    assert await watched.change() == ["edited-too"]


async def test_a_folder_that_is_a_link_is_followed(fleet: Path, tmp_path: Path, watch: Watch) -> None:
    current = tmp_path / "deployed/current"
    releases = [tmp_path / "deployed/releases" / name for name in ("one", "two")]
    for folder in releases:
        folder.mkdir(parents=True)
        (folder / "policy.yaml").write_text(renamed(folder.name))
    current.symlink_to(releases[0])
    watched = await watch(configured(fleet, current / "policy.yaml"))
    swap(current, releases[1])
    assert await watched.change() == ["two"]
    (releases[1] / "policy.yaml").write_text(renamed("edited"))
    assert await watched.change() == ["edited"]


@pytest.mark.parametrize("name", [".git", ".venv", "node_modules"])
async def test_folders_that_tools_pass_over_are_watched(name: str, tmp_path: Path, watch: Watch) -> None:
    fleet, policy = tmp_path / name / "fleet.yaml", tmp_path / name / "policy.yaml"
    fleet.parent.mkdir()
    write(fleet, FLEET)
    write(policy, POLICY)
    watched = await watch(configured(fleet, policy))
    write(policy, renamed("first"))
    assert await watched.change() == ["first"]


async def test_a_change_before_the_watch_began_is_noticed(
    configuration: Configuration, policy: Path, watch: Watch
) -> None:
    write(policy, renamed("early"))
    watched = await watch(configuration)
    assert await watched.change() == ["early"]


async def test_a_folder_that_went_and_came_back_is_noticed(
    tmp_path: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "deep/er"
    folder.mkdir(parents=True)
    fleet, policy = folder / "fleet.yaml", folder / "policy.yaml"
    write(fleet, FLEET)
    write(policy, POLICY)
    configuration = configured(fleet, policy)
    gone = asyncio.Event()
    monkeypatch.setattr("gateway.runtime.reload._log.error", lambda *_: gone.set())
    watched = await watch(configuration)
    rmtree(tmp_path / "deep")
    await gone.wait()
    folder.mkdir(parents=True)
    write(fleet, FLEET)
    write(policy, renamed("back"))
    assert await watched.change() == ["back"]


def test_only_folders_in_which_a_change_matters_are_watched(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    assert _watched(tmp_path / "real" / "deep" / "policy.yaml") == {tmp_path / "real" / "deep"}
    assert _watched(tmp_path / "link" / "deep" / "policy.yaml") == {
        tmp_path, tmp_path / "link" / "deep", tmp_path / "real" / "deep",
    }  # fmt: skip
    assert _watched(tmp_path / "real" / "not" / "yet" / "policy.yaml") == {tmp_path / "real"}


async def test_the_watch_ends_when_it_is_told_to(configuration: Configuration) -> None:
    watched = Watched(configuration)
    await asyncio.sleep(0)
    await watched.end()


async def test_a_watch_that_is_told_to_end_before_it_began_ends(configuration: Configuration) -> None:
    stop = asyncio.Event()
    stop.set()
    await configuration.watch(stop)


def write(file: Path, text: str) -> None:
    """Write in place, as some editors do."""
    file.write_text(text)


def remove(file: Path) -> None:
    """Take a file away."""
    file.unlink()


def swap(link: Path, target: Path) -> None:
    """Point a link elsewhere in one step."""
    new = link.with_name(f"{link.name}.new")
    new.symlink_to(target)
    new.replace(link)
