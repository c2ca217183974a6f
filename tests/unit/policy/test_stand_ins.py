import pytest

from gateway.core.fleet import STAND_IN
from gateway.policy import stand_ins
from gateway.policy.load import Invalid, Loaded, load, load_fleet

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
