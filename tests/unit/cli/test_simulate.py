import json

import pytest
import typer
from typer.testing import CliRunner

from gateway.cli import simulate

FLEET = """
version: 1
backends:
  - {name: plain, url: "http://a:8000", model: google/gemma-4-31B-it}
  - {name: dflash7, url: "http://b:8000", model: google/gemma-4-31B-it, method: dflash, draft_tokens: 7}
"""
POLICY = """
version: 1
models: {gemma: google/gemma-4-31B-it}
routes:
  - {name: all, prefer: [{method: dflash}, any]}
"""
SHORT = ("--seconds", "12", "--warm-up", "4")


@pytest.fixture
def run(tmp_path):
    (tmp_path / "fleet.yaml").write_text(FLEET)
    app = typer.Typer()
    app.callback()(lambda: None)
    simulate.register(app)

    def call(*args, fleet="fleet.yaml"):
        return CliRunner().invoke(app, ["simulate", str(tmp_path / fleet), *args])

    call.folder = tmp_path
    return call


def write(run, name, text):
    (run.folder / name).write_text(text)
    return str(run.folder / name)


def test_it_prints_policies_fleets_and_shares(run):
    done = run("--clients", "16", *SHORT)
    assert done.exit_code == 0, done.output
    for expected in ("this policy", "least requests", "2 x none", "dflash7", "plain"):
        assert expected in done.stdout


def test_as_json_it_has_every_run(run):
    done = run("--clients", "16", "--json", "--sweep", "--alternatives", *SHORT)
    found = json.loads(done.stdout)
    assert [one["name"] for one in found] == ["this policy", "least requests", "2 x none", "2 x dflash-7"]
    assert found[0]["gain"] is None
    assert found[2]["gain"] == pytest.approx(
        found[0]["tokens_per_second"] / found[2]["tokens_per_second"] - 1
    )
    assert set(found[0]["shares"]) == {"plain", "dflash7"}
    assert found[3]["shares"] is None


def test_a_policy_file_decides(run):
    policy = write(run, "policy.yaml", POLICY)
    found = json.loads(run("--policy", policy, "--clients", "4", "--json", *SHORT).stdout)
    assert found[0]["shares"]["dflash7"] > 0.8


def test_what_the_fleet_file_declares_counts(run):
    fleet = FLEET.replace("draft_tokens: 7}", "draft_tokens: 7, max_in_flight: 2, labels: {zone: b}}")
    write(run, "few.yaml", fleet)
    policy = write(run, "policy.yaml", POLICY.replace("method: dflash", "labels: {zone: b}"))
    found = json.loads(run("--policy", policy, "--clients", "16", "--json", *SHORT, fleet="few.yaml").stdout)
    assert 0.0 < found[0]["shares"]["dflash7"] < 0.4
    assert found[0]["failed"] == 0
    assert found[1]["shares"]["dflash7"] < 0.5


def test_sources_with_limits_can_miss_them(run):
    given = ("--source", "name=chat;rate=2;tpot=0.0001", "--source", "name=bulk;clients=4", "--json", *SHORT)
    done = run(*given)
    assert done.exit_code == 1
    assert json.loads(done.stdout)[0]["kept"] == {"chat": 0.0}
    assert run("--source", "name=chat;rate=2;ttft=60;tpot=60", *SHORT).exit_code == 0


def test_traces_and_events_are_read(run):
    trace = write(run, "t.jsonl", '{"at": 6, "workload": "math", "prompt_tokens": 10, "output_tokens": 50}\n')
    events = write(run, "e.yaml", "version: 1\nevents: [{at: 1, backend: plain, down: 100}]\n")
    found = json.loads(run("--trace", trace, "--events", events, "--json", *SHORT).stdout)
    assert found[0]["answered"] == 1
    assert found[0]["shares"] == {"plain": 0.0, "dflash7": 1.0}


def test_engines_can_be_given_limits(run):
    usual = ("--clients", "96", "--json", *SHORT)
    plain, cliff = (json.loads(run(*usual, *extra).stdout)[0] for extra in ((), ("--graph-tokens", "128")))
    assert cliff["tokens_per_second"] < plain["tokens_per_second"]


def test_a_trace_is_measured_whole(run):
    lines = [
        json.dumps({"at": at, "workload": "math", "prompt_tokens": 10, "output_tokens": 50})
        for at in (0.0, 20.0, 400.0)
    ]
    trace = write(run, "t.jsonl", "\n".join(lines))
    assert json.loads(run("--trace", trace, "--json").stdout)[0]["answered"] == 3
    part = run("--trace", trace, "--json", "--seconds", "30")
    assert json.loads(part.stdout)[0]["answered"] == 2
    assert "1 of 3 requests are not in the measured seconds" in part.stderr
    none = run("--trace", trace, "--warm-up", "500", "--seconds", "30")
    assert none.exit_code == 2
    assert "no request of the trace is in the measured seconds, 500 to 530; it goes to 400" in none.stderr


