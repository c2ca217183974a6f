from __future__ import annotations

import pytest

from gateway.core.lengths import Lengths
from gateway.core.predict import ServerModel


def test_before_the_first_answer_the_prior_is_believed() -> None:
    lengths = Lengths({"code": 400.0}, 300.0)
    assert lengths.output_tokens == {"code": 400.0}
    assert lengths.other == 300.0
    assert lengths.chars_per_token == 4.0
    assert lengths.mean_steps("a") == 300.0


def test_what_servers_are_believed_to_answer_is_the_same_in_every_order() -> None:
    short = ServerModel(output_tokens={"code": 100.0}, other_output_tokens=150.0)
    long = ServerModel(output_tokens={"code": 300.0, "math": 500.0}, other_output_tokens=250.0)
    for order in ((short, long), (long, short)):
        lengths = Lengths()
        assert lengths.other == ServerModel().other_output_tokens
        for one in order:
            lengths.believe(one)
        assert lengths.output_tokens == pytest.approx({"code": 200.0, "math": 500.0})
        assert lengths.other == pytest.approx(200.0)


def test_means_are_learnt_by_workload() -> None:
    lengths = Lengths({"code": 400.0}, 300.0)
    for _ in range(60):
        lengths.add({"code": 1.0}, 200, 100, 600)
        lengths.add({"math": 1.0}, 800, None, None)
    assert lengths.output_tokens["code"] == pytest.approx(200.0, rel=0.06)
    assert lengths.output_tokens["math"] == pytest.approx(800.0, rel=0.06)
    assert lengths.other == pytest.approx(500.0, rel=0.06)
    assert 5.0 < lengths.chars_per_token < 6.0


def test_doubtful_labels_do_not_make_workloads_alike() -> None:
    lengths = Lengths({}, 500.0)
    for _ in range(1500):
        lengths.add({"code": 0.8, "math": 0.2}, 320, None, None)
        lengths.add({"code": 0.2, "math": 0.8}, 680, None, None)
    assert lengths.output_tokens["code"] == pytest.approx(200.0, rel=0.12)
    assert lengths.output_tokens["math"] == pytest.approx(800.0, rel=0.1)


def test_prompts_are_learnt_by_workload() -> None:
    lengths = Lengths({}, 300.0)
    lengths.prompt({"code": 1.0, "math": 0.0}, 100)
    lengths.prompt({"code": 1.0}, 300)
    assert lengths.prompt_tokens == {"code": pytest.approx(200.0, rel=0.01)}


def test_mean_steps_are_those_of_the_server() -> None:
    lengths = Lengths({}, 300.0)
    for _ in range(99):
        lengths.steps("a", 100.0)
    assert lengths.mean_steps("a") == pytest.approx(102.0, rel=0.01)
    assert lengths.mean_steps("b") == 300.0
