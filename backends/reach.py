"""How a server is talked to from the machine it runs on: with its key, believing its own certificate."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator


class UnreadableCertificateError(ValueError):
    """A file holds no certificate that could be believed; the text names it and says why."""


def client(
    *,
    key: str | None = None,
    certificate: str = "",
    timeout: float | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> httpx.AsyncClient:
    """A client of one server.

    Args:
        key: Shown as bearer token.
        certificate: File of the certificate that the server has, believed besides those of the authorities
            that this machine, or ``SSL_CERT_FILE``, names.
        timeout: Seconds for each step of a call.
        transport: Of the calls, if not the usual one.

    Raises:
        UnreadableCertificateError: The file cannot be read.
    """
    context = ssl.create_default_context()
    if certificate:
        try:
            context.load_verify_locations(certificate)
        except OSError as error:  # those of ssl are such
            raise UnreadableCertificateError(f"{certificate}: {_why(error)}") from None
        # It is believed itself, whoever signed it.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    headers = [(b"authorization", b"Bearer " + key.encode())] if key else []
    return httpx.AsyncClient(
        verify=context, headers=headers, timeout=timeout, transport=transport, trust_env=False
    )


def disbelief(error: BaseException) -> str | None:
    """Why a server's certificate is not believed; None if a call failed for another reason."""
    for one in _causes(error):
        if isinstance(one, ssl.SSLCertVerificationError):
            return one.verify_message.rstrip(".")
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _why(error: OSError) -> str:
    """In words, without the place in the source of OpenSSL."""
    return "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror or str(error)
