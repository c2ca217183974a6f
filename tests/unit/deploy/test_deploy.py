"""What is in deploy/ fits together: every file that one names is there, every name means something."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from gateway.policy.load import Invalid, Loaded, load, load_fleet
from gateway.settings import Settings
from gateway.wire.control import CONTROL_PATHS

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose"
YAMLS = sorted(path for path in DEPLOY.rglob("*.yaml"))
SETTINGS = {f"SPECROUTE_{name.upper()}" for name in Settings.model_fields}


def documents(path: Path) -> list[Any]:
    return list(YAML(typ="safe").load_all(path.read_text()))


def only(path: Path) -> Any:
    (found,) = documents(path)
    return found


def services() -> dict[str, Any]:
    found: dict[str, Any] = only(COMPOSE / "compose.yaml")["services"]
    return found


@pytest.mark.parametrize("path", YAMLS, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_file_is_yaml_with_something_in_it(path: Path) -> None:
    assert all(documents(path))


@pytest.mark.parametrize("folder", [COMPOSE, DEPLOY / "k8s" / "overlays" / "sim"], ids=["compose", "k8s"])
def test_the_fleet_and_its_policy_are_good_and_the_fleet_is_the_sample_s(folder: Path) -> None:
    fleet = (folder / "fleet.yaml").read_text()
    policy = folder / "policy.yaml"
    used = (policy if policy.exists() else ROOT / "policies" / "policy.yaml").read_text()
    loaded = load(fleet, used)
    assert not isinstance(loaded, Invalid), loaded.problems
    sample = load_fleet((ROOT / "policies" / "fleet.yaml").read_text())
    assert isinstance(sample, Loaded)

    def described(backends: Any) -> list[Any]:
        return [
            (one.name, one.target, one.method, one.draft_tokens, one.url.rpartition(":")[2])
            for one in backends
        ]

    assert described(loaded.value.fleet.backends) == described(sample.value.backends)


def test_what_a_service_mounts_is_there() -> None:
    named = only(COMPOSE / "compose.yaml")["volumes"]
    for name, service in services().items():
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            assert source in named if "/" not in source else (COMPOSE / source).resolve().exists(), (
                name,
                mount,
            )


def test_what_services_depend_on_and_talk_to_are_services() -> None:
    found = services()
    for service in found.values():
        assert set(service.get("depends_on", ())) <= set(found)
    texts = [path.read_text() for path in YAMLS if "k8s" not in path.parts]
    texts.append((DEPLOY / "prometheus" / "targets.json").read_text())
    hosts = {host for text in texts for host in re.findall(r"(?:https?://|[\"' ])([a-z]+):\d{4,5}", text)}
    assert {"sim", "gateway", "collector", "tempo", "prometheus"} <= hosts
    assert hosts - {"localhost"} <= set(found)


def test_settings_that_are_set_exist() -> None:
    environment = set(services()["gateway"]["environment"])
    assert environment <= SETTINGS
    image = (DEPLOY / "images" / "Dockerfile").read_text()
    assert set(re.findall(r"SPECROUTE_[A-Z_]+", image)) <= SETTINGS
    (gateway, _, _) = documents(DEPLOY / "k8s" / "base" / "gateway.yaml")
    (container,) = gateway["spec"]["template"]["spec"]["containers"]
    assert {each["name"] for each in container["env"]} <= SETTINGS


def test_a_gateway_has_the_time_to_end_its_answers() -> None:
    gateway = services()["gateway"]
    assert "SPECROUTE_DRAIN_SECONDS" not in gateway["environment"]
    drain = Settings.model_fields["drain_seconds"].default
    # Docker kills after 10 s unless told otherwise.
    assert int(gateway["stop_grace_period"].removesuffix("s")) >= drain + 12


def test_the_image_copies_what_is_there_and_the_context_lets_it_in() -> None:
    image = (DEPLOY / "images" / "Dockerfile").read_text()
    copied = {
        name
        for line in re.findall(r"^COPY (?!--from)(.+)$", image, re.MULTILINE)
        for name in line.split()[:-1]
    }
    assert {"gateway", "backends", "policies"} <= copied
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert all((ROOT / name).exists() for name in copied)
    assert copied == let_in


def test_images_are_pinned() -> None:
    for name, service in services().items():
        assert "build" in service or re.search(r":v?\d+\.\d+\.\d+$", service["image"]), name


def test_the_collector_s_pipelines_are_made_of_what_it_declares() -> None:
    found = only(DEPLOY / "otel" / "collector.yaml")
    assert set(found) <= {"receivers", "processors", "exporters", "extensions", "connectors", "service"}
    service = found["service"]
    assert set(service["extensions"]) <= set(found["extensions"])
    used = {"receivers": set(), "processors": set(), "exporters": set()}
    for name, pipeline in service["pipelines"].items():
        assert name in {"traces", "metrics", "logs"}
        for kind, names in pipeline.items():
            used[kind] |= set(names)
    assert used == {kind: set(found[kind]) for kind in used}
    assert next(iter(service["pipelines"]["traces"]["processors"])) == "memory_limiter"


def test_grafana_finds_sources_and_dashboards_where_they_are_mounted() -> None:
    sources = only(DEPLOY / "grafana" / "provisioning" / "datasources" / "specroute.yaml")["datasources"]
    identities = {source["uid"] for source in sources}
    for source in sources:
        for link in source["jsonData"].get("exemplarTraceIdDestinations", ()):
            assert link["datasourceUid"] in identities
    (provider,) = only(DEPLOY / "grafana" / "provisioning" / "dashboards" / "specroute.yaml")["providers"]
    mounts = {
        target: source
        for source, target, *_ in (mount.split(":") for mount in services()["grafana"]["volumes"])
    }
    shown = (COMPOSE / mounts[provider["options"]["path"]]).resolve()
    boards = [json.loads(path.read_text()) for path in shown.glob("*.json")]
    assert len(boards) == 4
    home = services()["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (shown / Path(home).name).exists()


def test_prometheus_accepts_its_configuration() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    done = subprocess.run(  # noqa: S603 - found on the path
        [promtool, "check", "config", str(DEPLOY / "prometheus" / "prometheus.yaml")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = [each["job_name"] for each in only(DEPLOY / "prometheus" / "prometheus.yaml")["scrape_configs"]]
    assert jobs == ["specroute", "vllm"]


def test_kubernetes_objects_fit_together() -> None:
    base = documents(DEPLOY / "k8s" / "base" / "gateway.yaml")
    overlay = DEPLOY / "k8s" / "overlays" / "sim"
    kustomization = only(overlay / "kustomization.yaml")
    assert all((overlay / name).exists() for name in kustomization["resources"])
    (generated,) = kustomization["configMapGenerator"]
    assert all((overlay / name).exists() for name in generated["files"])
    objects = [*base, *documents(overlay / "sim.yaml")]
    deployments = [each for each in objects if each["kind"] == "Deployment"]
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in deployments]
    for each in deployments:
        assert each["spec"]["selector"]["matchLabels"] == each["spec"]["template"]["metadata"]["labels"]
        pod = each["spec"]["template"]["spec"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume} == {
            generated["name"]
        }
        for container in pod["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            assert container["securityContext"]["readOnlyRootFilesystem"]
            # Else the image that was built and loaded is asked of a registry that does not have it.
            assert ":" in container["image"] or container["imagePullPolicy"] == "IfNotPresent"
    for each in objects:
        if each["kind"] == "Service":
            assert each["spec"]["selector"] in labels
    (gateway,) = [each for each in deployments if each["metadata"]["name"] == "specroute"]
    (container,) = gateway["spec"]["template"]["spec"]["containers"]
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] in CONTROL_PATHS
    drain = next(int(each["value"]) for each in container["env"] if each["name"] == "SPECROUTE_DRAIN_SECONDS")
    assert gateway["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > drain + 5


def test_the_decision_log_has_room() -> None:
    (gateway, _, _) = documents(DEPLOY / "k8s" / "base" / "gateway.yaml")
    pod = gateway["spec"]["template"]["spec"]
    (room,) = [each["emptyDir"]["sizeLimit"] for each in pod["volumes"] if each["name"] == "decisions"]
    fields = Settings.model_fields
    files = fields["workers"].default * (fields["decision_log_files"].default + 1)
    assert files * fields["decision_log_bytes"].default < int(room.removesuffix("Gi")) * 2**30


def test_the_simulated_servers_ports_are_those_of_the_fleet() -> None:
    overlay = DEPLOY / "k8s" / "overlays" / "sim"
    loaded = load_fleet((overlay / "fleet.yaml").read_text())
    assert isinstance(loaded, Loaded)
    (service,) = [each for each in documents(overlay / "sim.yaml") if each["kind"] == "Service"]
    ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    assert ports == {one.name: int(one.url.rpartition(":")[2]) for one in loaded.value.backends}
    assert {one.url.split("//")[1].split(":")[0] for one in loaded.value.backends} == {
        service["metadata"]["name"]
    }


def test_pods_get_no_variables_named_after_services() -> None:
    # A Service named specroute would set SPECROUTE_PORT to its address, which is none of our ports.
    pods = [
        document["spec"]["template"]["spec"]
        for path in YAMLS
        for document in documents(path)
        if document.get("kind") == "Deployment"
    ]
    assert len(pods) == 2
    assert all(pod["enableServiceLinks"] is False for pod in pods)
