"""Replay of a log that a simulated gateway wrote."""

import json
from dataclasses import replace

import pytest
import typer
from typer.testing import CliRunner

from backends.fleetsim import beliefs, catalogue
from backends.fleetsim.fleet import Setup, simulate
from backends.fleetsim.gateway import GatewayRouter
from backends.fleetsim.traffic import EQUAL, Source, constant, steady
from gateway.cli import replay
from gateway.core.outcome import Attempt, Outcome, Record, Speculation, Trace, Usage
from gateway.core.policy import Learning, WeightedScorer
from gateway.telemetry.decision_entry import entry_of
from gateway.telemetry.decision_schema import line_of

ROLES = """
version: 1
models: {fleet: google/gemma-4-31B-it}
learning: {mode: auto}
classes:
  - {name: interactive, ttft: 1s, tpot: 12ms}
  - {name: bulk}
routes:
  - {name: all, prefer: [any]}
"""
GEMMA = "google/gemma-4-31B-it"
NAMES = ["plain", "mtp4", "dflash7"]
MODELS = [catalogue.engine(GEMMA, *which) for which in (("none", 0), ("gemma4-mtp", 4), ("dflash", 7))]
FLEET = """
version: 1
backends:
  - {name: plain, url: "http://a:8000", model: google/gemma-4-31B-it}
  - {name: mtp4, url: "http://b:8000", model: google/gemma-4-31B-it, method: gemma4-mtp, draft_tokens: 4}
  - {name: dflash7, url: "http://c:8000", model: google/gemma-4-31B-it, method: dflash, draft_tokens: 7}
"""
LEAST = """
version: 1
models: {fleet: google/gemma-4-31B-it}
routes:
  - {name: all, prefer: [any], score: {load: 1}}
"""
PLAIN = """
version: 1
models: {fleet: google/gemma-4-31B-it}
routes:
  - {name: all, prefer: [plain]}
"""


def policy(share):
    """Least requests, and a share to the baseline whatever its load."""
    usual = beliefs.policy(target=GEMMA, learning=Learning())
    (route,) = usual.routes
    scorers = (WeightedScorer("load", 1.0),)
    return replace(usual, routes=(replace(route, scorers=scorers, baseline_share=share),))


def run(under, *, rate=4.0, window=100.0, names=NAMES, models=MODELS, seed=0):
    """(what the router chose by request, the log of the simulation)."""
    chosen = {}
    router = GatewayRouter(
        models, under, names=names, seed=seed, on_choice=lambda one: chosen.update({one.request.serial: one})
    )
    setup = Setup(
        models,
        [Source(constant(EQUAL), rate=steady(rate))],
        warm_up=20.0,
        window=window,
        drain=60.0,
        seed=seed,
    )
    return chosen, simulate(setup, router)


