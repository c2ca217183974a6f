from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from gateway.core.classify import Classification
from gateway.core.decide import Candidate, Decision, NoCandidate, Rejected
from gateway.core.features import Hints
from gateway.core.fleet import Snapshot
from gateway.core.loops import Loop
from gateway.core.marks import Marks
from gateway.core.outcome import Attempt
from gateway.core.policy import WeightedScorer
from gateway.telemetry import decision_schema
from gateway.telemetry.decision_entry import entry_of
from gateway.telemetry.decision_log import DecisionLog, files_of
from gateway.telemetry.decision_schema import UnreadableError, entries, features_of, line_of, parse
from tests import factories

if TYPE_CHECKING:
    from gateway.core.outcome import Record

DOCS = Path(__file__).parents[3] / "docs" / "decision-log.md"
SECRET = b"0123456789abcdef"
SCORERS = (WeightedScorer("preference", 1.0), WeightedScorer("load", 4.0))


@pytest.fixture
def record(record: Record) -> Record:
    assert isinstance(record.decision, Decision)
    states = (
        factories.state("eagle", in_flight=3, since_load=1, load=factories.load(7, 2, 0.5, at=99.0)),
        factories.state("dflash", in_flight=64, max_in_flight=64),
        factories.state("of-another-model", target="other/Model"),
    )
    return replace(
        record,
        features=replace(
            record.features,
            marks=Marks(latex=2, math_task=True, loop=Loop(2, 1, done=True)),
            parameters=frozenset({"seed"}),
        ),
        decision=replace(
            record.decision,
            candidates=(Candidate("eagle", 2.2, (1.0, 0.3), SCORERS),),
            service="interactive",
            shadow="dflash",
        ),
        snapshot=Snapshot.of(states, "f1"),
    )


def written(record: Record, seed: int = 7) -> dict[str, Any]:
    return json.loads(line_of(entry_of(record, seed, SECRET)))


def log(path: Path, **given: Any) -> DecisionLog:
    return DecisionLog(path, 7, **given)


def logged(path: Path, *records: Record, **given: Any) -> list[str]:
    """Ids in the log after these records went into it."""
    one = log(path, **given)
    for each in records:
        one.put(each)
    one.start()
    one.close()
    assert one.dropped == 0
    return [entry.request_id for entry in entries(files_of(path))]


def test_a_line_says_what_was_asked_decided_and_seen(record: Record) -> None:
    line = written(record)
    assert line["version"] == 1
    assert line["time"] == "2027-01-15T08:00:00.000000Z"
    assert (line["request_id"], line["trace_id"], line["seed"]) == ("req-1", "a" * 32, 7)
    assert (line["label"], line["confidence"], line["source"]) == ("math", 0.9, "rule:latex")
    assert line["features"]["prompt_chars"] == 40
    assert line["features"]["marks"]["latex"] == 2
    choice = line["choice"]
    assert choice["candidates"] == [
        {"backend": "eagle", "cost": 2.2, "values": {"preference": 1.0, "load": 0.3}}
    ]
    assert choice["weights"] == {"preference": 1.0, "load": 4.0}
    assert choice["rejected"] == [{"backend": "dflash", "reason": "full"}]
    assert (choice["propensity"], choice["reason"], choice["left_out"]) == (0.95, "lowest_cost", 0)
    assert (choice["service"], choice["shadow"]) == ("interactive", "dflash")
    assert (line["seconds"], line["decided_after"]) == (3.0, 0.001)
    assert line["attempts"] == [
        {"backend": "eagle", "phase": "done", "error": "", "status": 200, "after": 0.002, "seconds": 2.998}
    ]
    assert line["outcome"]["tpot"] == 0.01
    assert line["outcome"]["decode_tokens"] == 200
    assert line["acceptance"] == {
        "grade": "exact", "steps": 100, "drafted": 500, "accepted": 100, "histogram": [40, 30, 20, 10, 0, 0],
    }  # fmt: skip


