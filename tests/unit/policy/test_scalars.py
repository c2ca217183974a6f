from __future__ import annotations

import pytest
from pydantic_core import PydanticCustomError

from gateway.policy.scalars import address, duration, language, name, share


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("500ms", 0.5), ("2s", 2.0), ("1.5s", 1.5), ("30m", 1800.0), ("1h", 3600.0), ("2 s", 2.0)],
)
def test_a_duration_is_a_number_with_its_unit(written: str, seconds: float) -> None:
    assert duration(written) == seconds


@pytest.mark.parametrize(
    ("written", "right"),
    [
        (2, "such as 2s"),
        (0.5, "such as 0.5s"),
        (-1, "such as 500ms, 2s or 30m"),
        (0, "such as 500ms, 2s or 30m"),
        (True, "such as 500ms, 2s or 30m"),
        ("2", "such as 500ms"),
        ("2 days", "such as 500ms"),
        ("-2s", "such as 500ms"),
        ("٢s", "such as 500ms"),
        (None, "such as 500ms"),
        ("0s", "a longer one"),
    ],
)
def test_other_durations_are_refused_with_a_remedy(written: object, right: str) -> None:
    with pytest.raises(PydanticCustomError) as caught:
        duration(written)
    assert caught.value.context is not None
    assert right in caught.value.context["right"]


@pytest.mark.parametrize(
    ("written", "value"), [("5%", 0.05), ("2.5 %", 0.025), ("100%", 1.0), (0.05, 0.05), (0, 0.0), (1, 1.0)]
)
def test_a_share_is_a_percentage_or_a_fraction(written: object, value: float) -> None:
    assert share(written) == value


@pytest.mark.parametrize(
    ("written", "right"),
    [
        (5, "did you mean 5%?"),
        (101, "write 5% or 0.05"),
        (-0.1, "write 5% or 0.05"),
        ("120%", "write 5% or 0.05"),
        ("five", "write 5% or 0.05"),
        (True, "write 5% or 0.05"),
        (float("nan"), "write 5% or 0.05"),
        (None, "write 5% or 0.05"),
    ],
)
def test_other_shares_are_refused_with_a_remedy(written: object, right: str) -> None:
    with pytest.raises(PydanticCustomError) as caught:
        share(written)
    assert caught.value.context is not None
    assert caught.value.context["right"] == right


@pytest.mark.parametrize(
    ("written", "base"),
    [
        ("http://10.0.0.5:8000", "http://10.0.0.5:8000"),
        ("https://vllm.example", "https://vllm.example"),
        ("http://h:1/", "http://h:1"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_an_address_is_scheme_host_and_port(written: str, base: str) -> None:
    assert address(written) == base


@pytest.mark.parametrize(
    ("written", "wrong", "right"),
    [
        ("localhost:8000", "does not start with", "write http://localhost:8000"),
        ("ftp://h", "does not start with", "write http://h"),
        ("", "does not start with", "write http://HOST:PORT"),
        ("http://h:8000/v1", "has a path", "write http://h:8000 "),
        ("http://h?x=1", "has a query", "write http://h "),
        ("http://h/v1?api_key=secret", "has a query", "write http://h "),
        ("http://h#x", "has a fragment", "write http://h "),
        ("http://h:secret", "not an address", "write http://HOST:PORT"),
        ("me:secret@h:1", "does not start with", "write http://HOST:PORT"),
        ("h:1/v1?api_key=secret", "does not start with", "write http://HOST:PORT"),
        ("http://", "no usable host", "write http://HOST:PORT"),
        ("http://h:0", "no usable host", "write http://HOST:PORT"),
        ("http://a b:1", "no usable host", "write http://HOST:PORT"),
        ("http://h:99999", "not an address", "write http://HOST:PORT"),
        ("http://[::1:80", "not an address", "write http://HOST:PORT"),
        ("http://me:secret@h:1", "user name or password", "use api_key_env"),
    ],
)
def test_other_addresses_are_refused_with_a_remedy(written: str, wrong: str, right: str) -> None:
    with pytest.raises(PydanticCustomError) as caught:
        address(written)
    assert caught.value.context is not None
    assert wrong in caught.value.context["wrong"]
    assert right in caught.value.context["right"]
    assert "secret" not in str(caught.value.context)


@pytest.mark.parametrize("written", ["a", "gemma31-mtp4", "A.b_c-9", "0", "x" * 63])
def test_a_name_is_safe_everywhere(written: str) -> None:
    assert name(written) == written


@pytest.mark.parametrize("written", ["", "-a", "a b", "a*", "é", "x" * 64, "a\n"])
def test_other_names_are_refused(written: str) -> None:
    with pytest.raises(PydanticCustomError):
        name(written)


def test_a_language_is_two_letters() -> None:
    assert [language(code) for code in ("es", "und")] == ["es", "und"]
    for code in ("spanish", "ES", "e", ""):
        with pytest.raises(PydanticCustomError):
            language(code)
