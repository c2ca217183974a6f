from __future__ import annotations

import pytest

from gateway.core.features import ENDPOINTS
from gateway.policy.load import Invalid, Loaded, load, load_fleet, load_policy

FLEET = """\
version: 1
backends:
  - {name: base, url: "http://h:1", model: m/x}
  - {name: fast, url: "http://h:2", model: m/x, method: dflash, draft_tokens: 7}
  - {name: other, url: "http://h:3", model: m/y, method: mtp, draft_tokens: 3}
"""


def fleet(*lines: str, env: dict[str, str] | None = None) -> list[str]:
    return said(
        load_fleet("version: 1\nbackends:\n" + "".join(f"  - {{{line}}}\n" for line in lines), env=env)
    )


def policy(text: str) -> list[str]:
    return said(load(FLEET, f"version: 1\n{text}"))


def said(result: object) -> list[str]:
    assert isinstance(result, Loaded | Invalid)
    problems = (*getattr(result, "problems", ()), *result.warnings)
    return [
        f"{one.line}:{one.column} {'warning ' if one.warning else ''}{one.path}: {one.wrong}; {one.right}"
        for one in sorted(problems)
    ]


def test_two_backends_of_one_name() -> None:
    assert fleet("name: a, url: 'http://h:1', model: m", "name: a, url: 'http://h:2', model: m") == [
        "4:12 backends[1].name: there already is a backend 'a', at line 3, column 12; give each its own name",
    ]


def test_a_name_that_cannot_be_read_is_no_duplicate() -> None:
    assert [line[:5] for line in fleet("url: 'http://h:1', model: m", "url: 'http://h:2', model: m")] == [
        "3:5 b",
        "4:5 b",
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("method: mtp", "3:52 backends[0].method: the method mtp needs its number of draft tokens"),
        ("draft_tokens: 3", "3:58 backends[0].draft_tokens: a backend without a method has no draft tokens"),
        ("draft: d", "3:51 backends[0].draft: a backend without a method has no draft"),
        ("method: mtp, draft_tokens: many", "3:71 backends[0].draft_tokens: this is the text 'many'"),
        ("method: mpt", "3:52 backends[0].method: there is no method 'mpt'"),
    ],
)
def test_a_method_and_its_draft_belong_together(line: str, expected: str) -> None:
    [problem] = fleet(f"name: a, url: 'http://h:1', model: m, {line}")
    assert problem.startswith(expected)


def test_two_backends_at_one_address() -> None:
    [warning] = fleet("name: a, url: 'http://h:1', model: m", "name: b, url: 'http://h:1/', model: m")
    assert warning.startswith("4:20 warning backends[1].url: backend 'a' has the same address")


def test_a_key_that_the_environment_lacks() -> None:
    line = "name: a, url: 'http://h:1', model: m, api_key_env: KEY"
    assert fleet(line) == []
    assert fleet(line, env={"KEY": "x"}) == []
    for env in ({}, {"KEY": ""}):
        [problem] = fleet(line, env=env)
        assert problem.startswith(
            "3:57 backends[0].api_key_env: the environment variable KEY is not set; set it"
        )


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (
            "sk-live-4f9d2c71",
            "this cannot be the name of an environment variable; name the variable that holds",
        ),
        ("hf_4f9d2c71aaaabbbb", "the environment variable that it names is not set; set it"),
    ],
)
def test_a_key_in_place_of_a_variable_s_name_is_not_repeated(key: str, told: str) -> None:
    [problem] = fleet(f"name: a, url: 'http://h:1', model: m, api_key_env: {key}", env={})
    assert problem.startswith(f"3:57 backends[0].api_key_env: {told}")
    assert key not in problem


def test_a_preference_for_a_backend_that_does_not_exist() -> None:
    assert policy("routes:\n  - {name: a, prefer: [fasst, any]}\n  - {name: b, prefer: [{name: zzz}]}\n") == [
        "3:24 routes[0].prefer[0]: there is no backend 'fasst'; did you mean 'fast'?",
        (
            "4:12 routes[1].name: it is never reached: route 'a' at line 3 takes all its requests; "
            "move it above 'a', or narrow the match of that"
        ),
        "4:31 routes[1].prefer[0].name: there is no backend 'zzz'; backends: base, fast, other",
    ]


@pytest.mark.parametrize(
    "selector", ["'zz*'", "{method: eagle3}", "{name: fast, method: mtp}", "{labels: {a: b}}"]
)
def test_a_preference_that_fits_no_backend(selector: str) -> None:
    [warning] = policy(f"routes:\n  - {{name: a, prefer: [{selector}, any]}}\n")
    assert warning.startswith("3:24 warning routes[0].prefer[0]: no backend fits this selector")


def test_a_preference_whose_backends_are_named_before() -> None:
    [warning] = policy("routes:\n  - {name: a, prefer: [any, fast]}\n")
    assert warning.startswith("3:29 warning routes[0].prefer[1]: every backend it names is named earlier")


