from __future__ import annotations

import pytest

from gateway.training.score import Guess, covered, score

GUESSES = [
    Guess("math", "math", 0.95),
    Guess("math", "math", 0.9),
    Guess("math", "chat", 0.4),
    Guess("code", "code", 1.0),
    Guess("chat", "sql", 0.6),
]


def test_accuracy_and_f1_are_those_of_the_book() -> None:
    scores = score(GUESSES)
    assert (scores.count, scores.accuracy) == (5, 0.6)
    math = scores.per_class["math"]
    assert (math.precision, math.recall, math.f1, math.count) == (
        1.0,
        pytest.approx(2 / 3),
        pytest.approx(0.8),
        3,
    )
    assert scores.macro_f1 == pytest.approx((0.8 + 1.0 + 0.0) / 3)


def test_a_label_that_only_guesses_have_is_no_class_of_its_own_in_the_mean() -> None:
    assert score(GUESSES).per_class["sql"].f1 == 0.0
    assert score([Guess("math", "math", 1.0), Guess("math", "sql", 1.0)]).macro_f1 == pytest.approx(2 / 3)


def test_the_confusion_says_what_was_taken_for_what() -> None:
    assert score(GUESSES).confusion == {
        "chat": {"sql": 1},
        "code": {"code": 1},
        "math": {"math": 2, "chat": 1},
    }


def test_the_calibration_error_is_the_distance_between_belief_and_truth() -> None:
    assert score([Guess("a", "a", 0.9)] * 9 + [Guess("a", "b", 0.9)]).calibration_error == pytest.approx(0.0)
    assert score([Guess("a", "b", 1.0)]).calibration_error == pytest.approx(1.0)
    assert score([Guess("a", "a", 0.5), Guess("a", "b", 0.1)]).calibration_error == pytest.approx(0.3)


def test_covered_is_what_is_sure_enough() -> None:
    assert covered(GUESSES, 0.6) == (0.8, 0.75)
    assert covered([Guess("a", "a", 0.1)], 0.6) == (0.0, 0.0)
