import pytest

from gateway.core.features import ENDPOINTS
from gateway.wire.endpoints import endpoint_of


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        ("/v1/chat/completions", "chat"),
        ("/v1/completions", "completions"),
        ("/tokenize", "tokenize"),
        ("/v1/audio/transcriptions", "audio"),
        ("/v1/files", "other"),
        ("/", "other"),
    ],
)
def test_paths_have_names_of_the_closed_set(path, endpoint):
    assert endpoint_of(path) == endpoint
    assert endpoint in ENDPOINTS
