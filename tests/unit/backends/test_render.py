from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from backends import manifests, render
from backends.fleet_file import read_fleet, write_fleet
from backends.methods import Scalar, methods
from backends.recipes import recipes
from backends.spec import LaunchSpec, from_recipe
from gateway.policy.load import Invalid, Loaded, load_fleet

GOLDEN = Path(__file__).parent / "golden"
DRAFTS = {name: "drafts/of-its-own" for name, method in methods().items() if method.draft == "separate"}
FLEET = [
    LaunchSpec(
        name=name, target="acme/model", served_model="model", method=name, draft_tokens=method.draft_tokens.default,
        draft=DRAFTS.get(name), port=8000 + place, tensor_parallel=2, max_model_len=8192,
        args={"enforce-eager": True, "language-model-only": False, "gpu-memory-utilization": 0.8},
        env={"VLLM_ROCM_USE_AITER": "1"},
    )
    for place, (name, method) in enumerate(methods().items())
]  # fmt: skip


def argv() -> str:
    """One word a line, so that a difference is read at a glance."""
    servers = []
    for spec in FLEET:
        env = render.environment(spec, "rocm", (0, 1))
        words = [*(f"{key}={value}" for key, value in env.items()), *render.argv(spec, "python")]
        servers.append("\n".join(words))
    return "\n\n".join(servers) + "\n"


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("argv.txt", argv),
        ("compose-rocm.yaml", lambda: manifests.compose(FLEET, "rocm")),
        ("compose-cuda.yaml", lambda: manifests.compose(FLEET, "cuda")),
        ("kubernetes-rocm.yaml", lambda: manifests.kubernetes(FLEET, "rocm")),
        ("fleet.yaml", lambda: write_fleet(FLEET)),
    ],
)
def test_what_is_written_is_what_was_written_before(name: str, made: object) -> None:
    # SPECROUTE_GOLDEN=write writes the files anew; the difference is then read before it is committed.
    text = made()  # type: ignore[operator]
    if os.environ.get("SPECROUTE_GOLDEN") == "write":
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("spec", FLEET, ids=lambda spec: spec.method)
def test_acceptance_is_asked_of_servers_that_speculate_alone(spec: LaunchSpec) -> None:
    flag = "--per-request-spec-decode-metrics"
    assert (flag in render.argv(spec, "python")) == spec.speculates
    assert flag not in render.argv(spec, "python", version="0.28.0")


@pytest.mark.parametrize("spec", FLEET, ids=lambda spec: spec.method)
def test_a_speculative_config_names_method_draft_and_n(spec: LaunchSpec) -> None:
    config = render.speculative_config(spec)
    if not spec.speculates:
        assert config is None
        return
    assert config is not None
    assert config["method"] == methods()[spec.method].engine
    assert config.get("model") == spec.draft
    assert config["num_speculative_tokens"] == spec.draft_tokens


def test_what_a_spec_says_wins_over_what_is_usual() -> None:
    spec = LaunchSpec("a", "t", "t", "ngram", 4, speculative={"prompt_lookup_max": 9})
    config = render.speculative_config(spec)
    assert config == {
        "method": "ngram",
        "num_speculative_tokens": 4,
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 9,
    }


@pytest.mark.parametrize(
    ("platform", "env"),
    [("rocm", {"HIP_VISIBLE_DEVICES": "2,3"}), ("cuda", {"CUDA_VISIBLE_DEVICES": "2,3"}), ("cpu", {})],
)
def test_gpus_are_named_as_the_platform_does(platform: str, env: dict[str, str]) -> None:
    spec = LaunchSpec("a", "t", "t")
    assert render.environment(spec, platform, (2, 3)) == env  # type: ignore[arg-type]
    assert render.environment(spec, platform) == {}  # type: ignore[arg-type]


def test_a_platform_without_a_usual_image_needs_one_named() -> None:
    spec = LaunchSpec("a", "t", "t")
    with pytest.raises(manifests.NotRenderableError, match=r"no usual image for cpu; set launch\.image"):
        manifests.compose([spec], "cpu")
    assert "image: my/vllm" in manifests.kubernetes([LaunchSpec("a", "t", "t", image="my/vllm")], "cpu")


