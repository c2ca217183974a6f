"""One gateway in front of the sample fleet, shared by the tests of a process."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import openai
import pytest

from tests.contract.stack import POLICIES, Loop, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.stack import Stack

SLOW = "slow-8b"
"""Model whose one server needs a minute for an answer; nothing else goes there."""

SLOW_BACKEND = f"""\
  - name: slow
    url: http://127.0.0.1:8109
    model: Qwen/Qwen3-8B
    served_model: {SLOW}
"""


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    found = Loop()
    yield found
    found.close()


@pytest.fixture(scope="session", params=[True, False], ids=["pipe", "messages"])
def pipe(request: pytest.FixtureRequest) -> bool:
    """Whether gateways pass chunks on by the pipe."""
    return bool(request.param)


@pytest.fixture(scope="session")
def stack(loop: Loop, tmp_path_factory: pytest.TempPathFactory, pipe: bool) -> Iterator[Stack]:
    """The sample fleet and policy; no request is spent on measuring the baselines."""
    fleet = (POLICIES / "fleet.yaml").read_text() + SLOW_BACKEND
    policy, shares = re.subn(r"(?<=baseline_share: )[\d.]+%?", "0%", (POLICIES / "policy.yaml").read_text())
    assert shares
    policy = policy.replace("models:\n", f"models:\n  {SLOW}: Qwen/Qwen3-8B\n")
    changes = {"slow": {"speed": 0.1}}
    folder = tmp_path_factory.mktemp("stack")
    with running(loop, folder, fleet, policy, changes=changes, given={"pipe": pipe}) as found:
        yield found


@pytest.fixture(scope="session")
def sdk(stack: Stack) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{stack.url}/v1",
        api_key="none",
        max_retries=0,
        http_client=openai.DefaultHttpxClient(trust_env=False),
    ) as client:
        yield client