def test_a_preference_up_to_a_load_leaves_a_backend_to_later_ones() -> None:
    listed = "{name: fast, max_in_flight: 9}, base, fast, any"
    assert policy(f"routes:\n  - {{name: a, prefer: [{listed}]}}\n") == []
    [warning] = policy(
        "routes:\n  - {name: a, prefer: [{name: fast, max_in_flight: 9}, {name: fast, max_in_flight: 3}, any]}\n"
    )
    assert "routes[0].prefer[1]: every backend it names is named earlier" in warning


def test_any_may_end_a_list_that_names_every_backend() -> None:
    assert policy("routes:\n  - {name: a, prefer: [base, fast, other, any]}\n") == []


def test_two_routes_of_one_name() -> None:
    found = policy(
        "routes:\n  - {name: a, match: {stream: true}, prefer: [any]}\n  - {name: a, prefer: [any]}\n"
    )
    assert found == [
        "4:12 routes[1].name: there already is a route 'a', at line 3, column 12; give each its own name",
    ]


def test_a_route_that_is_never_reached_names_the_one_in_the_way() -> None:
    found = policy("""\
routes:
  - {name: a, match: {workload: math}, prefer: [any]}
  - {name: b, match: {workload: [math, code]}, prefer: [any]}
  - {name: c, match: {workload: math, stream: true}, prefer: [any]}
  - {name: d, prefer: [any]}
  - {name: e, match: {workload: chat}, prefer: [any]}
""")
    assert [line.split(";")[0] for line in found] == [
        "5:12 routes[2].name: it is never reached: route 'a' at line 3 takes all its requests",
        "7:12 routes[4].name: it is never reached: route 'd' at line 6 takes all its requests",
    ]


def test_a_match_that_is_wrong_hides_no_route() -> None:
    found = policy(
        "routes:\n  - {name: a, match: {workload: maths}, prefer: [any]}\n  - {name: b, prefer: [any]}\n"
    )
    assert len(found) == 1
    assert "maths" in found[0]


def test_a_policy_that_does_not_take_every_request() -> None:
    [warning] = policy("routes:\n  - {name: a, match: {endpoint: chat}, prefer: [any]}\n")
    assert warning.startswith(
        "2:1 warning routes: the routes do not take every request; one that fits none is refused"
    )


def test_an_alias_of_a_target_that_no_backend_serves() -> None:
    assert policy("models: {x: m/xx}\nroutes:\n  - {name: a, prefer: [any]}\n") == [
        "2:13 models.x: no backend serves 'm/xx'; did you mean 'm/x'?",
    ]


def test_a_match_for_a_model_that_is_not_known() -> None:
    text = "models: {x: m/x}\nroutes:\n  - {name: a, match: {model: MODEL}, prefer: [any]}\n  - {name: b, prefer: [any]}\n"
    assert policy(text.replace("MODEL", "[x, m/y, xx]")) == [
        "4:39 routes[0].match.model[2]: no model is called 'xx'; did you mean 'x'?",
    ]
    assert policy(text.replace("MODEL", "gemma")) == [
        "4:30 routes[0].match.model: no model is called 'gemma'; models: m/x, m/y, x",
    ]


def test_a_route_without_a_backend_for_what_it_takes() -> None:
    [problem] = policy(
        "routes:\n  - {name: a, match: {model: m/y}, prefer: [fast]}\n  - {name: b, prefer: [any]}\n"
    )
    assert problem.startswith(
        "3:36 routes[0].prefer: none of these backends serves m/y, which this route takes"
    )
    [warning] = policy("routes:\n  - {name: a, prefer: [fast]}\n")
    assert warning.startswith("3:15 warning routes[0].prefer: none of these backends serves m/y")


def test_a_route_needs_no_backend_for_what_an_earlier_one_takes() -> None:
    assert (
        policy("""\
models: {y: m/y}
routes:
  - {name: a, match: {model: [y, m/y]}, prefer: [other]}
  - {name: b, prefer: [fast]}
""")
        == []
    )


def test_a_baseline_share_where_there_is_no_baseline() -> None:
    [own] = policy("""\
routes:
  - {name: a, match: {model: m/y}, prefer: [any], baseline_share: 5%}
  - {name: b, prefer: [any]}
""")
    assert own.startswith("3:67 warning routes[0].baseline_share: m/y has no backend without speculation")
    [inherited] = policy("""\
defaults: {baseline_share: 5%}
routes:
  - {name: a, match: {stream: true}, prefer: [any]}
  - {name: b, prefer: [any]}
""")
    assert inherited.startswith(
        "2:28 warning defaults.baseline_share: m/y has no backend without speculation"
    )


def reached(*matches: str, before: str = "") -> list[str]:
    routes = "".join(
        f"  - {{name: r{at}, match: {{{one}}}, prefer: [any]}}\n" for at, one in enumerate(matches)
    )
    return [line.split(";")[0] for line in policy(f"{before}routes:\n{routes}")]