@pytest.mark.parametrize("name", list(recipes()))
def test_a_fleet_file_is_read_as_it_was_written(name: str) -> None:
    specs = tuple(from_recipe(recipes()[name], recipes()[name].methods))
    text = write_fleet(specs)
    assert read_fleet(text, "fleet.yaml") == specs
    loaded = load_fleet(text)
    assert isinstance(loaded, Loaded)
    assert not loaded.warnings
    for backend, spec in itertools.zip_longest(loaded.value.backends, specs):
        tools = set() if "enable-auto-tool-choice" in spec.args or not spec.args else {"tools"}
        assert backend.refuses == tools | {*spec.known.refuses}


def test_a_bad_fleet_file_is_told() -> None:
    found = read_fleet("version: 1\nbackends: []\n", "fleet.yaml")
    assert isinstance(found, Invalid)


def test_a_flag_is_written_once_however_it_is_spelt() -> None:
    args: dict[str, Scalar] = {
        "enable_prompt_tokens_details": False,
        "per_request_spec_decode_metrics": "detailed",
        "max_num_seqs": 4,
    }
    words = render.arguments(LaunchSpec("a", "t", "t", "ngram", 4, args=args))
    assert "--no-enable-prompt-tokens-details" in words
    assert "--enable-prompt-tokens-details" not in words
    assert [word for word in words if "spec-decode" in word or word == "detailed"] == [
        "--per-request-spec-decode-metrics", "detailed",
    ]  # fmt: skip
    assert words[words.index("--max-num-seqs") + 1] == "4"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, ["--x"]), (4, ["--x", "4"]), ("a b", ["--x", "a b"]), ("-1", ["--x=-1"]), (-1, ["--x=-1"]),
        ("--y", ["--x=--y"]), (False, []),
    ],
)  # fmt: skip
def test_a_value_is_never_read_as_a_flag(value: object, words: list[str]) -> None:
    written = render.arguments(LaunchSpec("a", "t", "t", args={"x": value}))  # type: ignore[dict-item]
    assert written[-len(words) :] == words if words else "--x" not in written


def test_flags_are_those_that_vllm_has() -> None:
    spec = LaunchSpec("a", "t", "t", "ngram", 4)
    assert "--per-request-spec-decode-metrics" not in render.arguments(
        spec, known=("enable-request-id-headers",)
    )
    assert "--enable-request-id-headers" in render.arguments(spec, known=("enable-request-id-headers",))
    assert "--enable-prompt-tokens-details" not in render.arguments(spec, known=())
    assert "--per-request-spec-decode-metrics" in render.arguments(
        spec, known=(render.METRICS,), version="0.28.0"
    )


ODD = {
    "PLAIN": "1",
    "SPACED": "a b",
    "QUOTED": 'it\'s "so"',
    "LINES": "a\nb",
    "DOLLAR": "$HOME$(id)`id`",
    "EMPTY": "",
    "SNOW": "☃",
}


def test_a_shell_gives_a_server_what_the_spec_says(tmp_path: Path) -> None:
    show = tmp_path / "python 3"
    show.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        f"print(json.dumps([sys.argv[1:], {{name: os.environ.get(name) for name in {[*ODD, 'HIP_VISIBLE_DEVICES']!r}}}]))\n"
    )
    show.chmod(0o755)
    spec = LaunchSpec("a", "acme/it's", "t", env=ODD, args={"chat-template": "{{ x }} $y", "seed": -1})
    command = render.shell(spec, "rocm", str(show), (2, 3))
    told = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True, text=True)  # noqa: S603 - our own command
    argv, env = json.loads(told.stdout)
    assert argv == render.argv(spec, str(show))[1:]
    assert env == {**ODD, "HIP_VISIBLE_DEVICES": "2,3"}


def filled_in(text: str) -> str:
    """A text as Compose hands it on, without a variable in it."""
    assert "$" not in text.replace("$$", ""), text
    return text.replace("$$", "$")


def test_compose_fills_nothing_in() -> None:
    spec = LaunchSpec(
        "a", "acme/model", "t", env=ODD, args={"chat-template": "$x ${y}"}, image="me/vllm:$tag"
    )
    service = YAML(typ="safe").load(manifests.compose([spec], "rocm"))["services"]["a"]
    assert {name: filled_in(service["environment"][name]) for name in ODD} == ODD
    words = [filled_in(word) for word in service["command"]]
    assert words == ["acme/model", *render.arguments(spec, host="0.0.0.0")]
    assert filled_in(service["image"]) == "me/vllm:$tag"


