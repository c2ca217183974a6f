"""Whether the gateway can talk to a server: at its url, with a certificate it shows and a key it asks for."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from backends.preflight.finding import Finding, unchecked
from backends.spec import API_KEY
from gateway.policy.variables import NAME, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.machine import Machine
    from backends.spec import LaunchSpec

_NAMED: Final = "name the variable that holds the key in api_key_env"


def check_reach(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    """Findings about the scheme of its url, its certificate and its key. No key is ever in one."""
    yield from _scheme(spec)
    if spec.certificate and machine.engine is not None:
        yield from _certificate(spec)
    if spec.api_key_env is None:
        # What this environment holds goes to the servers that are started from it.
        inherited = machine.engine is not None and machine.env.get(API_KEY)
        if spec.gives_key or inherited:
            wrong = "it asks for a key, and the gateway has none to show"
            where = "" if spec.gives_key else f", or unset {API_KEY} here"
            yield Finding(spec.name, wrong, f"{_NAMED}{where}")
    else:
        yield from _key(spec, spec.api_key_env, machine)


def _scheme(spec: LaunchSpec) -> Iterator[Finding]:
    if "ssl-keyfile" in spec.flags and not spec.certificate:
        yield Finding(spec.name, "it has ssl-keyfile and no ssl-certfile", "set both, or neither")
        return
    if (spec.scheme == "https") != bool(spec.certificate):
        wrong, right = "its url says http, and it is started with a certificate", "write https in its url"
        if spec.scheme == "https":
            wrong = "its url says https, and it is started without a certificate"
            right = "set args ssl-certfile and ssl-keyfile, or write http"
        yield Finding(spec.name, wrong, right)
    if str(spec.flags.get("ssl-cert-reqs", 0)) not in ("0", "1"):
        wrong = "it asks whoever calls for a certificate, and the gateway has none to show"
        yield Finding(spec.name, wrong, "remove ssl-cert-reqs")


def _certificate(spec: LaunchSpec) -> Iterator[Finding]:
    def refuse() -> str:
        raise _EncryptedKeyError

    held = spec.flags.get("ssl-keyfile")
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(spec.certificate, None if held is None else str(held), refuse)
    except _EncryptedKeyError:
        wrong = "the key of its certificate is encrypted, and nobody is there to type the password"
        yield Finding(spec.name, wrong, "name a key without a password in ssl-keyfile")
    except OSError as error:  # those of ssl are such
        files = spec.certificate if held is None else f"{spec.certificate} and {held}"
        why = "they are no certificate and its key" if isinstance(error, ssl.SSLError) else error.strerror
        yield Finding(spec.name, f"its certificate cannot be used: {files}: {why}", "name the files of one")


class _EncryptedKeyError(Exception):
    """A password is asked for."""


def _key(spec: LaunchSpec, variable: str, machine: Machine) -> Iterator[Finding]:
    if not NAME.fullmatch(variable):
        wrong = "what api_key_env names cannot be an environment variable"
        yield Finding(spec.name, wrong, f"{_NAMED}, not the key itself")
        return
    if "api-key" in spec.flags:
        wrong = "its key stands on its command line, where all on its machine can read it"
        right = "remove api-key: it is started with the key that api_key_env names"
        yield Finding(spec.name, wrong, right, warning=True)
    key = machine.env.get(variable)
    if not key:
        wrong, right = f"the {named(variable)}, which holds its key, is not set", "set it before the start"
        if machine.engine is None:
            yield unchecked(spec.name, wrong, right)
        else:
            yield Finding(spec.name, wrong, right)
    elif not key.isprintable() or key != key.strip():
        wrong = f"the key in {variable} has a line break or another character that cannot be sent"
        yield Finding(spec.name, wrong, "set it to the bare key")
    elif spec.gives_key and key != str(spec.flags.get("api-key", spec.env.get(API_KEY))):
        wrong = f"the key in {variable} is not the one that it is started with"
        yield Finding(spec.name, wrong, f"set {variable} to that, or remove the other from 'launch'")
