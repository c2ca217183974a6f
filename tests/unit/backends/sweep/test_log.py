from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from backends.sweep import log
from backends.sweep.model import BASELINE, Cell, Round
from tests.unit.backends.sweep.making import CODE, MTP2, measured_round, sample

HEADER = {"target": "some/model", "machine": {"hardware": "MI300X"}}


def written(path: Path, *rounds: tuple[Round, list]) -> None:
    with log.Log(path) as file:
        file.begin(HEADER)
        for finished, samples in rounds:
            for one in samples:
                file.sample(one)
            file.round(finished)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    first, second = measured_round(), measured_round(MTP2)
    written(path, first, second)
    found = log.read(path)
    assert found is not None
    assert found.header == {"version": 1, **HEADER}
    assert found.rounds == [first, second]


def test_no_file_and_an_empty_one_hold_nothing(tmp_path: Path) -> None:
    assert log.read(tmp_path / "none") is None
    (tmp_path / "empty").touch()
    assert log.read(tmp_path / "empty") is None


def test_requests_of_a_round_that_did_not_end_stay_and_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    written(path, measured_round())
    with log.Log(path) as file:
        file.sample(sample(Cell(MTP2, CODE)))
    size = path.stat().st_size
    found = log.read(path)
    assert found is not None
    assert [one.cell.candidate for one, _ in found.rounds] == [BASELINE]
    with log.Log(path) as file:
        file.broken(Cell(MTP2, CODE), 0, "killed")
        again = measured_round(MTP2)
        for one in again[1]:
            file.sample(one)
        file.round(again[0])
    assert path.stat().st_size > size
    found = log.read(path)
    assert found is not None
    assert found.rounds[1] == again


def test_a_line_cut_off_by_a_crash_is_passed_over_and_writing_goes_on_after_it(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    written(path, measured_round())
    with path.open("ab") as file:
        file.write(b'{"kind":"sample","candidate":"mt')
    with log.Log(path) as file:
        file.go_on()
        more = measured_round(MTP2)
        for one in more[1]:
            file.sample(one)
        file.round(more[0])
    found = log.read(path)
    assert found is not None
    assert len(found.rounds) == 2
    assert found.rounds[1] == more


def test_a_round_that_a_kill_cut_off_is_measured_again_and_counts_once_however_often_that_happens(
    tmp_path: Path,
) -> None:
    path = tmp_path / "samples.jsonl"
    again = measured_round(MTP2)
    written(path, measured_round())
    for kept in (5, 0, 3):
        with log.Log(path) as file:
            file.go_on()
            for one in again[1][:kept]:
                file.sample(one)
    with log.Log(path) as file:
        file.go_on()
        for one in again[1]:
            file.sample(one)
        file.round(again[0])
    found = log.read(path)
    assert found is not None
    assert found.rounds == [measured_round(), again]


def test_what_a_later_run_adds_to_what_is_measured_is_read_with_it(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    with log.Log(path) as file:
        file.begin({"target": "x", "prompts": {"code short": "1"}})
        file.go_on({"code short": "1", "chat short": "2"})
    found = log.read(path)
    assert found is not None
    assert found.header["prompts"] == {"code short": "1", "chat short": "2"}


def test_a_round_with_a_line_that_cannot_be_read_is_measured_again_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    first, second, third = (measured_round(MTP2, number=number) for number in range(3))
    written(path, first, second, third)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[len(first[1]) + 5] = b"\x00\x00" + lines[len(first[1]) + 5][2:]
    path.write_bytes(b"".join(lines))
    found = log.read(path)
    assert found is not None
    assert found.rounds == [first, third]
    assert found.lost == 1


def test_a_round_of_which_no_request_is_left_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    first = measured_round(MTP2)
    written(path, first, (first[0], []))
    found = log.read(path)
    assert found is not None
    assert found.rounds == [first]


def test_only_one_sweep_at_a_time_writes_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    with log.Log(path), pytest.raises(log.UnusableLogError, match="another sweep writes to"), log.Log(path):
        pass
    with log.Log(path) as file:
        file.begin(HEADER)


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text("hello\n", encoding="utf-8")
    with pytest.raises(log.UnusableLogError, match="is no file of a sweep; name another folder"):
        log.read(path)
    path.write_text(json.dumps({"kind": "sweep", "version": 99}) + "\n", encoding="utf-8")
    with pytest.raises(log.UnusableLogError, match="another version"):
        log.read(path)


def test_what_was_given_up_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    with log.Log(path) as file:
        file.begin(HEADER)
        file.failed("dflash-7", "no GPU")
    assert '"what":"dflash-7","why":"no GPU"' in path.read_text(encoding="utf-8")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_a_full_disk_is_said() -> None:
    with log.Log(Path("/dev/full")) as file, pytest.raises(log.DiskError, match="No space left") as caught:
        file.begin(HEADER)
    assert caught.value.errno == errno.ENOSPC
