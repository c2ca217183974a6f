from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from gateway.core.breaker import BreakerSettings
from gateway.core.budget import BudgetSettings
from gateway.core.fleet import REFUSED_WITH_DRAFT
from gateway.core.policy import Match, Resume, Selector, Timeouts, Waiting, WeightedScorer
from gateway.policy.compile import Fleet, revision
from gateway.policy.load import Config, Invalid, Loaded, load, load_fleet, load_policy

POLICIES = Path(__file__).parents[3] / "policies"
FILES = {path.name: path.read_text(encoding="utf-8") for path in sorted(POLICIES.glob("*.yaml"))}
FLEETS = [name for name, text in FILES.items() if "\nbackends:" in text]
SAMPLES = [name for name in FILES if name not in FLEETS]

FLEET = """\
version: 1
backends:
  - {name: base, url: "http://h:1", model: m/x}
  - {name: fast, url: "http://h:2", model: m/x, method: dflash, draft_tokens: 7, labels: {hardware: MI300X}}
"""
POLICY = """\
version: 1
models: {x: m/x}
routes:
  - name: default
    prefer: [fast, any]
"""


def wrong(result: object) -> list[str]:
    assert isinstance(result, Invalid)
    assert result.problems
    return [f"{one.line}:{one.column} {one.path}" for one in result.problems]


def fleet_of(text: str) -> Fleet:
    loaded = load_fleet(text)
    assert isinstance(loaded, Loaded)
    return loaded.value


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_fits_the_sample_fleet_without_a_warning(name: str) -> None:
    loaded = load(FILES["fleet.yaml"], FILES[name], policy_file=name, env={})
    assert isinstance(loaded, Loaded), loaded
    assert loaded.warnings == ()


@pytest.mark.parametrize("name", FLEETS)
def test_every_sample_fleet_is_right(name: str) -> None:
    loaded = load_fleet(FILES[name], name)
    assert isinstance(loaded, Loaded), loaded
    assert loaded.warnings == ()


def test_there_are_samples() -> None:
    assert {"policy.yaml", "load-only.yaml", "roles.yaml", "long-context.yaml"} <= set(SAMPLES)
    assert "fleet.yaml" in FLEETS


@pytest.mark.parametrize("name", FILES)
def test_every_sample_names_its_schema_for_editors(name: str) -> None:
    first, *_ = FILES[name].splitlines()
    schema = first.removeprefix("# yaml-language-server: $schema=")
    assert (POLICIES / schema).is_file()


def test_the_examples_of_the_reference_fit_each_other() -> None:
    text = (POLICIES.parent / "docs" / "policy.md").read_text(encoding="utf-8")
    fleet, hosted, letting, policy = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    for loaded in (load(fleet, policy), load_fleet(hosted), load(hosted, f"version: 1\n{letting}")):
        assert isinstance(loaded, Loaded), loaded
        assert loaded.warnings == ()


def test_a_fleet_is_compiled_with_its_defaults() -> None:
    base, fast = fleet_of(FLEET).backends
    assert (base.name, base.url, base.target, base.served_model) == ("base", "http://h:1", "m/x", "m/x")
    assert (base.is_baseline, base.draft_tokens, base.max_in_flight, base.max_model_len) == (
        True,
        0,
        256,
        None,
    )
    assert base.refuses == frozenset()
    assert (fast.method, fast.draft_tokens, dict(fast.labels)) == ("dflash", 7, {"hardware": "MI300X"})
    assert fast.refuses == REFUSED_WITH_DRAFT
    assert fleet_of(FLEET).revision == revision(FLEET)


def test_a_fleet_is_compiled_with_what_it_says() -> None:
    text = (
        "version: 1\nbackends:\n"
        "  - {name: a, url: 'http://h:1/', model: m/x, served_model: x, method: mtp, draft_tokens: 2, draft: d,\n"
        "     refuses: [], max_in_flight: 8, max_model_len: 4096, api_key_env: KEY}\n"
    )
    loaded = load_fleet(text, env={"KEY": "secret"})
    assert isinstance(loaded, Loaded)
    [one] = loaded.value.backends
    assert (one.url, one.served_model, one.draft, one.refuses) == ("http://h:1", "x", "d", frozenset())
    assert (one.max_in_flight, one.max_model_len, one.api_key) == (8, 4096, "secret")


