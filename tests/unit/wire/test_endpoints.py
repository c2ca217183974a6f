import pytest

from gateway.core.features import ENDPOINTS
from gateway.wire.endpoints import endpoint_of, path_of


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        ("/v1/chat/completions", "chat"),
        ("/v1/completions", "completions"),
        ("/tokenize", "tokenize"),
        ("/v1/messages/count_tokens", "tokenize"),
        ("/pooling", "embeddings"),
        ("/classify", "score"),
        ("/v1/audio/transcriptions", "audio"),
        ("/v1/files", "other"),
        ("/", "other"),
    ],
)
def test_paths_have_names_of_the_closed_set(path, endpoint):
    assert endpoint_of("POST", path) == endpoint
    assert endpoint in ENDPOINTS


@pytest.mark.parametrize("method", ["GET", "OPTIONS", "HEAD"])
def test_what_sends_no_request_body_generates_nothing(method):
    assert endpoint_of(method, "/v1/chat/completions") == "other"


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_the_usual_path_of_an_endpoint_is_one_of_it(endpoint):
    path = path_of(endpoint)
    assert endpoint_of("POST", path) == endpoint if path else endpoint in {"audio", "other"}


def test_the_usual_path_is_the_first_of_several():
    assert path_of("rerank") == "/rerank"
    assert path_of("tokenize") == "/tokenize"
    assert path_of("chat") == "/v1/chat/completions"