def line(one, row, *, status="ok", names=NAMES, models=MODELS):
    model, request = models[row.server], one.request
    outcome = Outcome(
        status=status,
        http_status=200,
        ttft=row.first - row.arrived,
        decode_seconds=row.ended - row.first,
        events=request.steps + 1,
        usage=Usage(row.prompt_tokens, row.output_tokens, 0),
        speculation=Speculation("exact", request.steps, request.drafted, request.accepted)
        if model.draft_tokens
        else Speculation("none"),
    )
    record = Record(
        request_id=f"r{row.serial}",
        trace=Trace("1" * 32, "2" * 16),
        started=row.arrived,
        started_unix_ns=1_800_000_000_000_000_000 + int(row.arrived * 1e9),
        decided=row.arrived,
        ended=row.ended,
        features=one.features,
        classification=one.classification,
        decision=one.decision,
        attempts=(Attempt(names[row.server], "done", "", 200, row.arrived, row.ended),),
        outcome=outcome,
        backend=names[row.server],
        method=model.method,
        draft_tokens=model.draft_tokens,
        baseline=not model.draft_tokens,
        snapshot=one.snapshot,
    )
    return line_of(entry_of(record, 1, b"0123456789abcdef"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("replay")
    chosen, log = run(policy(0.4))
    rows = [row for row in log.rows if log.start <= row.arrived < log.end]
    lines = [line(chosen[row.serial], row) for row in rows]
    lines.append(line(chosen[rows[0].serial], rows[0], status="truncated"))
    (made / "log.jsonl").write_bytes(b"".join(lines))
    for name, text in (
        ("fleet.yaml", FLEET),
        ("least.yaml", LEAST),
        ("plain.yaml", PLAIN),
        ("roles.yaml", ROLES),
    ):
        (made / name).write_text(text)
    return made


@pytest.fixture
def call(folder):
    app = typer.Typer()
    app.callback()(lambda: None)
    replay.register(app)

    def made(*args, log="log.jsonl", policy="least.yaml", fleet="fleet.yaml"):
        files = ("--policy", str(folder / policy), "--fleet", str(folder / fleet))
        return CliRunner().invoke(app, ["replay", str(folder / log), *files, *args])

    return made


def test_the_estimate_holds_what_the_policy_then_does(call):
    done = call("--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    _, log = run(policy(0.0))
    seen = log.completion().mean()
    assert abs(said["seconds"]["value"] - seen) < said["seconds"]["error"]
    assert said["seconds"]["value"] == pytest.approx(seen, rel=0.08)
    assert said["difference"]["value"] < -said["difference"]["error"] < 0.0
    assert said["shares"]["plain"] < said["were"]["plain"]
    assert said["left_out"] == {"not answered at the first attempt": 1}


def test_a_slower_policy_is_said_to_be(call):
    done = call(policy="plain.yaml")
    assert done.exit_code == 1
    for expected in (
        "under the policy",
        "100.0%",
        "difference",
        "the model's word",
        "Left out: 1 not answered",
    ):
        assert expected in done.stdout


def test_what_cannot_be_replayed_is_said(call, folder):
    (folder / "empty.jsonl").write_text("")
    assert "it has none" in call(log="empty.jsonl").stderr
    assert "No such file" in call(log="gone.jsonl").stderr
    (folder / "odd.jsonl").write_text("{}\n")
    done = call(log="odd.jsonl")
    assert done.exit_code == 2
    assert "odd.jsonl:1" in done.stderr
    few = (folder / "log.jsonl").read_bytes().splitlines(keepends=True)[:5]
    (folder / "few.jsonl").write_bytes(b"".join(few))
    assert "too few" in call(log="few.jsonl").stderr
    assert "did you mean" in call("--target", "google/gemma-4-31B").stderr
    (folder / "bad.yaml").write_text("version: 1\nroutes: 3\n")
    assert call(policy="bad.yaml").exit_code == 2


def test_lines_that_no_gateway_wrote_are_named(call, folder):
    first, *more = (json.loads(one) for one in (folder / "log.jsonl").read_text().splitlines()[:40])
    path = folder / "broken.jsonl"

    def written(*lines):
        path.write_text("".join(json.dumps(one) + "\n" for one in lines))
        return call(log="broken.jsonl")

    done = written(first, {**first, "time": "yesterday"})
    assert done.exit_code == 2
    assert "broken.jsonl:2: Invalid isoformat string: 'yesterday'" in done.stderr
    done = written({**first, "request_id": "odd", "features": {}})
    assert done.exit_code == 2
    assert "request odd: no features of this version" in done.stderr
    done = written(*({**one, "seconds": one["decided_after"]} for one in more))
    assert done.exit_code == 2
    assert f"no request of the log can be replayed: {len(more)} that took no time" in done.stderr


def test_that_the_policy_has_no_name_for_the_model_is_said(call, folder):
    (folder / "renamed.yaml").write_text(PLAIN.replace("fleet:", "other:"))
    done = call(policy="renamed.yaml")
    assert done.exit_code == 2
    assert "the policy has no server for" in done.stderr


def test_servers_that_are_gone_are_left_out(call, folder):
    (folder / "two.yaml").write_text("\n".join(one for one in FLEET.splitlines() if "mtp4" not in one))
    done = call("--json", fleet="two.yaml")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["left_out"]["on servers that the fleet file does not have"] > 50


def test_answers_of_stand_ins_are_left_out_under_their_name(call, folder):
    """Also where servers had failed before."""
    lines = [json.loads(one) for one in (folder / "log.jsonl").read_text().splitlines()]
    for at, one in enumerate(lines[:7]):
        one.update(method="stand-in", backend="hosted", attempts=one["attempts"] * (1 + at % 2))
    (folder / "hosted.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    told = json.loads(call("--json", log="hosted.jsonl").stdout)["left_out"]
    assert told["answered by a stand-in"] == 7
    assert "on servers that the fleet file does not have" not in told


def fleet_of(names, method, draft_tokens):
    lines = [
        f'  - {{name: {name}, url: "http://{name}", model: {GEMMA}, method: {method}, draft_tokens: {draft_tokens}}}'
        for name in names
    ]
    return "\n".join(["version: 1", "backends:", *lines, ""])


def replicas(log, *, full=False):
    """A log of a dozen replicas of which each line names the drawn ones; the names."""
    names = [f"r{number}" for number in range(12)]
    models = [MODELS[2]] * len(names)
    chosen, seen = run(beliefs.policy(target=GEMMA), rate=12.0, window=20.0, names=names, models=models)
    rows = [row for row in seen.rows if seen.start <= row.arrived < seen.end]
    lines = [json.loads(line(chosen[row.serial], row, names=names, models=models)) for row in rows]
    if full:
        for one in lines:
            for state in one["states"]:
                state["unavailable"] = "full"
    log.write_text("".join(json.dumps(one) + "\n" for one in lines))
    (log.parent / "many.yaml").write_text(fleet_of([*names, "new"], "dflash", 7))
    return names


@pytest.mark.parametrize("full", [False, True])
def test_replicas_that_were_not_drawn_could_be_had(call, folder, full):
    names = replicas(folder / "many.jsonl", full=full)
    (folder / "one.yaml").write_text(PLAIN.replace("[plain]", f"[{names[0]}]"))
    alone = json.loads(call("--json", log="many.jsonl", fleet="many.yaml", policy="one.yaml").stdout)
    assert alone["shares"] == {names[0]: 1.0}
    assert alone["refused"] == 0.0
    least = json.loads(call("--json", log="many.jsonl", fleet="many.yaml").stdout)
    assert set(least["shares"]) == set(names)  # not the one that came later


def test_that_a_policy_keeps_servers_for_classes_is_said(call):
    done = call(policy="roles.yaml")
    assert done.exit_code == replay.UNTOLD
    assert replay.ROLES in done.stdout
    assert json.loads(call("--json", policy="roles.yaml").stdout)["roles"] is True
    assert json.loads(call("--json").stdout)["roles"] is False


def test_the_estimate_from_a_log_of_little_exploration_claims_no_more_than_it_can(call, folder):
    """What was learnt sends a server of three hardly any requests; least requests would send it many more."""
    inside = []
    for seed in range(4):
        learned = beliefs.policy(target=GEMMA)
        chosen, seen = run(learned, rate=5.0, window=60.0, seed=seed)
        rows = [row for row in seen.rows if seen.start <= row.arrived < seen.end]
        (folder / "auto.jsonl").write_bytes(b"".join(line(chosen[row.serial], row) for row in rows))
        said = json.loads(call("--json", log="auto.jsonl").stdout)
        _, then = run(policy(0.0), rate=5.0, window=60.0, seed=seed)
        truth = then.completion().mean()
        assert said["untold"] > 0.05 * said["requests"]
        inside += [
            abs(said["seconds"]["value"] - truth) <= said["seconds"]["error"],
            abs(said["difference"]["value"] - (truth - said["logged"]["value"]))
            <= said["difference"]["error"],
        ]
    assert all(inside)


def test_a_log_that_does_not_tell_is_said_to_be_none(call, folder):
    """All requests went to one of two servers that are alike."""
    chosen, seen = run(policy(0.0), rate=2.0, window=40.0, names=["one", "two"], models=[MODELS[1]] * 2)
    rows = [row for row in seen.rows if seen.start <= row.arrived < seen.end and not row.server]
    lines = [line(chosen[row.serial], row, names=["one", "two"], models=[MODELS[1]] * 2) for row in rows]
    (folder / "one.jsonl").write_bytes(b"".join(lines))
    (folder / "pair.yaml").write_text(fleet_of(["one", "two"], "gemma4-mtp", 4))
    (folder / "two.yaml").write_text(PLAIN.replace("[plain]", "[two]"))
    done = call(log="one.jsonl", fleet="pair.yaml", policy="two.yaml")
    assert done.exit_code == replay.UNTOLD, done.output
    assert f"{len(rows)} of {len(rows)} would go to a server" in done.stdout
    assert "cannot be told from this log" in done.stdout
