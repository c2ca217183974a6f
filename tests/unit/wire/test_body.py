import json

import pytest

from gateway.wire.body import UneditableError, edit


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


def with_many_fields(**fields):
    """A body of more fields than are taken apart, as bytes with white space, and as they are read."""
    body = {f"field{at}": at for at in range(30_000)}
    between = {**dict(list(body.items())[:10_000]), **fields, **dict(list(body.items())[10_000:])}
    return json.dumps(between).encode() + b" \n", between


@pytest.mark.parametrize(
    "options",
    [{}, {"stream_options": None}, {"stream_options": {"later": [1], "continuous_usage_stats": True}}],
)
def test_of_a_body_of_many_fields_the_same_change(options):
    body, fields = with_many_fields(model="alias", messages=[{"content": "}{"}], **options)
    made = edit(body, model="target", include_usage=True, token_ids=True)
    asked = {"include_usage": True, **({"later": [1]} if options.get("stream_options") else {})}
    assert json.loads(made) == fields | {"model": "target", "stream_options": asked, "return_token_ids": True}
    assert edit(body) == body


def test_a_body_of_many_fields_keeps_all_other_bytes():
    body, _ = with_many_fields(model="alias", return_token_ids=False)
    made = edit(body, model="target", token_ids=True)
    expected = body.replace(b'"alias"', b'"target"').replace(
        b'"return_token_ids": false', b'"return_token_ids": true'
    )
    assert made == expected


@pytest.mark.parametrize("fields", [10, 30_000])
def test_stream_options_of_any_length_are_not_taken_apart(fields):
    options = {f"field{at}": "x" * (1 if fields > 10 else 10_000) for at in range(fields)}
    with pytest.raises(UneditableError, match="stream_options"):
        edit(json.dumps({"stream_options": options}).encode(), include_usage=True)


@pytest.mark.parametrize("body", [b"[" + b'":",' * 30_000 + b"]", b'{"a":"' + b":" * 30_000])
def test_many_fields_that_are_no_object_cannot_be_edited(body):
    with pytest.raises(UneditableError):
        edit(body, model="target")
