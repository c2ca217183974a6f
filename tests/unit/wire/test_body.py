import json

from gateway.wire.body import edit


def test_only_the_model_changes_and_everything_unknown_keeps_its_bytes():
    body = b'{"model": "alias", "x": 1.50, "messages": [{"role":"user","content":"\\u00e4 \xf0\x9f\x98\x80"}], "y": {"b":1,"a":2}}'
    assert edit(body, model="target") == (
        b'{"model":"target","x":1.50,"messages":[{"role":"user","content":"\\u00e4 \xf0\x9f\x98\x80"}],"y":{"b":1,"a":2}}'
    )


def test_usage_is_asked_for_beside_other_stream_options():
    body = b'{"stream":true,"stream_options":{"later":[1],"include_usage":false}}'
    assert json.loads(edit(body, include_usage=True))["stream_options"] == {
        "later": [1],
        "include_usage": True,
    }


def test_usage_in_every_chunk_does_not_come_alive_with_it():
    body = b'{"stream":true,"stream_options":{"continuous_usage_stats":true}}'
    assert json.loads(edit(body, include_usage=True))["stream_options"] == {"include_usage": True}


def test_usage_is_asked_for_where_there_were_no_options():
    assert json.loads(edit(b'{"stream":true}', include_usage=True))["stream_options"] == {
        "include_usage": True
    }
    assert json.loads(edit(b'{"stream_options":null}', include_usage=True))["stream_options"] == {
        "include_usage": True
    }
