import pytest

from backends.fleetsim import catalogue, scenario
from backends.fleetsim.faults import Event
from backends.fleetsim.traffic import CHAT70, Limits, Traced

GEMMA = "google/gemma-4-31B-it"
MODELS = [catalogue.engine(GEMMA, "none", 0), catalogue.engine(GEMMA, "dflash", 7)]
NAMES = ["plain", "fast"]


def test_mixes_have_names_or_shares():
    assert scenario.shares("chat70") == CHAT70
    assert scenario.shares("math=2,code") == {"math": 2.0, "code": 1.0}
    turns = scenario.mix(["math", "code"], 60.0)
    assert [set(turns.at(now)) for now in (0.0, 61.0)] == [{"math"}, {"code"}]


@pytest.mark.parametrize(
    ("text", "said"),
    [("chat71", "chat70"), ("math=x", "share of math"), ("math=0", "above 0"), ("math=-1", "not negative")],
)
def test_a_wrong_mix_is_said_to_be(text, said):
    with pytest.raises(scenario.ScenarioError, match=said):
        scenario.shares(text)


def test_numbers_may_change():
    found = scenario.steps("0:8,60:96/120", "--clients")
    assert [found(now) for now in (0.0, 59.0, 60.0, 119.0, 121.0)] == [8, 8, 96, 96, 8]
    assert scenario.steps("7", "--rate")(99.0) == 7


@pytest.mark.parametrize("text", ["5:8", "0:8,0:9", "0:8,60:x", "nan", ""])
def test_a_wrong_number_is_said_to_be(text):
    with pytest.raises(scenario.ScenarioError, match="--rate"):
        scenario.steps(text, "--rate")


def test_sources_are_written_in_words():
    found = scenario.source("name=chat; mix=rag; rate=4; tpot=0.03; refused=0.1; label_errors=0.2; turns=3")
    assert (found.name, found.rate(0.0), found.clients, found.turns, found.label_errors) == (
        "chat",
        4,
        None,
        3,
        0.2,
    )
    assert found.limits == Limits(ttft=float("inf"), tpot=0.03)
    assert found.refused_share["chat"] == 0.1
    assert scenario.source("clients=8").limits is None


@pytest.mark.parametrize(
    ("text", "said"),
    [("rat=4", "did you mean 'rate'"), ("mix=rag", "either clients or rate"), ("rate=4;clients=2", "either")],
)
def test_a_wrong_source_is_said_to_be(text, said):
    with pytest.raises(scenario.ScenarioError, match=said):
        scenario.source(text)


def test_a_trace_is_read_in_order_of_time():
    lines = (
        '{"at": 2, "workload": "math", "prompt_tokens": 5, "output_tokens": 6}\n\n'
        '{"at": 1, "workload": "code", "prompt_tokens": 7, "output_tokens": 8}\n'
    )
    assert scenario.trace(lines, "t") == [Traced(1.0, "code", 7, 8), Traced(2.0, "math", 5, 6)]


@pytest.mark.parametrize(
    "line",
    ["{", '{"at": 1}', '{"at": 1, "workload": "poems", "prompt_tokens": 5, "output_tokens": 6}',
     '{"at": 1, "workload": "math", "prompt_tokens": 0, "output_tokens": 6}', "[]"],
)  # fmt: skip
def test_a_wrong_line_of_a_trace_is_named(line):
    with pytest.raises(scenario.ScenarioError, match=r"^trace:1: write"):
        scenario.trace(line, "trace")


def test_events_are_read():
    text = (
        "version: 1\nevents:\n- {at: 10, backend: fast, slow: 2.5}\n- {at: 20, backend: plain, down: 30}\n"
        "- {at: 40, backend: fast, method: gemma4-mtp, draft_tokens: 2}\n"
    )
    slow, down, up, other = scenario.events(text, "f", NAMES, MODELS)
    assert slow == Event(10.0, 1, "slow", factor=2.5)
    assert (down, up) == (Event(20.0, 0, "down"), Event(50.0, 0, "up"))
    assert other.model == catalogue.engine(GEMMA, "gemma4-mtp", 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "f:"),
        ("- {at: 1}", "version: 1"),
        ("version: 1", "write events"),
        ("- 1", "not an event"),
        ("- {at: 1, backend: fast, slwo: 2}", r"f:3:\d+: events\[0\].slwo: .*did you mean 'slow'"),
        ("- {at: x, backend: fast, slow: 2}", "not negative"),
        ("- {backend: fast, slow: 2}", "give at: seconds"),
        ("- {at: 1, backend: fats, slow: 2}", "did you mean 'fast'"),
        ("- {at: 1, backend: fast}", "give one of slow, down, method"),
        ("- {at: 1, backend: fast, slow: 1, down: 2}", "give one of"),
        ("- {at: 1, backend: fast, slow: 0}", "factor"),
        ("- {at: 1, backend: fast, method: eagle}", "no simulator profile"),
    ],
)
def test_wrong_events_are_said_to_be(text, said):
    text = f"version: 1\nevents:\n{text}\n" if text.startswith("- ") and "version" not in said else text
    with pytest.raises(scenario.ScenarioError, match=said):
        scenario.events(text, "f", NAMES, MODELS)
