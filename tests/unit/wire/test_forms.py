import itertools

import httpx
import pytest

from gateway.wire import forms


def form(*, first: bool = False, **fields: str) -> tuple[bytes, bytes]:
    """A form as a usual client writes it, the file before or after the fields."""
    audio = {"file": ("a.wav", b'RIFF\r\n\r\nname="model"\r\n\r\nno\r\n--x', "audio/wav")}
    named = {name: (None, value) for name, value in fields.items()}
    request = httpx.Request("POST", "http://g", files=audio | named if first else named | audio)
    return request.read(), request.headers["content-type"].encode()


@pytest.mark.parametrize("first", [False, True])
def test_the_model_of_a_form_is_read_and_changed_in_its_place(first: bool) -> None:
    body, kind = form(first=first, language="vi", model="m/whisper", other="model")
    assert forms.is_form(kind)
    assert forms.model(body, kind) == "m/whisper"
    changed = forms.with_model(body, kind, "served-name")
    assert changed == body.replace(b"m/whisper", b"served-name")
    assert forms.model(changed, kind) == "served-name"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (form(language="vi")[0], form()[1]),
        form(language="vi"),
        form(model="x" * 600),
        (b"", b"multipart/form-data; boundary=x"),
        (b"--x\r\n", b"multipart/form-data; boundary=x"),
        (b'--x\r\ncontent-disposition: form-data; name="model"', b"multipart/form-data; boundary=x"),
        (b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nm', b"multipart/form-data; boundary=x"),
        (
            b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\n\xff\r\n--x--',
            b"multipart/form-data; boundary=x",
        ),
        (b"--x--", b"multipart/form-data"),
        (b'{"model":"m"}', b"application/json"),
    ],
    ids=itertools.count(),
)
def test_a_form_that_names_none_stays_as_it_is(body: bytes, kind: bytes) -> None:
    assert forms.model(body, kind) == ""
    if forms.is_form(kind) and b"\xff" not in body:
        assert forms.with_model(body, kind, "y") == body


@pytest.mark.parametrize(("before", "found"), [(255, "m"), (256, "")])
def test_a_model_is_looked_for_among_so_many_parts(before: int, found: str) -> None:
    part = '--x\r\ncontent-disposition: form-data; name="{}"\r\n\r\nm\r\n'
    body = part.format("other") * before + part.format("model") + "--x--"
    assert forms.model(body.encode(), b"multipart/form-data; boundary=x") == found


def test_a_file_of_that_name_is_no_model() -> None:
    kind = b"multipart/form-data; boundary=x"
    head = b'--x\r\ncontent-disposition: form-data; filename="a; name=model"; name="file"\r\n\r\nRIFF\r\n'
    assert forms.model(head + b"--x--", kind) == ""
    named = b'--x\r\ncontent-disposition: form-data; name = "model"\r\n\r\nm\r\n--x--'
    assert forms.model(head + named, kind) == "m"


@pytest.mark.parametrize("boundary", ["a b", "a'()+_,-./:=? b", "a:b", "x"])
def test_every_boundary_that_is_legal_between_quotes_is_read(boundary: str) -> None:
    """RFC 2046, 5.1.1: all these may stand in one, and a space must not end it."""
    kind = f'multipart/form-data; charset=utf-8; boundary="{boundary}"'.encode()
    head = 'content-disposition: form-data; name="model"'
    body = f"--{boundary}\r\n{head}\r\n\r\nm\r\n--{boundary}--\r\n".encode()
    assert forms.model(body, kind) == "m"
    assert forms.with_model(body, kind, "other") == body.replace(b"\r\nm\r\n", b"\r\nother\r\n")


def test_odd_but_legal_forms_are_read() -> None:
    body = b"pre\r\n--a b\r\nX: 1\r\ncontent-disposition: form-data;name=model\r\n\r\nm\r\n--a b--\r\n"
    assert (
        forms.model(body.replace(b"a b", b"ab"), b'Multipart/Form-Data; charset=utf-8; Boundary="ab"') == "m"
    )