def test_a_line_holds_the_load_that_the_decision_saw(record: Record) -> None:
    eagle, dflash = written(record)["states"]
    assert eagle == {
        "backend": "eagle", "in_flight": 3, "limit": 256, "unavailable": "", "since_load": 1, "running": 7,
        "waiting": 2, "kv_usage": 0.5, "load_age": 1.001,
    }  # fmt: skip
    assert (dflash["unavailable"], dflash["running"], dflash["load_age"]) == ("full", None, None)


def test_features_come_back_as_the_filters_saw_them(record: Record) -> None:
    entry = parse(line_of(entry_of(record, 7, SECRET)))
    found = features_of(entry)
    assert replace(found, hints=Hints()) == replace(record.features, hints=Hints())


@pytest.mark.parametrize("loop", [{}, {"loop": {"turns": 2, "results": 1, "done": True}}])
def test_marks_of_older_logs_come_back(record: Record, loop: dict[str, Any]) -> None:
    line = written(record)
    line["features"]["marks"] = {"latex": 2, "tool_turns": 2, **loop}
    entry = parse(json.dumps(line).encode())
    expected = Loop(2, 1, done=True) if loop else Loop(2)
    assert features_of(entry).marks == features_of(entry).marks == Marks(latex=2, loop=expected)


def test_a_session_is_the_same_pseudonym_each_time_and_another_with_another_secret(record: Record) -> None:
    hints = written(record)["features"]["hints"]
    assert hints == written(record)["features"]["hints"]
    assert hints["session"] != hints["tenant"]
    assert "canary" not in json.dumps(hints)
    again = json.loads(line_of(entry_of(record, 7, b"another")))
    assert again["features"]["hints"]["session"] != hints["session"]


def test_what_a_client_made_up_stays_out(record: Record) -> None:
    refused = NoCandidate("unknown_model", "CANARY does not exist", False, None, (), "p1", "f1")
    made_up = replace(
        record,
        features=replace(
            record.features,
            model="CANARY", response_format="CANARY", last_role="CANARY",
            hints=Hints(workload="CANARY", backend="CANARY", session="CANARY", tenant="CANARY"),
        ),
        classification=Classification("chat", 0.5, "default"),
        decision=refused,
        outcome=replace(record.outcome, finish_reason="CANARY", response_id="CANARY", response_model="CANARY"),
    )  # fmt: skip
    line = written(made_up)
    assert "CANARY" not in json.dumps(line)
    assert line["features"]["response_format"] == line["features"]["last_role"] == "other"
    assert line["choice"]["reason"] == "unknown_model"
    assert (line["choice"]["target"], line["choice"]["propensity"], line["states"]) == (None, None, [])


def test_a_pin_and_a_trusted_hint_are_kept(record: Record) -> None:
    hints = Hints(workload="code", backend="eagle")
    pinned = replace(
        record,
        features=replace(record.features, hints=hints),
        classification=Classification("code", 1.0, "hint"),
    )
    assert written(pinned)["features"]["hints"] == {
        "workload": "code", "backend": "eagle", "session": None, "tenant": None,
    }  # fmt: skip


def test_a_request_that_came_to_no_decision_has_a_line_too(record: Record) -> None:
    overloaded = NoCandidate("overloaded", "too many", False, None, (), "", "")
    line = written(replace(record, decision=overloaded, attempts=(), backend="", snapshot=None))
    assert line["choice"]["reason"] == "overloaded"
    assert line["states"] == line["attempts"] == line["choice"]["candidates"] == []


@pytest.mark.parametrize(("kind", "told"), [("all_rejected", True), ("unknown_model", False)])
def test_the_model_of_a_refused_request_is_told_if_it_is_one_of_ours(
    record: Record, kind: str, told: bool
) -> None:
    refused = NoCandidate(kind, "", False, None, (), "p1", "f1")
    line = written(replace(record, decision=refused, attempts=(), backend=""))
    assert line["features"]["model"] == (record.features.model if told else "")