def test_compose_hands_in_folders_of_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "target").mkdir(parents=True)
    spec = LaunchSpec("a", "models/target", "t", "eagle3", 3, "./draft$1")
    service = YAML(typ="safe").load(manifests.compose([spec], "rocm"))["services"]["a"]
    target, draft = f"{tmp_path}/models/target", f"{tmp_path}/draft$$1"
    assert service["command"][0] == target
    assert f'"model": "{draft}"' in " ".join(service["command"])
    assert service["volumes"][1:] == [f"{target}:{target}:ro", f"{draft}:{draft}:ro"]
    with pytest.raises(manifests.NotRenderableError) as raised:
        manifests.kubernetes([spec], "rocm")
    assert str(raised.value) == (
        "a: no other machine has the folder models/target; name an id, or a folder of the claim in /models"
    )
    assert "/models/x" in manifests.kubernetes([LaunchSpec("a", "/models/x", "t")], "rocm")


def test_pods_get_no_variables_named_after_services() -> None:
    # The Service of a server called vllm would set VLLM_PORT to its address, with which vLLM does not start.
    deployment, service = YAML(typ="safe").load_all(
        manifests.kubernetes([LaunchSpec("vllm", "t", "t")], "rocm")
    )
    assert service["metadata"]["name"] == "vllm"
    assert deployment["spec"]["template"]["spec"]["enableServiceLinks"] is False


def test_ids_and_addresses_are_no_folders() -> None:
    spec = LaunchSpec("a", "s3://bucket/a/b", "t", "eagle3", 3, "acme/draft")
    service = YAML(typ="safe").load(manifests.compose([spec], "rocm"))["services"]["a"]
    assert len(service["volumes"]) == 1


@pytest.mark.parametrize(
    ("host", "ports"),
    [
        ("127.0.0.1", ["127.0.0.1:8101:8101"]),
        ("localhost", ["127.0.0.1:8101:8101"]),
        ("::1", ["[::1]:8101:8101"]),
        ("10.0.0.5", ["10.0.0.5:8101:8101"]),
        ("fd00::5", ["[fd00::5]:8101:8101"]),
        ("0.0.0.0", ["0.0.0.0:8101:8101"]),
        ("gpu-1", ["8101:8101"]),
        ("a", None),
    ],
)
def test_compose_opens_the_port_where_the_url_leads(host: str, ports: list[str] | None) -> None:
    spec = LaunchSpec("a", "acme/model", "t", host=host)
    service = YAML(typ="safe").load(manifests.compose([spec], "rocm"))["services"]["a"]
    assert service.get("ports") == ports


def test_a_compose_file_is_of_one_machine() -> None:
    specs = [LaunchSpec("a", "t", "t", host="10.0.0.1"), LaunchSpec("b", "t", "t", host="10.0.0.2")]
    with pytest.raises(
        manifests.NotRenderableError, match=r"b: port 8101 is also that of a, and a Compose file"
    ):
        manifests.compose(specs, "rocm")


def test_a_server_without_gpus_of_its_own_can_be_composed() -> None:
    assert "deploy" not in manifests.compose([LaunchSpec("a", "t", "t", image="me/vllm")], "cpu")
    assert "device_ids: []" in manifests.compose([LaunchSpec("a", "t", "t", gpus=())], "cuda")


