from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.telemetry.setup import setup
from tests.contract.stack import eventually

if TYPE_CHECKING:
    from gateway.core.outcome import Record

DOCUMENT = Path(__file__).parents[3] / "docs" / "observability.md"


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_the_receiver_of_the_documentation_shows_spans(record: Record, tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    script = tmp_path / "spans.py"
    script.write_text(program.replace("4318", str(port)))
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as receiver:  # noqa: S603 - ours
        try:
            eventually(lambda: listens(port), bool)
            telemetry = setup(traces_to=f"http://127.0.0.1:{port}/v1/traces")
            telemetry.on_record(record)
            telemetry.close()
            assert receiver.stdout is not None
            lines = [receiver.stdout.readline() for _ in range(2)]
        finally:
            receiver.kill()
    assert [line.split()[:3] for line in lines] == [
        ["aaaaaaaa", "attempt", "chat"], ["aaaaaaaa", "request", "chat"],
    ]  # fmt: skip
    assert lines[1].endswith("eagle math lowest_cost\n")
