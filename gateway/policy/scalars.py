"""How durations, shares, addresses and names are written in the files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from gateway.core.features import ENDPOINTS, PARAMETERS, WORKLOADS
from gateway.core.fleet import METHODS
from gateway.policy.problems import suggest
from gateway.policy.registry import SCORERS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

MISTAKE: Final = "specroute"
"""Type of the errors raised here; their context holds ``right``, the remedy."""


def mistake(wrong: str, right: str) -> PydanticCustomError:
    """A validation error that says what would be right."""
    return PydanticCustomError(MISTAKE, "{wrong}", {"wrong": wrong, "right": right})


_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s?(ms|s|m|h)", re.ASCII)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def duration(written: object) -> float:
    """Seconds of ``500ms``, ``2s``, ``30m`` or ``1h``.

    Raises:
        PydanticCustomError: It is not written so, or is zero.
    """
    found = _DURATION.fullmatch(written) if isinstance(written, str) else None
    if found is None:
        right = f"write a number with its unit, such as {_with_unit(written)}"
        raise mistake(f"{written!r} is not a duration", right)
    seconds = float(found[1]) * _SECONDS[found[2]]
    if seconds <= 0:
        raise mistake("the duration is zero", "write a longer one, such as 2s")
    return seconds


def _with_unit(written: object) -> str:
    number = isinstance(written, int | float) and not isinstance(written, bool) and written > 0
    return f"{written:g}s" if number else "500ms, 2s or 30m"


_PERCENT: Final = re.compile(r"(\d+(?:\.\d+)?)\s?%", re.ASCII)


def share(written: object) -> float:
    """A share from 0 to 1, written ``5%`` or ``0.05``.

    Raises:
        PydanticCustomError: It is not written so, or is not between 0 and 1.
    """
    if isinstance(written, str) and (found := _PERCENT.fullmatch(written)):
        value = float(found[1]) / 100
    elif isinstance(written, int | float) and not isinstance(written, bool):
        value = float(written)
    else:
        raise mistake(f"{written!r} is not a share", "write 5% or 0.05")
    if not 0 <= value <= 1:
        right = (
            f"did you mean {written}%?"
            if isinstance(written, int) and 1 < written <= 100
            else "write 5% or 0.05"
        )
        raise mistake(f"the share {written} is not between 0 and 1", right)
    return value


_PLAIN_HOST: Final = re.compile(r"[A-Za-z0-9.-]+(?::\d{1,5})?", re.ASCII)


def address(written: str) -> str:
    """Base address of a server, without path and trailing slash.

    Raises:
        PydanticCustomError: It has no scheme or host, or more than scheme, host and port. It is not repeated:
            any part may be a password or key.
    """
    if not re.match(r"https?://", written):
        rest = written.rpartition("//")[2]
        right = f"write http://{rest if _PLAIN_HOST.fullmatch(rest) else 'HOST:PORT'}"
        raise mistake("the address does not start with http:// or https://", right)
    try:
        parts = urlsplit(written)
        port = parts.port
    except ValueError:
        raise mistake("this is not an address", "write http://HOST:PORT") from None
    if not parts.hostname or port == 0 or re.search(r"\s", written):
        raise mistake("the address has no usable host and port", "write http://HOST:PORT")
    if "@" in parts.netloc:
        raise mistake("the address holds a user name or password", "use api_key_env for a key")
    more = (
        "query" if parts.query else "fragment" if parts.fragment else "path" if parts.path.strip("/") else ""
    )
    if more:
        right = f"write {parts.scheme}://{parts.netloc} (paths such as /v1 are added to each request)"
        raise mistake(f"the address has a {more}", right)
    return f"{parts.scheme}://{parts.netloc}"


HOSTED: Final = "litellm://"
"""What the address of a hosted model begins with."""

_HOSTED_MODEL: Final = re.compile(r"[A-Za-z0-9_-]+(?:/[A-Za-z0-9_.:@+-]+)+", re.ASCII)


def backend_address(written: str) -> str:
    """Base address of a server, or provider and model of a hosted one.

    Raises:
        PydanticCustomError: It is neither.
    """
    if not written.startswith(HOSTED):
        return address(written)
    if not _HOSTED_MODEL.fullmatch(written.removeprefix(HOSTED)):
        wrong = "the address does not name a provider and a model"
        raise mistake(wrong, "write litellm://PROVIDER/MODEL, such as litellm://openai/gpt-4.1-mini")
    return written


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)


def name(written: str) -> str:
    """Name of a backend or route: short, and safe in headers, metric labels and file globs.

    Raises:
        PydanticCustomError: It holds other characters or is too long.
    """
    if not _NAME.fullmatch(written):
        wrong = f"{written!r} cannot be a name"
        raise mistake(wrong, "use up to 63 letters, digits, '.', '_' and '-', a letter or digit first")
    return written


def _not_reserved(written: str) -> str:
    if written == "any":
        raise mistake("'any' stands for every backend", "choose another name")
    return written


RESERVED_LABELS: Final = frozenset({"other", "default"})
"""Stand for something else in metrics, in policies and in files of what was learnt."""


def _own_label(written: str) -> str:
    if written in RESERVED_LABELS:
        raise mistake(f"{written!r} stands for something else", "choose another label")
    return written


def workload(written: str, info: ValidationInfo) -> str:
    """A built-in label, or one that the policy's rules give; those are in the context of the validation.

    Raises:
        PydanticCustomError: It is neither.
    """
    known = (*WORKLOADS, *(info.context or ()))
    if written not in known:
        raise mistake(f"there is no workload {written!r}", suggest(written, known, "workloads"))
    return written


def pattern(written: str) -> str:
    """A regular expression.

    Raises:
        PydanticCustomError: It cannot be compiled.
    """
    try:
        re.compile(written)
    except re.error as error:
        raise mistake(
            f"{written!r} is not a regular expression: {error}", "write one as Python's re reads it"
        ) from None
    return written


_LANGUAGE: Final = re.compile(r"[a-z]{2}|und", re.ASCII)


def language(written: str) -> str:
    """ISO 639-1 code, or ``und`` for an unknown language.

    Raises:
        PydanticCustomError: It is not written so.
    """
    if not _LANGUAGE.fullmatch(written):
        raise mistake(
            f"{written!r} is not a language code", "write two small letters, such as es, or und for unknown"
        )
    return written


def suggest_method(written: str) -> str:
    """A remedy for a method that is not known, such as one by a name that only vLLM has for it."""
    flat = re.sub(r"[\s_]+", "-", written.strip().lower())
    if flat in METHODS:
        return f"did you mean {flat!r}?"
    if flat.endswith("-mtp"):  # vLLM has one name more for each family of models
        return "did you mean 'mtp'?"
    return suggest(flat, METHODS, "methods")


def _one_of(
    noun: str, known: Collection[str], remedy: Callable[[str], str] | None = None
) -> tuple[AfterValidator, WithJsonSchema]:
    def check(written: str) -> str:
        if written not in known:
            right = remedy(written) if remedy else suggest(written, known, f"{noun}s")
            raise mistake(f"there is no {noun} {written!r}", right)
        return written

    return AfterValidator(check), WithJsonSchema({"type": "string", "enum": sorted(known)})


class _ListOrOne:
    """Lets a list of one be written as its item."""

    @staticmethod
    def validate(written: object) -> object:
        return [written] if isinstance(written, str) else written

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        listed = handler(core)
        return {"anyOf": [listed["items"], listed]}


Item = TypeVar("Item")
Listed = Annotated[list[Item], BeforeValidator(_ListOrOne.validate), _ListOrOne()]
"""A list, or one item in place of it."""

Duration = Annotated[
    float,
    BeforeValidator(duration),
    WithJsonSchema(
        {"type": "string", "pattern": f"^{_DURATION.pattern}$", "examples": ["500ms", "2s", "30m"]}
    ),
]
DurationOrNever = Annotated[
    float,
    BeforeValidator(lambda written: 0.0 if written == "never" else duration(written)),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "pattern": f"^{_DURATION.pattern}$"}, {"const": "never"}],
            "examples": ["15s", "never"],
        }
    ),
]
Share = Annotated[
    float,
    BeforeValidator(share),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": 1},
                {"type": "string", "pattern": f"^{_PERCENT.pattern}$"},
            ],
            "examples": ["5%", 0.05],
        }
    ),
]
Address = Annotated[
    str, AfterValidator(address), WithJsonSchema({"type": "string", "pattern": "^https?://[^/]+/?$"})
]
BackendAddress = Annotated[
    str,
    AfterValidator(backend_address),
    WithJsonSchema({"type": "string", "pattern": f"^(https?://[^/]+/?|{HOSTED}{_HOSTED_MODEL.pattern})$"}),
]
Name = Annotated[
    str, AfterValidator(name), WithJsonSchema({"type": "string", "pattern": f"^{_NAME.pattern}$"})
]
BackendName = Annotated[Name, AfterValidator(_not_reserved)]
Language = Annotated[
    str, AfterValidator(language), WithJsonSchema({"type": "string", "pattern": f"^({_LANGUAGE.pattern})$"})
]
Method = Annotated[str, *_one_of("method", METHODS, suggest_method)]
Workload = Annotated[
    str,
    AfterValidator(workload),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "enum": sorted(WORKLOADS)},
                {"type": "string", "pattern": f"^{_NAME.pattern}$"},
            ]
        }
    ),
]
Label = Annotated[
    str,
    AfterValidator(name),
    AfterValidator(_own_label),
    WithJsonSchema({"type": "string", "pattern": f"^{_NAME.pattern}$"}),
]
Pattern = Annotated[str, AfterValidator(pattern)]
Endpoint = Annotated[str, *_one_of("endpoint", ENDPOINTS)]
Parameter = Annotated[str, *_one_of("parameter", PARAMETERS)]
Scorer = Annotated[str, *_one_of("scorer", SCORERS)]
