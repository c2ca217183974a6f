import json

import pytest

from gateway.wire import calls as subject
from gateway.wire.calls import Calls


def call(arguments, index=None):
    said = {"function": {"name": "f", "arguments": arguments}}
    return said if index is None else said | {"index": index}


def verdict(*deltas, finish="tool_calls"):
    calls = Calls()
    for delta in deltas:
        calls.take(0, json.dumps(delta).encode())
    return calls.verdict(finish)


@pytest.mark.parametrize("arguments", ["{}", '{"a": [1, {"b": null}]}', ' {"city": "Hà Nội"} '])
def test_json_objects_can_be_used(arguments):
    assert verdict([call(arguments)]) == "valid"


@pytest.mark.parametrize("arguments", ["", "{", '{"a": 1}}', "[]", "3", '{"a": tru}', None])
def test_anything_else_cannot(arguments):
    assert verdict([call(arguments)]) == "invalid"


def test_pieces_are_put_together_by_call():
    assert verdict([call('{"a', 0)], [call('{"b": ', 1)], [call('": 1}', 0), call("2}", 1)]) == "valid"
    assert verdict([call('{"a": 1}', 0)], [call('{"b": ', 1)]) == "invalid"


def test_calls_of_a_whole_answer_stand_side_by_side():
    assert verdict([call('{"a": 1}'), call('{"b": 2}')]) == "valid"
    assert verdict([call('{"a": 1}'), call("{")]) == "invalid"


def test_choices_are_kept_apart():
    calls = Calls()
    calls.take(0, json.dumps([call('{"a"', 0)]).encode())
    calls.take(1, json.dumps([call("{}", 0)]).encode())
    calls.take(0, json.dumps([call(": 1}", 0)]).encode())
    assert calls.verdict("tool_calls") == "valid"


@pytest.mark.parametrize("finish", ["length", ""])
def test_what_was_cut_short_is_not_judged(finish):
    assert verdict([call('{"a"')], finish=finish) == ""


def test_without_calls_there_is_nothing_to_judge():
    assert verdict() == ""
    assert verdict("strange") == ""


def test_more_than_the_limit_is_not_kept(monkeypatch):
    monkeypatch.setattr(subject, "LIMIT", 10)
    assert verdict([call('{"a": "x"}')]) == "valid"
    assert verdict([call('{"a": "xx"}')]) == ""


def test_a_call_without_a_function_is_no_object():
    assert verdict([{"index": 0, "type": "function"}]) == "invalid"
