"""Variables of the environment that look like settings and are none."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from gateway.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX: Final = "SPECROUTE_"

_ELSEWHERE: Final = {"VLLM_PYTHON"}
"""What other commands read, without the prefix."""

_SERVICE_LINK: Final = re.compile(r".*_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_\w+)?)")
"""What Kubernetes sets for each service of the namespace, such as one called specroute-sim."""


def mistyped(variables: Iterable[str], fleet: str) -> list[str]:
    """Say of each variable that begins like a setting and is none what it may have been meant for.

    They are warned of, not refused: others than people set variables, too.

    Args:
        variables: Names of those that are set.
        fleet: Text of the fleet file, which may name variables that hold keys.
    """
    known = {name.upper() for name in Settings.model_fields}
    found = []
    for variable in sorted(variables):
        name = variable.removeprefix(PREFIX)
        right = name in known | _ELSEWHERE or variable in fleet or _SERVICE_LINK.fullmatch(f"_{name}")
        if right or not variable.startswith(PREFIX):
            continue
        near = get_close_matches(name, known, n=1)
        remedy = f"did you mean {PREFIX}{near[0]}?" if near else "docs/settings.md has all there are"
        found.append(f"{variable} is set, but there is no such setting; {remedy}")
    return found
