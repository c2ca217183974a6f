import pytest

from gateway.wire.lean.request import Origin, head, origin, split
from gateway.wire.upstream import UpstreamRequest


@pytest.mark.parametrize(
    ("url", "parted"),
    [
        ("http://a:1/v1/x?y=/z", ("http://a:1", "/v1/x?y=/z")),
        ("http://a", ("http://a", "/")),
        ("http://[::1]:80/", ("http://[::1]:80", "/")),
        ("http://a/b c", ("http://a", "/b%20c")),
        ("http://a/b\r\nx: y", ("http://a", "/b%0D%0Ax:%20y")),
        ("http://a/\u1ea1?%41", ("http://a", "/%E1%BA%A1?%41")),
        ("http://a/b#c", ("http://a", "/b")),
    ],
)
def test_split(url, parted):
    assert split(url) == parted


@pytest.mark.parametrize(
    ("base", "read"),
    [
        ("http://a", Origin("a", 80, tls=False, authority=b"a")),
        ("https://a", Origin("a", 443, tls=True, authority=b"a")),
        ("https://A.b:8443", Origin("a.b", 8443, tls=True, authority=b"A.b:8443")),
        ("http://[::1]:8000", Origin("::1", 8000, tls=False, authority=b"[::1]:8000")),
    ],
)
def test_origin(base, read):
    assert origin(base) == read


@pytest.mark.parametrize(
    "base",
    [
        "ftp://a",
        "a:80",
        "",
        "http://",
        "http://u:p@a",
        "http://a?b",
        "http://a#b",
        "http://a:x",
        "http://\u1ea1",
    ],
)
def test_no_origin(base):
    with pytest.raises(ValueError, match=r"."):
        origin(base)


def test_head():
    request = UpstreamRequest("POST", "", [(b"a", b"b"), (b"c", b"")], b"body")
    assert (
        head(request, "/x", b"h:1")
        == b"POST /x HTTP/1.1\r\nhost: h:1\r\na: b\r\nc: \r\ncontent-length: 4\r\n\r\n"
    )


@pytest.mark.parametrize("body", [b"", b"x"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS", "POST", "PUT", "PATCH"])
def test_a_length_is_told_unless_no_body_is_due_and_there_is_none(method, body):
    told = b"content-length: %d\r\n" % len(body) in head(UpstreamRequest(method, "", [], body), "/", b"h")
    assert told == (bool(body) or method in {"POST", "PUT", "PATCH"})


@pytest.mark.parametrize("bad", [b"\r", b"\n", b"\r\n", b"\0"])
@pytest.mark.parametrize("place", [0, 1], ids=["name", "value"])
def test_a_header_that_would_be_read_as_something_else(bad, place):
    header = [b"a", b"b"]
    header[place] += bad
    with pytest.raises(ValueError, match="line break or a null byte"):
        head(UpstreamRequest("GET", "", [tuple(header)], b""), "/", b"h")


def test_a_method_that_is_no_ascii():
    with pytest.raises(ValueError, match="ascii"):
        head(UpstreamRequest("G\u1ea1T", "", [], b""), "/", b"h")
