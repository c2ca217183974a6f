"""``specroute explain``: where would this request go, and why?"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from math import nextafter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.files import FLEET, POLICY, load_config, read_bytes, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.core.fleet import Snapshot
    from gateway.core.predict import ServerModel
    from gateway.policy.load import Config

STDIN = Path("-")
NO_BACKEND = 1
"""Exit code where no backend can take the request."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain")(explain)


def explain(
    request: Annotated[
        Path | None, typer.Argument(help="A request body as JSON; - reads it from stdin.", show_default=False)
    ] = None,
    *,
    fleet: Annotated[Path, typer.Option(help="The fleet file.")] = FLEET,
    policy: Annotated[Path, typer.Option(help="The policy file.")] = POLICY,
    prompt: Annotated[
        str | None, typer.Option(help="Text of a chat request, in place of a body.", show_default=False)
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model that --prompt asks for; the policy's first if left out.", show_default=False
        ),
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Endpoint; told from the body if left out.", show_default=False)
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(help="Path of the request; the endpoint's usual one if left out.", show_default=False),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(help="A request header, such as 'x-specroute-workload: math'.", show_default=False),
    ] = None,
    in_flight: Annotated[
        list[str] | None,
        typer.Option(help="Requests a backend has open, as NAME=COUNT; NAME may hold *.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Say where a request would go, and why, from the two files alone: no server is asked.

    Every backend counts as healthy and idle, except for what --in-flight says. Of speed only that is known
    which the policy's file of `specroute learned` tells.

    Example: `specroute explain --prompt "Solve x^2 = 2" --in-flight gemma31-dflash7=40`

    Exit codes: 0 a backend takes it, 1 none does, 2 the input is not right.
    """
    from gateway.core.classes import kept_in, service_of
    from gateway.core.classify import classify
    from gateway.core.decide import Draw, NoCandidate, decide
    from gateway.core.features import ENDPOINTS, extract
    from gateway.core.labels import without_suffix
    from gateway.core.stand_in import instead
    from gateway.models import trained
    from gateway.policy.explain import explain as say
    from gateway.policy.problems import suggest
    from gateway.wire.endpoints import path_of
    from gateway.wire.inbound import Malformed, view

    config = load_config(fleet, policy)
    if prompt is not None and request is None:
        body = _chat(prompt, model, config)
    elif request is not None and prompt is None:
        body = sys.stdin.buffer.read() if request == STDIN else read_bytes(request)
    else:
        refuse("give either a request body or --prompt")
    endpoint = endpoint or _endpoint(body)
    if endpoint not in ENDPOINTS:
        refuse(f"there is no endpoint {endpoint!r}; {suggest(endpoint, ENDPOINTS, 'endpoints')}")
    seen = view(endpoint, body, _headers(header or []), path or path_of(endpoint))
    if isinstance(seen, Malformed):
        refuse(seen.message)
    seen = without_suffix(seen, config.policy.classifier, config.policy.aliases)
    features = extract(seen)
    classification = classify(seen, features, config.policy.classifier, trained())
    snapshot = _busy(config.fleet.idle(), in_flight or [], config.policy.learning.known)
    service = service_of(seen, config.policy.classes, trust=config.policy.trust_class)
    features = kept_in(features, seen, service, config.policy.classes)
    draw = Draw(explore=nextafter(1.0, 0.0), tie=0.0)  # outside every baseline share below 100 %
    decision = decide(features, classification, snapshot, config.policy, draw, 0.0, None, service)
    if isinstance(decision, NoCandidate):
        decision = instead(decision, features, config.policy, snapshot, 0.0)
    reasons = trained().reasons(seen, features, classification.label)
    explanation = say(features, classification, decision, config.policy, snapshot, reasons)
    if as_json:
        typer.echo(json.dumps(explanation.as_json(), indent=2, ensure_ascii=False))
    else:
        typer.echo(str(explanation))
    raise typer.Exit(NO_BACKEND if explanation.backend is None else 0)


def _chat(prompt: str, model: str | None, config: Config) -> bytes:
    model = model or next(iter([*config.policy.aliases, *(one.target for one in config.fleet.backends)]))
    return json.dumps({"model": model, "messages": [{"role": "user", "content": prompt}]}).encode()


def _endpoint(body: bytes) -> str:
    """The endpoint whose bodies look like this one; chat where it is no JSON object, which is said later."""
    try:
        keys = frozenset(json.loads(body))
    except (ValueError, TypeError, RecursionError):
        return "chat"
    if "messages" in keys:
        return "chat"
    return "completions" if "prompt" in keys else "responses" if "input" in keys else "chat"


def _headers(lines: list[str]) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            refuse(f"--header {line!r}: write it as 'NAME: VALUE'")
        headers[name.strip().lower().encode()] = value.strip().encode()
    return headers


def _busy(idle: Snapshot, loads: list[str], known: Mapping[str, ServerModel]) -> Snapshot:
    """The snapshot with requests in flight where the caller says so, and what the policy's file knows."""
    from fnmatch import fnmatchcase

    from gateway.policy.problems import suggest

    states = [replace(state, model=known.get(state.backend.name)) for state in idle.states]
    for load in loads:
        name, _, count = load.rpartition("=")
        if not name or not count.isdecimal():
            refuse(f"--in-flight {load!r}: write it as NAME=COUNT")
        named = [position for position, one in enumerate(states) if fnmatchcase(one.backend.name, name)]
        if not named:
            names = [one.backend.name for one in states]
            refuse(f"--in-flight: there is no backend {name!r}; {suggest(name, names, 'backends')}")
        for position in named:
            states[position] = replace(states[position], in_flight=int(count))
    return replace(idle, states=tuple(states))