def test_a_policy_is_compiled_with_what_routes_inherit() -> None:
    text = """\
version: 1
models: {x: m/x}
defaults: {score: {load: 2}, baseline_share: 5%, max_attempts: 2}
timeouts: {connect: 500ms, idle: 1m}
classify: {default: code, threshold: 60%, trust_hints: false}
allow_pin: true
stale_after: 5s
routes:
  - name: one
    match:
      model: x
      workload: [math, code]
      min_confidence: 0.6
      language: es
      endpoint: chat
      stream: true
      tenant: t
      min_prompt_tokens: 10
      max_prompt_tokens: 20
    prefer: [{name: "f*", method: dflash, draft_tokens: 7, labels: {hardware: MI300X}}, any]
    score: {preference: 1}
    baseline_share: 0
    max_attempts: 1
  - name: two
    prefer: [base]
"""
    loaded = load_policy(text, fleet=fleet_of(FLEET))
    assert isinstance(loaded, Loaded)
    policy = loaded.value
    one, two = policy.routes
    assert one.match == Match(
        models=frozenset({"x"}),
        workloads=frozenset({"math", "code"}),
        min_confidence=0.6,
        languages=frozenset({"es"}),
        endpoints=frozenset({"chat"}),
        stream=True,
        tenants=frozenset({"t"}),
        min_prompt_tokens=10,
        max_prompt_tokens=20,
    )
    assert one.prefer == (Selector("f*", "dflash", 7, {"hardware": "MI300X"}), Selector())
    assert (one.scorers, one.baseline_share, one.max_attempts) == (
        (WeightedScorer("preference", 1.0),),
        0.0,
        1,
    )
    assert (two.scorers, two.baseline_share, two.max_attempts) == ((WeightedScorer("load", 2.0),), 0.05, 2)
    assert two.match == Match()
    assert policy.timeouts == Timeouts(connect=0.5, idle=60.0)
    assert (policy.classifier.default, policy.classifier.threshold, policy.classifier.trust_hints) == (
        "code",
        0.6,
        False,
    )
    assert (policy.aliases, policy.allow_pin, policy.stale_after) == ({"x": "m/x"}, True, 5.0)
    assert policy.revision == revision(text)


def test_a_policy_says_when_servers_are_out_and_how_many_attempts_there_are() -> None:
    text = """\
version: 1
breaker: {consecutive: 3, share: 30%, window: 1m, min_requests: 5, open: 1s, open_max: 10s, trials: 2, slow_start: never}
retries: {share: 10%, per_second: 0.5, burst: 4}
queue: {wait: 2s, length: 7}
resume: {mode: exact, limit: 3}
routes:
  - {name: all, prefer: [any]}
"""
    loaded = load_policy(text, fleet=fleet_of(FLEET))
    assert isinstance(loaded, Loaded)
    assert loaded.value.breaker == BreakerSettings(3, 0.3, 60.0, 5, 1.0, 10.0, 2, 0.0)
    assert loaded.value.retries == BudgetSettings(0.1, 0.5, 4)
    assert loaded.value.queue == Waiting(2.0, 7)
    assert loaded.value.resume == Resume("exact", 3)


def test_both_files_make_a_config() -> None:
    loaded = load(FLEET, POLICY)
    assert isinstance(loaded, Loaded)
    assert isinstance(loaded.value, Config)
    assert loaded.value.fleet.revision == revision(FLEET)
    assert loaded.value.policy.revision == revision(POLICY)


def test_the_mistakes_of_both_files_are_found_in_one_run_and_sorted() -> None:
    fleet = FLEET.replace("draft_tokens: 7, ", "").replace("http://h:1", "h:1")
    policy = """\
version: 1
models: {x: m/x}
allow_pin: maybe
routes:
  - name: one
    prefer: [fats, any]
  - name: two
    prefer: [any]
    prefer: [base]
    max_attempts: 0
"""
    result = load(fleet, policy, fleet_file="F", policy_file="P")
    assert wrong(result) == [
        "3:23 backends[0].url",
        "4:57 backends[1].method",
        "3:12 allow_pin",
        "6:14 routes[0].prefer[0]",
        "7:11 routes[1].name",
        "9:5 routes[1].prefer",
        "10:19 routes[1].max_attempts",
    ]
    assert isinstance(result, Invalid)
    assert {one.file for one in result.problems} == {"F", "P"}
    assert "did you mean 'fast'?" in result.problems[3].right


