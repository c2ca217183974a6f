import asyncio

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from gateway.wire.siblings import HEADER, Siblings, merged
from tests.asgi import Conversation

ONE = """\
# HELP a_total Some.
# TYPE a_total counter
a_total{x="1"} 2.0
a_total{x="}"} 3.0
# HELP b Other.
# TYPE b gauge
b 1.0
"""
TWO = """\
# HELP b Other.
# TYPE b gauge
b 4.0
# HELP a_total Some.
# TYPE a_total counter
a_total{x="1"} 5.0
# HELP h Third.
# TYPE h histogram
h_bucket{le="+Inf"} 1
h_sum{} 2
h_count 1
"""


def test_the_metrics_of_all_are_one_text_that_can_be_read():
    families = {
        family.name: family for family in text_string_to_metric_families(merged([(0, ONE), (3, TWO)]))
    }
    samples = {
        (sample.name, sample.labels.pop("worker"), *sample.labels.values()): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert samples == {
        ("a_total", "0", "1"): 2.0, ("a_total", "0", "}"): 3.0, ("a_total", "3", "1"): 5.0,
        ("b", "0"): 1.0, ("b", "3"): 4.0,
        ("h_bucket", "3", "+Inf"): 1.0, ("h_sum", "3"): 2.0, ("h_count", "3"): 1.0,
    }  # fmt: skip
    assert families["b"].type == "gauge"
    assert merged([(0, ONE), (3, TWO)]).count("# HELP") == 3


OPEN = """\
# HELP h Third.
# TYPE h histogram
h_bucket{le="1.0"} 1.0 # {trace_id="%s"} 0.5 1.0
h_bucket{le="+Inf"} 1.0
h_count 1.0
h_sum 0.5
# HELP a Some.
# TYPE a counter
a_total 2.0 # {trace_id="ab"} 1.0
# EOF
"""


def test_exemplars_of_all_are_in_one_text_with_one_end():
    text = merged([(0, OPEN % "aa"), (1, OPEN % "bb")])
    assert text.endswith("# EOF\n")
    assert text.count("# EOF") == 1
    found = {
        (sample.name, sample.labels["worker"]): sample.exemplar.labels["trace_id"]
        for family in openmetrics(text)
        for sample in family.samples
        if sample.exemplar
    }
    assert found == {
        ("h_bucket", "0"): "aa", ("h_bucket", "1"): "bb", ("a_total", "0"): "ab", ("a_total", "1"): "ab",
    }  # fmt: skip


class Cut(httpx.AsyncByteStream):
    """A body after whose first part the worker dies.

    Attributes:
        closed: Whether its connection was given up.
    """

    def __init__(self, kind):
        self.kind = kind
        self.closed = False

    async def __aiter__(self):
        yield b"data: 1\n\n"
        raise httpx.RemoteProtocolError("died")

    async def aclose(self):
        self.closed = True


class Others:
    """Workers that answer with what they are given, or not at all."""

    def __init__(self, *answers):
        self.asked = []
        self.accepts = set()
        self._answers = answers

    def __call__(self, request):
        number = int(request.url.host[1:])
        self.asked.append((request.method, number, request.url.path, HEADER.decode() in request.headers))
        self.accepts.add(request.headers["accept"])
        answer = self._answers[number]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Cut):
            return httpx.Response(200, stream=answer, headers={"content-type": answer.kind})
        return httpx.Response(200, text=answer, headers={"content-type": "text/plain; version=0.0.4"})


async def own(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


def worker(others, count):
    siblings = Siblings(own, [f"http://w{number}" for number in range(count)], 1, body_limit=100)
    siblings._client = httpx.AsyncClient(transport=httpx.MockTransport(others))
    return siblings


async def ask(app, method, path, headers=(), **said):
    return await Conversation(app, method=method, path=path, headers=headers, **said).end()


async def test_metrics_are_asked_of_all_who_answer():
    others = Others(ONE, ONE, httpx.ConnectTimeout("slow"))
    answer = await ask(worker(others, 3), "GET", "/metrics")
    assert answer.status == 200
    assert answer.headers[b"content-type"] == b"text/plain; version=0.0.4"
    assert answer.headers[b"content-length"] == b"%d" % len(answer.body)
    assert answer.body.decode() == merged([(0, ONE), (1, ONE)])
    assert sorted(others.asked) == [("GET", number, "/metrics", True) for number in range(3)]


async def test_metrics_are_asked_for_in_the_format_that_is_asked_for():
    others = Others(OPEN, OPEN)
    accept = "application/openmetrics-text; version=1.0.0"
    answer = await ask(worker(others, 2), "GET", "/metrics", [(b"accept", accept.encode())])
    assert others.accepts == {accept}
    assert answer.body.endswith(b"# EOF\n")


async def test_where_nobody_answers_there_are_none():
    answer = await ask(worker(Others(httpx.ConnectError("gone")), 1), "GET", "/metrics")
    assert (answer.status, answer.body) == (503, b"")


async def test_a_reload_goes_to_all_and_the_own_answer_is_given():
    others = Others("", "", "")
    answer = await ask(worker(others, 3), "POST", "/-/reload")
    assert answer.body == b"/-/reload"
    assert sorted(others.asked) == [("POST", number, "/-/reload", True) for number in (0, 2)]


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/metrics", [(HEADER, b"1")]),
        ("POST", "/-/reload", [(HEADER, b"1")]),
        ("GET", "/healthz", []),
        ("POST", "/v1/chat/completions", []),
    ],
)
async def test_everything_else_is_the_workers_own_affair(method, path, headers):
    others = Others("", "")
    answer = await ask(worker(others, 2), method, path, headers)
    assert answer.body == path.encode()
    assert others.asked == []


