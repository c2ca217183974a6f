"""Results that are kept, so that a run that was stopped goes on where it was."""

import hashlib
import json
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
ENGINE = (
    *(
        f"backends/fleetsim/{name}"
        for name in (
            "batch.py", "catalogue.py", "deepseek_v4.json", "draws.py", "faults.py", "fleet.py", "fluid.py",
            "measured.py", "model.py", "prefix_cache.py", "request.py", "server.py", "setup.py", "traffic.py",
            "view.py",
        )
    ),
    "backends/sim/configuration.py", "backends/sim/spread.py", "backends/sim/profiles",
)  # fmt: skip
CORE = (
    *(
        f"gateway/core/{name}.py"
        for name in (
            "candidates", "changes", "choice", "choose", "classes", "curve", "decide", "demand", "drift", "filters",
            "fleet", "learn", "hindsight", "kinship", "lengths", "lineup", "plan", "policy", "posterior", "predict",
            "prefill", "purse",
            "roles", "samples", "scorers", "selectors", "shortening", "sorting", "standing",
        )
    ),
    "gateway/runtime/planner.py", "gateway/runtime/program.py", "backends/fleetsim/beliefs.py",
    "backends/fleetsim/exploring.py", "backends/fleetsim/gateway.py", "tests/bench/routing/learned.py",
)  # fmt: skip
ADVICE = ("gateway/runtime/advice.py", "tests/bench/routing/advising.py")
REPLAY = (
    "gateway/core/replay.py", "gateway/core/untold.py", "gateway/core/virtual.py",
    "tests/bench/routing/replaying.py",
)  # fmt: skip
BESIDE = {
    "advice": ADVICE,
    "compose": ADVICE,
    "replay": REPLAY,
    "talk": ("tests/bench/routing/conversations.py",),
}
OURS = ("tests/bench/routing/fleets.py", "tests/bench/routing/jobs.py", "tests/bench/routing/peers.py")


@lru_cache(maxsize=8)
def digest(paths):
    """Of the sources that a result depends on."""
    found = hashlib.sha256()
    for path in paths:
        at = ROOT / path
        for file in sorted([at] if at.is_file() else at.rglob("*")):
            if file.suffix in {".py", ".json"}:
                found.update(file.read_bytes())
    return found.hexdigest()[:16]


def key(job):
    """Name of a job's result: another one as soon as the code that it runs is another."""
    ours = CORE if job["policy"] == "learned" else ()
    code = digest(ENGINE + OURS + ours + BESIDE.get(job["kind"], ()))
    return f"{code} {json.dumps(job, sort_keys=True)}"


class Store:
    """A file with one result a line."""

    def __init__(self, path, others=()):
        """Read it, and take in what files of other runs know beside it."""
        self.path = Path(path)
        self.known = {}
        for file in (self.path, *map(Path, others)):
            if file.exists() or file != self.path:
                self._read(file)

    def _read(self, file):
        for line in file.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            if one["key"] not in self.known:
                self.known[one["key"]] = one["figures"]
                if file != self.path:
                    self._append(one)

    def get(self, job):
        return self.known.get(key(job))

    def put(self, job, figures):
        self.known[key(job)] = figures
        self._append({"key": key(job), "figures": figures})

    def _append(self, one):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(one) + "\n")
