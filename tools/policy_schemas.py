"""Write the JSON schemas of the policy files anew: ``python tools/policy_schemas.py``."""

from __future__ import annotations

from pathlib import Path

from gateway.policy.schema import FleetFile, PolicyFile, json_schema

POLICIES = Path(__file__).parent.parent / "policies"

for name, model in (("fleet", FleetFile), ("policy", PolicyFile)):
    (POLICIES / f"{name}.schema.json").write_text(json_schema(model), encoding="utf-8")