@pytest.mark.parametrize(
    ("before", "matches", "takers"),
    [
        ("", ["stream: true", "stream: false", ""], "'r0' (line 3) and 'r1' (line 4)"),
        ("", ["max_prompt_tokens: 100", "min_prompt_tokens: 50", ""], "'r0' (line 3) and 'r1' (line 4)"),
        ("", ["max_prompt_tokens: 100", "min_prompt_tokens: 101", ""], "'r0' (line 3) and 'r1' (line 4)"),
        (
            "",
            ["workload: [math, code, chat]", "tenant: t", "workload: [tool_use, multilingual, grounded]", ""],
            "'r0' (line 3) and 'r2' (line 5)",
        ),
        (
            "models: {x: m/x}\n",
            ["model: [x, m/x]", "model: m/y", "model: [x, m/y]"],
            "'r0' (line 4) and 'r1' (line 5)",
        ),
        (
            "classify: {rules: [{label: sql, text: select}]}\n",
            ["workload: [math, code, chat, tool_use]", "workload: [multilingual, grounded]", "workload: sql", ""],
            "'r0' (line 4), 'r1' (line 5) and 'r2' (line 6)",
        ),
    ],
)  # fmt: skip
def test_routes_that_together_leave_nothing_to_a_later_one(
    before: str, matches: list[str], takers: str
) -> None:
    [problem] = [line for line in reached(*matches, before=before) if "warning" not in line]
    at = 2 + len(before.splitlines()) + len(matches)
    last = len(matches) - 1
    assert (
        problem
        == f"{at}:12 routes[{last}].name: it is never reached: routes {takers} together take all its requests"
    )


def test_of_very_many_routes_in_the_way_some_are_named() -> None:
    [problem] = reached(*(f"endpoint: {one}" for one in ENDPOINTS), "")
    assert problem.startswith(
        "14:12 routes[11].name: it is never reached: routes 'r0' (line 3), 'r1' (line 4), "
    )
    assert problem.endswith("'r7' (line 10) and 3 more together take all its requests")


@pytest.mark.parametrize(
    ("before", "matches"),
    [
        ("", ["max_prompt_tokens: 100", "min_prompt_tokens: 102", ""]),
        ("", ["workload: [math, code, chat]", "workload: [tool_use, multilingual]", ""]),
        ("", ["tenant: [a, b]", "tenant: c", ""]),
        ("", ["stream: true", "stream: false, min_confidence: 10%", ""]),
        (
            "classify: {rules: [{label: sql, text: select}]}\n",
            ["workload: [math, code, chat]", "workload: [tool_use, multilingual, grounded]", ""],
        ),
        ("models: {x: m/x}\n", ["model: m/x", "model: m/y", ""]),
    ],
)
def test_routes_that_together_leave_something_to_a_later_one(before: str, matches: list[str]) -> None:
    assert reached(*matches, before=before) == []


def test_a_route_after_those_of_all_models_takes_requests_without_one() -> None:
    assert reached("model: m/x", "model: m/y", "") == [
        (
            "5:12 warning routes[2].name: only requests without a model reach it: "
            "routes 'r0' (line 3) and 'r1' (line 4) together take all others"
        )
    ]
    assert reached("model: [m/x, m/y]", "", "") == [
        (
            "4:12 warning routes[1].name: only requests without a model reach it: "
            "route 'r0' at line 3 takes all others"
        ),
        "5:12 routes[2].name: it is never reached: route 'r1' at line 4 takes all its requests",
    ]


def test_without_a_fleet_there_may_be_any_model() -> None:
    text = (
        "version: 1\nroutes:\n  - {name: a, match: {model: [m/x, m/y]}, prefer: [any]}\n"
        "  - {name: b, prefer: [any]}\n"
    )
    assert said(load_policy(text)) == []


def test_routes_that_together_take_every_request_need_no_other() -> None:
    assert reached("stream: true", "stream: false") == []


def test_labels_that_are_not_known_are_not_ruled_out() -> None:
    everything = "workload: [math, code, chat, tool_use, multilingual, grounded]"
    [unread] = reached(everything, "", before="classify: {examples: own.json}\n")
    assert "was not read" in unread


def test_a_route_needs_no_backend_for_what_earlier_ones_take_together() -> None:
    assert (
        policy("""\
routes:
  - {name: a, match: {stream: true, model: m/y}, prefer: [other]}
  - {name: b, match: {stream: false, model: m/y}, prefer: [other]}
  - {name: c, prefer: [fast]}
""")
        == []
    )


@pytest.mark.parametrize(("method", "first"), [("mtp", 1), ("dflash", 7)])
def test_who_knows_no_n_is_told_one_to_begin_with(method: str, first: int) -> None:
    [problem] = fleet(f"name: a, url: 'http://h:1', model: m, method: {method}")
    right = f"add 'draft_tokens: {first}' to begin with, or the number a running server was started with"
    assert right in problem