def test_kubernetes_fills_nothing_in_and_gives_all_gpus() -> None:
    spec = LaunchSpec(
        "a",
        "t",
        "t",
        env={"A": "$(B) $C"},
        tensor_parallel=2,
        args={"pipeline-parallel-size": 3, "seed": "$(B)"},
    )
    deployment, _ = YAML(typ="safe").load_all(manifests.kubernetes([spec], "rocm"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"amd.com/gpu": 6}
    assert container["env"][0] == {"name": "A", "value": "$$(B) $C"}
    assert container["args"][-1] == "$$(B)"


def test_names_are_made_fit_for_kubernetes() -> None:
    names = [
        "qwen3.6-35b-mtp-n6",
        "31b-mtp",
        "a" * 63,
        "a" * 62 + ".",
        "7",
        "x.",
        "A.b",
        "a-b",
        "a_b",
        "b" * 40 + "." + "c" * 22,
        "9" * 60,
    ]
    made = manifests.kubernetes_names(names)
    assert made["qwen3.6-35b-mtp-n6"] == "qwen3-6-35b-mtp-n6"
    assert made["31b-mtp"] == "vllm-31b-mtp"
    assert made["x."] == "x"
    assert len({made[name] for name in ("A.b", "a-b", "a_b")}) == 3
    assert len(set(made.values())) == len(names)
    for name in made.values():
        assert re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", name), name


@given(st.lists(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True), unique=True, max_size=6))
def test_any_names_are_made_fit_for_kubernetes(names: list[str]) -> None:
    made = list(manifests.kubernetes_names(names).values())
    assert len(set(made)) == len(names)
    assert all(re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", name) for name in made)


WORDS = [
    "yes",
    "no",
    "on",
    "off",
    "y",
    "n",
    "Y",
    "N",
    "Yes",
    "NO",
    "On",
    "oFF",
    "1:30",
    "190:20:30.5",
    "-1:0",
    "1_000",
    "012",
    "0o12",
    "0b1",
    "1e3",
    "+1",
    ".5",
    "~",
    "null",
    "0x1F",
    "=",
    "<<",
    "1.0",
]


@pytest.mark.parametrize("version", [(1, 1), (1, 2)])
def test_texts_are_texts_for_readers_of_either_yaml(version: tuple[int, int]) -> None:
    # kubectl reads YAML 1.1.
    spec = LaunchSpec(
        "on", "t", "t", args={"seed": "1:30"}, env={f"A{at}": one for at, one in enumerate(WORDS)}
    )
    reader = YAML(typ="safe", pure=True)
    reader.version = version
    deployment, _ = reader.load_all(manifests.kubernetes([spec], "rocm"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    held = {one["name"]: one["value"] for one in container["env"]}
    assert [held[f"A{at}"] for at in range(len(WORDS))] == WORDS
    assert container["args"][-1] == "1:30"
    assert deployment["metadata"]["name"] == "on"
    service = reader.load(manifests.compose([spec], "rocm"))["services"]["on"]
    assert [service["environment"][f"A{at}"] for at in range(len(WORDS))] == WORDS


def test_a_key_is_handed_in_by_the_name_of_its_variable() -> None:
    spec = LaunchSpec("a", "t", "t", api_key_env="KEY")
    assert render.shell(spec, "cpu", "python").startswith('VLLM_API_KEY="$KEY" python -m ')
    service = YAML(typ="safe").load(manifests.compose([spec], "rocm"))["services"]["a"]
    assert service["environment"]["VLLM_API_KEY"] == "${KEY:?}"
    deployment, _ = YAML(typ="safe").load_all(manifests.kubernetes([spec], "rocm"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["env"][-1] == {
        "name": "VLLM_API_KEY", "valueFrom": {"secretKeyRef": {"name": "vllm-keys", "key": "KEY"}},
    }  # fmt: skip


@pytest.mark.parametrize("more", [{"env": {"VLLM_API_KEY": "k"}}, {"args": {"api_key": "k"}}])
def test_a_key_that_is_written_out_is_not_handed_in_twice(more: dict[str, dict[str, Scalar]]) -> None:
    spec = LaunchSpec("a", "t", "t", api_key_env="KEY", **more)  # type: ignore[arg-type]
    assert "$KEY" not in render.shell(spec, "cpu", "python")
    assert "${KEY" not in manifests.compose([spec], "rocm")
    assert "secretKeyRef" not in manifests.kubernetes([spec], "rocm")


def test_a_certificate_goes_into_the_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    args: dict[str, Scalar] = {"ssl_certfile": "own/$c.pem", "ssl-keyfile": "/etc/k.pem"}
    spec = LaunchSpec("a", "t", "t", scheme="https", args=args)
    service = YAML(typ="safe").load(manifests.compose([spec], "rocm"))["services"]["a"]
    place = f"{tmp_path}/own/$$c.pem"
    assert service["volumes"][1:] == [f"{place}:{place}:ro", "/etc/k.pem:/etc/k.pem:ro"]
    words = service["command"]
    assert words[words.index("--ssl-certfile") + 1] == place
    with pytest.raises(
        manifests.NotRenderableError, match=r"a: no other machine has the file .*c\.pem; name one"
    ):
        manifests.kubernetes([spec], "rocm")
    claimed = LaunchSpec("a", "t", "t", scheme="https", args={"ssl-certfile": "/models/c.pem"})
    assert "/models/c.pem" in manifests.kubernetes([claimed], "rocm")


def test_a_server_with_a_certificate_is_asked_for_its_health_as_one() -> None:
    spec = LaunchSpec("a", "t", "t", scheme="https", port=8443)
    (*_, probe) = YAML(typ="safe").load(manifests.compose([spec], "rocm"))["services"]["a"]["healthcheck"][
        "test"
    ]
    assert "urlopen('https://127.0.0.1:8443/health', context=ssl._create_unverified_context())" in probe
    compile(probe, "probe", "exec")
    deployment, _ = YAML(typ="safe").load_all(manifests.kubernetes([spec], "rocm"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