def test_of_a_thousand_backends_a_line_holds_the_best(record: Record) -> None:
    assert isinstance(record.decision, Decision)
    candidates = tuple(Candidate(f"b{n}", float(n), (1.0, 0.3), SCORERS) for n in range(700))
    rejected = tuple(Rejected(f"r{n}", "full", "") for n in range(300))
    many = replace(record, decision=replace(record.decision, candidates=candidates, rejected=rejected))
    choice = written(many)["choice"]
    assert [each["backend"] for each in choice["candidates"]] == [f"b{n}" for n in range(64)]
    assert len(choice["rejected"]) == 64
    assert choice["left_out"] == 1000 - 128


def test_lines_come_in_order_and_a_restart_goes_on_with_the_file(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "log" / "decisions.jsonl"
    first = [replace(record, request_id=f"a{n}") for n in range(3)]
    assert logged(path, *first) == ["a0", "a1", "a2"]
    assert logged(path, replace(record, request_id="b")) == ["a0", "a1", "a2", "b"]


def test_a_full_file_is_put_aside_and_the_oldest_go(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    others = [tmp_path / f"decisions-{name}.jsonl" for name in ("notes", "0-20270115T080000000000Z")]
    for other in others:
        other.write_text("not ours\n")
    assert logged(path, replace(record, request_id="r0"), max_bytes=10, keep=2) == ["r0"]
    (full,) = files_of(path)
    written_at = datetime.fromtimestamp(full.stat().st_mtime, UTC)
    assert full.name == f"decisions-{written_at:%Y%m%dT%H%M%S%f}Z.jsonl"
    for number in range(1, 4):
        ids = logged(path, replace(record, request_id=f"r{number}"), max_bytes=10, keep=2)
    assert ids == ["r2", "r3"]
    assert all(other.exists() for other in others)


def test_a_long_request_that_ends_last_is_kept(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    for number in range(3):
        logged(path, replace(record, request_id=f"r{number}"), max_bytes=10, keep=3)
    began = record.started_unix_ns - 3600 * 10**9
    long = replace(record, request_id="long", started_unix_ns=began)
    assert logged(path, long, max_bytes=10, keep=3) == ["r1", "r2", "long"]


def test_a_clock_that_is_set_back_changes_no_order(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    (tmp_path / "decisions-20990115T080000000000Z.jsonl").write_text("")
    for number in range(3):
        ids = logged(path, replace(record, request_id=f"r{number}"), max_bytes=10, keep=2)
    assert ids == ["r1", "r2"]
    assert [each.name for each in files_of(path)] == [
        "decisions-20990115T080000000002Z.jsonl",
        "decisions-20990115T080000000003Z.jsonl",
    ]


@pytest.mark.parametrize("name", ["dec[eu].jsonl", "dec*", "dec.", "dec.[a-z]"])
def test_full_files_are_found_whatever_the_log_is_called(record: Record, tmp_path: Path, name: str) -> None:
    for number in range(3):
        one = replace(record, request_id=f"r{number}")
        ids = logged(tmp_path / name, one, max_bytes=10, keep=2)
    assert ids == ["r1", "r2"]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_line_that_a_crash_tore_is_passed_over_and_taken_away(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    logged(path, record)
    with path.open("ab") as file:
        file.write(b'{"version":1,"time":"20' + b"x" * 200_000)
    assert [entry.request_id for entry in entries([path])] == ["req-1"]
    assert logged(path, replace(record, request_id="next")) == ["req-1", "next"]


def test_a_file_of_nothing_but_a_torn_line_begins_anew(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(b'{"version":1')
    assert logged(path, record) == ["req-1"]


def test_what_does_not_fit_the_queue_is_dropped_and_counted(record: Record, tmp_path: Path) -> None:
    one = log(tmp_path / "decisions.jsonl", capacity=2)
    for _ in range(5):
        one.put(record)
    assert one.dropped == 3
    one.start()
    one.close()
    assert one.dropped == 3


def test_a_disk_that_takes_nothing_costs_lines_and_no_more(
    record: Record, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "decisions.jsonl"
    one = log(path)
    path.unlink()
    path.mkdir()
    for _ in range(3):
        one.put(record)
    one.start()
    one.close()
    assert one.dropped == 3
    assert [each.message for each in caplog.records] == ["cannot write the decision log, 1 times so far"]


def test_a_disk_that_takes_nothing_for_long_is_told_of_ever_more_rarely(
    record: Record, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = log(tmp_path / "decisions.jsonl")
    (tmp_path / "decisions.jsonl").unlink()
    (tmp_path / "decisions.jsonl").mkdir()
    for _ in range(9):
        one.put(record)
        one._write()
    told = [each.message.split(", ")[1] for each in caplog.records]
    assert told == [f"{count} times so far" for count in (1, 2, 4, 8)]


def test_a_disk_that_fills_up_half_way_leaves_whole_lines(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "decisions.jsonl"
    logged(path, record)

    class Full:
        """A file on a disk with room for ten bytes."""

        def __init__(self, file: Any) -> None:
            self.file, self.room = file, 10

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, data: Any) -> int:
            if not self.room:
                raise OSError(28, "No space left on device")
            self.room, room = 0, self.room
            return self.file.write(data[:room])

    opened, full = type(path).open, [False]

    def opening(self: Path, mode: str = "r", **given: Any) -> Any:
        file = opened(self, mode, **given)
        return Full(file) if mode == "ab" and full[0] else file

    monkeypatch.setattr(type(path), "open", opening)
    one = log(path)
    full[0] = True
    one.put(record)
    one.start()
    one.close()
    assert one.dropped == 1
    assert [entry.request_id for entry in entries([path])] == ["req-1"]


def test_a_record_that_cannot_be_told_costs_no_other(
    record: Record, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "decisions.jsonl"
    one = log(path)
    one.put(replace(record, features=None))  # type: ignore[arg-type]
    one.put(record)
    one.start()
    one.close()
    assert one.dropped == 1
    assert [entry.request_id for entry in entries([path])] == ["req-1"]
    assert len(caplog.records) == 1


def test_a_file_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        log(tmp_path / "file" / "decisions.jsonl")


def test_a_folder_that_is_not_there_is_made_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "logs" / "here"
    for _ in range(2):
        DecisionLog(folder / "d.jsonl", seed=7)
    assert [record.getMessage() for record in caplog.records] == [
        f"made the folder {folder} for the decision log, as there was none"
    ]


def test_writing_that_hangs_is_given_up(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one, free = log(tmp_path / "decisions.jsonl"), threading.Event()
    monkeypatch.setattr(one, "_put", lambda *_: free.wait(20))
    one.put(record)
    one.start()
    one.close(timeout=0.05)
    assert "could not be written" in caplog.text
    free.set()
    one._thread.join(20)


def test_one_that_never_started_can_be_closed(tmp_path: Path) -> None:
    log(tmp_path / "decisions.jsonl").close()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"nonsense\n", "malformed"),
        (b"{}\n", "missing required field"),
        (b'{"version": 9, "when": 1}\n', "version 9 of the schema; this specroute reads up to 1"),
        (b"\xff\n", "."),
    ],
)
def test_a_line_that_is_no_entry_is_named(line: bytes, said: str, record: Record, tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(line_of(entry_of(record, 7, SECRET)) + line)
    with pytest.raises(UnreadableError, match=f"decisions.jsonl:2: .*{said}"):
        list(entries([path]))


def test_failed_attempts_are_told(record: Record) -> None:
    failed = Attempt("dflash", "headers", "status:503", 503, 100.01, 100.21)
    tries = written(replace(record, attempts=(failed, *record.attempts)))["attempts"]
    assert tries[0] == {
        "backend": "dflash", "phase": "headers", "error": "status:503", "status": 503, "after": 0.01,
        "seconds": 0.2,
    }  # fmt: skip


@pytest.mark.parametrize(
    "struct",
    [value for value in vars(decision_schema).values() if hasattr(value, "__struct_fields__")],
    ids=lambda struct: struct.__name__,
)
def test_every_field_is_documented(struct: Any) -> None:
    page = DOCS.read_text()
    assert [name for name in struct.__struct_fields__ if f"`{name}`" not in page] == []
