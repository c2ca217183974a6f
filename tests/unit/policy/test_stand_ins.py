import pytest

from gateway.core.features import Hints
from gateway.core.fleet import STAND_IN
from gateway.policy import stand_ins
from gateway.policy.load import Invalid, Loaded, load, load_fleet
from gateway.policy.predicted import stand_in_words
from tests.factories import features

FLEET = """\
version: 1
backends:
  - {{name: a, url: "http://127.0.0.1:8101", model: org/Tiny}}
  - {{name: h, url: "{url}", model: {model}{more}}}
"""


def told(url: str = "litellm://openai/gpt-4.1-mini", model: str = "org/Tiny", more: str = "", env=None):
    return load_fleet(FLEET.format(url=url, model=model, more=more), env=env)


def test_a_hosted_model_is_no_backend_of_the_fleet() -> None:
    found = told(more=", api_key_env: KEY, max_in_flight: 8", env={"KEY": "sk"})
    assert isinstance(found, Loaded)
    assert [one.name for one in found.value.backends] == ["a"]
    (hosted,) = found.value.stand_ins
    assert (hosted.name, hosted.method, hosted.target) == ("h", STAND_IN, "org/Tiny")
    assert (hosted.served_model, hosted.api_key, hosted.max_in_flight) == ("openai/gpt-4.1-mini", "sk", 8)
    assert [state.backend.name for state in found.value.idle().stand_ins] == ["h"]


@pytest.mark.parametrize("url", ["litellm://", "litellm://gpt", "litellm://openai/", "litellm://openai/a b"])
def test_an_address_without_provider_and_model_is_refused(url: str) -> None:
    found = told(url)
    assert isinstance(found, Invalid)
    (problem,) = found.problems
    assert (problem.path, problem.line) == ("backends[1].url", 4)
    assert "litellm://PROVIDER/MODEL" in problem.right


@pytest.mark.parametrize(
    "more",
    ["method: none", "draft_tokens: 3", "served_model: x", "labels: {a: b}", "max_model_len: 9",
     "refuses: [tools]", "launch: {tensor_parallel: 2}"],
)  # fmt: skip
def test_what_only_a_server_has_is_refused_where_it_stands(more: str) -> None:
    found = told(more=f", {more}")
    assert isinstance(found, Invalid)
    key = more.partition(":")[0]
    assert [(one.path, one.right) for one in found.problems] == [(f"backends[1].{key}", "remove it")]


def test_there_must_be_a_server_to_stand_in_for() -> None:
    found = told(model="org/Tony")
    assert isinstance(found, Invalid)
    assert [(one.path, one.right) for one in found.problems] == [
        ("backends[1].model", "did you mean 'org/Tiny'?")
    ]


def test_that_litellm_is_missing_is_said_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stand_ins, "find_spec", lambda _: None)
    found = told(env={})
    assert isinstance(found, Invalid)
    (problem,) = found.problems
    assert "specroute[litellm]" in problem.right
    assert isinstance(told(), Loaded)  # a check for a gateway elsewhere


def test_no_route_prefers_one() -> None:
    policy = "version: 1\nroutes: [{name: all, prefer: [{name: h}, any]}]\n"
    found = load(FLEET.format(url="litellm://openai/x", model="org/Tiny", more=""), policy)
    assert isinstance(found, Invalid)
    assert [(one.path, one.wrong) for one in found.problems] == [
        ("routes[0].prefer[0].name", "there is no backend 'h'")
    ]


ALL = "version: 1\n{defaults}routes: [{{name: all, prefer: [any]{more}}}]\n"


@pytest.mark.parametrize(
    ("defaults", "more", "asks"),
    [
        ("", "", False),
        ("", ", stand_ins: true", True),
        ("defaults: {stand_ins: true}\n", "", True),
        ("defaults: {stand_ins: true}\n", ", stand_ins: false", False),
    ],
)
def test_a_stand_in_must_be_asked_for(defaults: str, more: str, asks: bool) -> None:
    text = ALL.format(defaults=defaults, more=more)
    found = load(FLEET.format(url="litellm://openai/x", model="org/Tiny", more=""), text)
    assert isinstance(found, Loaded)
    assert [one.stand_ins for one in found.value.policy.routes] == [asks]
    warned = [one.right for one in found.warnings if "no route asks for stand-ins" in one.wrong]
    assert len(warned) == (not asks)


def test_a_class_keeps_its_requests_from_them() -> None:
    text = (
        "version: 1\nclasses: [{name: a}, {name: b, stand_ins: false}]\nroutes: [{name: r, prefer: [any]}]\n"
    )
    found = load(FLEET.format(url="litellm://openai/x", model="org/Tiny", more=""), text)
    assert isinstance(found, Loaded)
    assert [one.stand_ins for one in found.value.policy.classes] == [True, False]


def test_a_fleet_without_any_is_not_warned_of() -> None:
    plain = 'version: 1\nbackends: [{name: a, url: "http://127.0.0.1:8101", model: org/Tiny}]\n'
    found = load(plain, ALL.format(defaults="", more=""))
    assert isinstance(found, Loaded)
    assert not found.warnings


@pytest.mark.parametrize(
    ("more", "hints", "words"),
    [
        (", stand_ins: true", Hints(), "Where no server can answer: h (openai/x)."),
        ("", Hints(), "Where no server can answer: nobody, route all asks for none."),
        (", stand_ins: true", Hints(stays=True), "nobody, the caller or a class of the policy forbids it."),
    ],
)
def test_who_answers_in_the_place_of_servers_is_explained(more: str, hints: Hints, words: str) -> None:
    text = ALL.format(defaults="", more=more)
    found = load(FLEET.format(url="litellm://openai/x", model="org/Tiny", more=""), text)
    assert isinstance(found, Loaded)
    (route,), snapshot = found.value.policy.routes, found.value.fleet.idle()
    assert stand_in_words(features(hints=hints), "org/Tiny", snapshot, route).endswith(words)
    assert stand_in_words(features(hints=hints), "org/Tony", snapshot, route) == ""
    assert stand_in_words(features(hints=hints), "org/Tiny", snapshot, None) == ""
