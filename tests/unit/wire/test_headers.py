from datetime import UTC, datetime

import pytest

from gateway.wire import headers


def test_secrets_and_connection_headers_stay_with_us():
    given = [
        (b"authorization", b"Bearer canary"),
        (b"cookie", b"canary"),
        *((name, b"canary") for name in (b"x-api-key", b"api-key", b"x-goog-api-key", b"x-auth-token")),
        (b"host", b"gateway"),
        (b"content-length", b"3"),
        (b"expect", b"100-continue"),
        (b"accept-encoding", b"gzip"),
        (b"traceparent", b"00-a-b-01"),
        (b"x-specroute-backend", b"b"),
        (b"x-specroute-tenant", b"acme"),
        (b"transfer-encoding", b"chunked"),
        (b"connection", b"keep-alive, X-Hop"),
        (b"x-hop", b"1"),
        (b"content-type", b"application/json"),
        (b"x-own", b"kept"),
    ]
    assert headers.to_backend(given) == [(b"content-type", b"application/json"), (b"x-own", b"kept")]


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        (b"", b""),
        (b"api_key=canary", b""),
        (b"api%5Fkey=canary&a=1", b"a=1"),
        (b"a=1&API_KEY=canary&b=2&access_token=canary", b"a=1&b=2"),
        (b"a=key&b", b"a=key&b"),
    ],
)
def test_secrets_in_a_query_stay_with_us(query, kept):
    assert headers.without_secrets(query) == kept


def test_a_backends_headers_lose_what_we_set_ourselves():
    given = [
        (b"date", b"now"),
        (b"server", b"uvicorn"),
        (b"content-length", b"3"),
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"content-encoding", b"gzip"),
        (b"retry-after", b"7"),
        (b"x-request-id", b"theirs"),
    ]
    assert headers.to_client(given) == [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"content-encoding", b"gzip"),
        (b"retry-after", b"7"),
    ]


def test_the_first_header_of_a_name_counts():
    assert headers.first([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")], b"a") == b"1"
    assert headers.first([], b"a") is None


DATE = (b"date", b"Mon, 30 Nov 2026 12:00:00 GMT")
NOW = datetime(2026, 11, 30, 12, 1, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ([(b"retry-after", b"7")], 7.0),
        ([(b"retry-after", b" 0 ")], 0.0),
        ([(b"retry-after", b"Mon, 30 Nov 2026 12:01:30 GMT"), DATE], 90.0),
        ([(b"retry-after", b"Mon, 30 Nov 2026 11:00:00 GMT"), DATE], 0.0),
        ([(b"retry-after", b"Mon, 30 Nov 2026 12:01:30 GMT")], 30.0),
        ([(b"retry-after", b"Mon, 30 Nov 2026 12:01:30 GMT"), (b"date", b"today")], 30.0),
        ([(b"retry-after", b"Mon, 30 Nov 2026 12:01:30 -0000"), DATE], 90.0),
        ([(b"retry-after", b"1.5")], 1.5),
        ([(b"retry-after", b"1.5.2")], None),
        ([(b"retry-after", b".")], None),
        ([(b"retry-after", b"9" * 400)], None),
        ([(b"retry-after", b"Fri, 31 Dec 99999999999999999999 23:59:59 GMT"), DATE], None),
        ([(b"retry-after", b"7"), (b"date", b"Fri, 31 Dec 99999999999999999999 23:59:59 GMT")], 7.0),
        ([(b"retry-after", b"soon"), DATE], None),
        ([(b"retry-after", b"-1"), DATE], None),
        ([(b"retry-after", "²".encode("latin-1")), DATE], None),
        ([DATE], None),
    ],
)
def test_when_an_answer_asks_to_be_tried_again(given, seconds):
    assert headers.retry_after(given, NOW) == seconds