@pytest.mark.parametrize(
    ("fleet", "policy", "expected"),
    [
        ("", "", ["1:1 ", "1:1 "]),
        ("a: [", POLICY, ["1:5 "]),
        (FLEET, "- a\n", ["1:1 "]),
        ("version: 1\nbackends: []\n", POLICY, ["2:1 backends"]),
        ("version: 1\nbackends: [5]\n", POLICY, ["2:12 backends[0]"]),
        (FLEET, "version: 1\nroutes: []\n", ["2:1 routes"]),
        (FLEET, "version: 1\nroutes: [5]\n", ["2:10 routes[0]"]),
        (FLEET, "version: 1\n", ["1:1 routes"]),
        (FLEET, POLICY.replace("version: 1\n", ""), ["1:1 version"]),
        (FLEET, POLICY.replace("version: 1", "version: 2"), ["1:10 version"]),
    ],
)
def test_files_that_say_nothing_are_refused(fleet: str, policy: str, expected: list[str]) -> None:
    assert wrong(load(fleet, policy)) == expected


def test_with_a_broken_fleet_the_names_that_it_declares_are_still_known() -> None:
    fleet = FLEET.replace("draft_tokens: 7, ", "")
    result = load(fleet, POLICY.replace("fast", "fastt"))
    assert wrong(result) == ["4:57 backends[1].method", "5:14 routes[0].prefer[0]"]
    result = load(fleet, POLICY)
    assert wrong(result) == ["4:57 backends[1].method"]


def test_a_backend_that_cannot_be_read_makes_no_other_name_unknown() -> None:
    assert wrong(load("version: 1\nbackends: [5]\n", POLICY)) == ["2:12 backends[0]"]


def test_a_policy_by_itself_is_not_held_against_a_fleet() -> None:
    loaded = load_policy(POLICY.replace("fast", "nowhere").replace("m/x", "m/none"))
    assert isinstance(loaded, Loaded)
    assert loaded.warnings == ()


def test_warnings_come_with_files_that_can_be_used_and_with_others() -> None:
    policy = POLICY.replace("    prefer", "    match: {stream: true}\n    prefer")
    loaded = load(FLEET, policy)
    assert isinstance(loaded, Loaded)
    assert [(one.line, one.warning) for one in loaded.warnings] == [(3, True)]
    broken = load(FLEET, policy.replace("fast", "fats"))
    assert isinstance(broken, Invalid)
    assert [(one.line, one.warning) for one in broken.warnings] == [(3, True)]


ODD = (
    *(
        "{}",
        "[]",
        "null",
        "5",
        "-1",
        "true",
        ".nan",
        ".inf",
        "''",
        "any",
        "*",
        "&a",
        "*a",
        "!t x",
        "- ",
        "? ",
        "<<",
    ),
    *(
        "[a, {b: c}]",
        "{a: [1]}",
        "1e400",
        "\t",
        "%",
        ":",
        "#",
        "\x00",
        "9" * 5000,
        '"\\ud83d"',
        "default",
        "models",
    ),
)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_files_hold_the_answer_is_a_value_with_positions(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 -- a seeded test
    for _ in range(40):
        texts = [FLEET, POLICY]
        for _ in range(rng.randint(1, 3)):
            which = rng.randrange(2)
            words = list(re.finditer(r"[^\s:,{}\[\]]+|[:,{}\[\]]|\n\s*", texts[which]))
            if words:
                word = rng.choice(words)
                other = rng.choice((*ODD, rng.choice(words)[0], ""))
                texts[which] = texts[which][: word.start()] + other + texts[which][word.end() :]
        result = load(*texts, env={})
        assert isinstance(result, Loaded | Invalid)
        problems = (*getattr(result, "problems", ()), *result.warnings)
        assert problems or isinstance(result, Loaded)
        for problem in problems:
            lines = texts[problem.file == "policy.yaml"].split("\n")
            assert 1 <= problem.line <= len(lines), (problem, texts)
            assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1, (problem, texts)
            assert problem.wrong
            assert problem.right