def test_an_empty_trace_is_refused(run):
    done = run("--trace", write(run, "t.jsonl", "\n"))
    assert done.exit_code == 2
    assert "there is no request in it" in done.stderr


def test_limits_of_the_policys_classes_are_counted(run):
    classes = "classes: [{name: interactive, tpot: 1ms}]\nlearning: {mode: auto}\n"
    policy = write(run, "policy.yaml", POLICY + classes)
    done = run("--policy", policy, "--source", "name=interactive;clients=4", "--json", *SHORT)
    assert done.exit_code == 1
    assert json.loads(done.stdout)[0]["kept"] == {"interactive": 0.0}


def test_a_fleet_that_answers_nothing_fell_short(run):
    write(run, "plain.yaml", "\n".join(FLEET.splitlines()[:-1]))
    down = "version: 1\nevents: [{at: 0, backend: plain, down: 1000}]\n"
    done = run("--clients", "4", "--events", write(run, "e.yaml", down), "--json", *SHORT, fleet="plain.yaml")
    assert json.loads(done.stdout)[0]["answered"] == 0
    assert done.exit_code == 1


def test_servers_without_a_draft_have_the_same_graphs_and_faults(run):
    write(run, "plain.yaml", "\n".join(FLEET.splitlines()[:-1]))
    events = write(run, "e.yaml", "version: 1\nevents: [{at: 0, backend: plain, slow: 3}]\n")
    usual = ("--clients", "24", "--json", *SHORT)
    for extra in (("--graph-tokens", "4"), ("--events", events)):
        done = json.loads(run(*usual, *extra, fleet="plain.yaml").stdout)
        assert done[2]["name"] == "1 x none"
        assert done[2]["gain"] == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--clients", "8", "--rate", "3"), "either --clients or --rate"),
        (("--clients", "1e9"), "--clients 1e+09: give a number from 0 to 100,000"),
        (("--clients", "8/1e-9"), "--clients: period 1e-09"),
        (("--seconds", "inf"), "--seconds inf: give a number from 1 to 604,800"),
        (("--seconds", "nan"), "--seconds nan"),
        (("--warm-up", "-1"), "--warm-up -1"),
        (("--scrape", "1e-9"), "--scrape 1e-09: give a number from 0.01"),
        (("--mix", "chat70", "--mix", "code60", "--every", "0"), "--every 0: give a number from 0.1"),
        (("--mix", "chat70", "--mix", "code60", "--every", "inf"), "--every inf"),
        (("--label-errors", "5"), "--label-errors 5: give a number from 0 to 1"),
        (("--source", "clients=8", "--label-errors", "0.1"), "--label-errors: changes nothing"),
        (("--source", "clients=8", "--mix", "rag"), "--mix: changes nothing"),
        (("--source", "clients=8;ttft=0"), "ttft 0: give a number from 1e-06"),
        (("--source", "clients=8;label_errors=5"), "label_errors 5: give a number from 0 to 1"),
        (("--source", "clients=8;refused=3"), "refused 3"),
        (("--source", "clients=8;turns=0"), "turns 0: give a number from 1"),
        (("--mix", "poems"), "mixes and workloads"),
        (("--rate", "fast"), "--rate"),
        (("--source", "mix=rag"), "clients or rate"),
        (("--target", "google/gemma"), "did you mean"),
        (("--events", "gone.yaml"), "gone.yaml: No such file"),
    ],
)
def test_bad_input_is_said_to_be(run, args, said):
    done = run(*args)
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_fleet_must_be_right_and_known(run):
    write(run, "bad.yaml", "version: 1\nbackends: 3\n")
    assert run(fleet="bad.yaml").exit_code == 2
    write(run, "odd.yaml", FLEET.replace("draft_tokens: 7", "draft_tokens: 6"))
    done = run(fleet="odd.yaml")
    assert done.exit_code == 2
    assert "dflash with N = 3, 7, 11, 15" in done.stderr
    two = FLEET + '  - {name: q, url: "http://c:8000", model: Qwen/Qwen3-8B}\n'
    write(run, "two.yaml", two)
    done = run(fleet="two.yaml")
    assert done.exit_code == 2
    assert "--target" in done.stderr
    assert run("--target", "Qwen/Qwen3-8B", "--clients", "2", *SHORT, fleet="two.yaml").exit_code == 0
    policy = write(run, "p.yaml", "version: 1\nroutes: 3\n")
    assert run("--policy", policy).exit_code == 2