async def test_what_is_no_request_passes():
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["type"])

    await Siblings(app, [], 0, body_limit=100)({"type": "lifespan"}, asyncio.Queue().get, None)
    assert seen == ["lifespan"]


@pytest.mark.parametrize("path", ["/ui", "/ui/live", "/-/board"])
async def test_the_page_is_that_of_the_first_worker(path):
    others = Others("the first one's", "", "")
    answer = await ask(worker(others, 3), "GET", path)
    assert (answer.status, answer.body) == (200, b"the first one's")
    assert answer.headers[b"content-type"] == b"text/plain; version=0.0.4"
    assert others.asked == [("GET", 0, path, True)]


async def test_the_first_worker_serves_its_page_itself_and_so_does_another_where_it_is_gone():
    first = Siblings(own, ["http://w0", "http://w1"], 0, body_limit=100)
    assert (await ask(first, "GET", "/ui")).body == b"/ui"
    await first.close()
    gone = worker(Others(httpx.ConnectError("gone"), ""), 2)
    assert (await ask(gone, "GET", "/ui")).body == b"/ui"
    assert (await ask(gone, "POST", "/ui/explain")).body == b"/ui/explain"


async def test_who_answers_for_the_first_worker_is_told_of_the_body_once_and_then_of_its_clients_end():
    told = []

    async def app(scope, receive, send):
        told.extend([await receive(), await receive()])
        await own(scope, receive, send)

    siblings = worker(Others(httpx.ConnectError("gone"), ""), 2)
    siblings._app = app
    client = Conversation(siblings, path="/ui/explain", body=b"request=hi")
    client.leave()
    await client.end()
    assert told == [{"type": "http.request", "body": b"request=hi"}, {"type": "http.disconnect"}]


async def test_where_the_first_worker_dies_in_a_part_of_its_page_another_answers():
    cut = Cut("text/html; charset=utf-8")
    answer = await ask(worker(Others(cut, ""), 2), "GET", "/ui/live")
    assert (answer.status, answer.body) == (200, b"/ui/live")
    assert cut.closed


async def test_where_the_first_worker_dies_the_stream_of_decisions_ends_so_that_browsers_come_back():
    cut = Cut("text/event-stream; charset=utf-8")
    answer = await ask(worker(Others(cut, ""), 2), "GET", "/ui/decisions")
    assert (answer.status, answer.body, answer.complete) == (200, b"data: 1\n\n", True)
    assert cut.closed


async def test_no_more_of_a_body_is_read_for_the_page_than_a_request_may_have():
    told = []

    async def app(scope, receive, send):
        told.append(await receive())
        await own(scope, receive, send)

    others = Others("", "")
    siblings = worker(others, 2)
    siblings._app = app
    client = Conversation(siblings, path="/ui/explain", body=None)
    client.say(b"x" * 100, more=True)
    client.say(b"y", more=True)
    await client.end()
    assert told == [{"type": "http.request", "body": b"x" * 100 + b"y"}]
    assert others.asked == []
    assert (await ask(siblings, "POST", "/ui/explain", body=b"x" * 100)).status == 200
    assert len(others.asked) == 1


async def test_the_first_worker_is_asked_for_the_path_as_the_client_wrote_it():
    others = Others("", "")
    written = b"/ui/static/a%3Fb%00"
    client = Conversation(worker(others, 2), method="GET", path="/ui/static/a?b\0", raw_path=written)
    assert (await client.end()).status == 200
    assert [path for *_, path, _ in others.asked] == ["/ui/static/a?b\0"]


async def test_the_first_worker_is_asked_all_that_the_client_asks_but_what_is_of_its_connection():
    asked = []

    def first(request):
        asked.append(request)
        headers = {"content-type": "text/html", "connection": "close", "x-own": "1"}
        return httpx.Response(422, text="what", headers=headers)

    answer = await ask(
        worker(first, 2), "POST", "/ui/explain",
        [(b"host", b"gateway"), (b"connection", b"close"), (b"accept-encoding", b"br"), (b"last-event-id", b"7")],
        body=b"request=hi", query=b"window=60&show=%20",
    )  # fmt: skip
    (request,) = asked
    assert (request.url.query, request.content) == (b"window=60&show=%20", b"request=hi")
    assert request.headers["last-event-id"] == "7"
    assert request.headers["host"] == "w0"
    assert request.headers["connection"] == "keep-alive"
    assert request.headers["content-length"] == "10"
    assert "br" not in request.headers.get_list("accept-encoding")
    assert request.extensions["timeout"]["read"] == 20.0
    assert (answer.status, answer.body) == (422, b"what")
    assert answer.headers == {b"content-type": b"text/html", b"x-own": b"1"}
