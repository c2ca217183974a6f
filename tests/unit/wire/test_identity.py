import re
from base64 import b64encode

import pytest

from gateway.wire.identity import draw, request_id

KEY = b"0123456789abcdef"


def of(given, *further, query=b"", **others):
    headers = [(name.replace("_", "-").encode(), value) for name, value in others.items()]
    return request_id(given, [*headers, *further], query)


def is_replaced(given, found):
    return re.fullmatch("[0-9a-f]{32}", found) and found.encode() != given


def test_a_given_id_is_kept():
    assert of(b"abc-1.2_3") == "abc-1.2_3"


@pytest.mark.parametrize("given", [None, b"", b"a b", b"\xff", b"x" * 129, b"a\nb", b"sk-canary-4f9d2c71"])
def test_an_unusable_id_is_replaced(given):
    assert is_replaced(given, of(given))


@pytest.mark.parametrize("given", [KEY, b"req-" + KEY, b"89abcdef", KEY.upper()])
@pytest.mark.parametrize(
    "credential",
    [
        {"authorization": b"Bearer " + KEY}, {"authorization": b'Token token="%b"' % KEY},
        {"authorization": b"Basic " + b64encode(b"user:" + KEY)}, {"authorization": b"basic " + b64encode(KEY + b":")},
        {"authorization": b"Basic " + b64encode(KEY).rstrip(b"=")},
        {"proxy_authorization": b"Bearer " + KEY}, {"proxy_authorization": b"Basic " + b64encode(b"user:" + KEY)},
        {"cookie": b"a=b; session=" + KEY + b"; c=d"}, {"cookie": b'a="%b"' % KEY}, {"cookie": b"a=%22" + KEY + b"%22"},
        {"query": b"api_key=" + KEY}, {"query": b"a=b&key=" + KEY + b"&c"}, {"query": b"token=%30" + KEY[1:]},
        {"query": b"access_token=" + KEY}, {"query": b"X-Amz-Signature=" + KEY}, {"query": b"client%5Fsecret=" + KEY},
    ],
)  # fmt: skip
def test_what_is_part_of_the_request_s_own_credentials_is_no_id(given, credential):
    assert is_replaced(given, of(given, **credential))


@pytest.mark.parametrize(
    "name",
    [
        b"x-api-key", b"ocp-apim-subscription-key", b"hf-token", b"private-token", b"x-vault-token", b"x-portkey-api-key",
        b"helicone-auth", b"x-client-secret", b"x-secret", b"x-key", b"x-auth", b"x-user-token", b"x-openai-key",
        b"x-jwt-assertion", b"x-amz-security-token", b"apikey", b"x-accesstoken", b"x-password", b"x-app-credentials",
        b"x-forwarded-client-cert", b"x-hub-signature-256", b"set-cookie", b"x-csrftoken", b"dpop",
        b"x-" + b"a" * 200 + b"-token",
    ],
)  # fmt: skip
def test_a_header_whose_name_tells_of_a_secret_holds_a_credential(name):
    assert is_replaced(KEY, of(KEY, (name, KEY)))


def test_each_of_several_headers_of_a_name_holds_a_credential():
    assert is_replaced(KEY, of(KEY, (b"authorization", b"Bearer x"), (b"authorization", b"Bearer " + KEY)))


@pytest.mark.parametrize(
    "other",
    [
        {"x_correlation_id": KEY}, {"traceparent": b"00-%b%b-%b-01" % (KEY, KEY, KEY)}, {"idempotency_key": KEY},
        {"x_idempotency_key": KEY}, {"x_amzn_trace_id": b"Root=" + KEY}, {"query": b"request_id=" + KEY}, {"query": b"key"},
        {"authorization": b"Basic !"}, {"authorization": b"Basic"}, {"cookie": b""}, {"x_session_id": KEY},
    ],
)  # fmt: skip
def test_what_is_elsewhere_and_no_credential_stays_an_id(other):
    assert of(KEY, **other) == KEY.decode()


def test_a_short_id_may_be_within_a_credential_by_chance():
    assert of(b"7", authorization=b"Bearer 0123456789abcdef") == "7"
    assert of(b"def", authorization=b"Bearer abc def") == "def"


def test_a_short_id_is_no_whole_credential():
    assert is_replaced(b"hunt", of(b"hunt", authorization=b"Basic " + b64encode(b"user:hunt")))


def test_a_new_id_is_made_of_the_bytes_that_are_given():
    assert request_id(None, [], b"", bytes(range(16))) == "000102030405060708090a0b0c0d0e0f"


def test_draws_follow_from_id_and_seed():
    assert draw("a", 1) == draw("a", 1)
    assert draw("a", 1) != draw("a", 2)
    assert draw("a", 1) != draw("b", 1)


def test_draws_spread_evenly():
    draws = [draw(str(i), 0).explore for i in range(2000)]
    assert 0.45 < sum(draws) / len(draws) < 0.55
    assert min(draws) >= 0.0
    assert max(draws) < 1.0
