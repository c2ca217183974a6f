import pytest

from backends.fleetsim import catalogue
from backends.fleetsim import model as models
from backends.sim.profiles import UnknownConfigurationError, configuration

GEMMA = "google/gemma-4-31B-it"
NONE = models.of(configuration(GEMMA, "none", 0))
MTP = models.of(configuration(GEMMA, "gemma4-mtp", 4))


def test_an_engine_has_the_configurations_steps():
    found = configuration(GEMMA, "gemma4-mtp", 4)
    assert MTP.name == "gemma4-mtp-4"
    assert MTP.seconds[7] == found.step(7)
    assert MTP.seconds[0] == found.step(1)
    assert MTP.max_sequences == 256
    assert MTP.survival("chat") == found.survival["chat"]
    assert MTP.calibrated == found.curve.concurrency


def test_adaptive_engines_change_what_they_do_with_load():
    found = models.adaptive([(16, MTP), (256, NONE)])
    assert found.seconds[16] == MTP.seconds[16]
    assert found.seconds[17] == NONE.seconds[17]
    assert found.draft_tokens == 4
    assert found.survival("chat", 16) == MTP.survival("chat")
    assert found.survival("chat", 17) == ()


def test_batches_of_an_adaptive_engine_ascend():
    with pytest.raises(ValueError, match="ascend"):
        models.adaptive([(16, MTP), (16, NONE)])


def test_a_cliff_stands_beyond_the_largest_graph():
    found = models.with_cliff(MTP, 40, 2.0)  # 5 tokens a sequence
    assert found.seconds[8] == MTP.seconds[8]
    assert found.seconds[9] == 2.0 * MTP.seconds[9]


def test_padding_makes_a_staircase():
    found = models.padded(NONE, lambda sequences, _: sequences)
    assert found.seconds[9] == found.seconds[16] == 16
    assert found.seconds[17] == 24


def test_a_slower_machine_takes_longer_for_everything():
    found = models.scaled(MTP, 2.0, name="old")
    assert found.name == "old"
    assert found.seconds[3] == 2.0 * MTP.seconds[3]
    assert found.prefill_seconds == 2.0 * MTP.prefill_seconds


def test_acceptance_is_scaled_as_a_whole():
    found = models.with_acceptance(MTP, {"chat": 1.2, "code": 0.65})
    assert sum(found.survival("chat")) == pytest.approx(1.2 * sum(MTP.survival("chat")), rel=1e-3)
    assert sum(found.survival("code")) == pytest.approx(0.65 * sum(MTP.survival("code")), rel=1e-3)
    assert found.survival("math") == MTP.survival("math")
    assert list(found.survival("chat")) == sorted(found.survival("chat"), reverse=True)


def test_deepseek_is_as_measured_at_the_measured_points():
    grid = catalogue.grid()
    found = catalogue.as_measured(3)
    length = 1 + sum(grid.mixed_survival[:3])
    for clients, rate in grid.tokens_per_second[3].items():
        assert clients * length / found.seconds[clients] == pytest.approx(rate, rel=1e-9)


def test_deepseeks_fit_is_near_the_measurements():
    errors = []
    for drafts, cells in catalogue.grid().tokens_per_second.items():
        fitted = catalogue.engine(catalogue.DEEPSEEK, "dspark" if drafts else "none", drafts)
        length = 1 + sum(catalogue.grid().mixed_survival[:drafts])
        errors += [
            abs(clients * length / fitted.seconds[clients] / rate - 1) for clients, rate in cells.items()
        ]
    assert sum(errors) / len(errors) < 0.03
    assert max(errors) < 0.17


def test_what_was_not_measured_is_not_known():
    with pytest.raises(UnknownConfigurationError, match="dspark 3"):
        catalogue.engine(catalogue.DEEPSEEK, "dspark", 4)
    assert catalogue.DEEPSEEK in catalogue.targets()
