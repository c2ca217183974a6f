from gateway.core.plan import Kind, Limits, Wanted
from gateway.core.predict import ServerModel
from gateway.runtime.fleet_advice import FleetAdvice


def test_configurations_are_called_after_a_server_though_one_is_called_as_another_begins():
    def kind(name: str, fingerprint: str, steps: float) -> Kind:
        model = ServerModel(fingerprint=fingerprint, other_steps_per_token=steps, measured=1e6)
        return Kind((name,), model)

    kinds = [
        kind("plain7", "m/dflash/7/", 0.5),
        kind("tuned7", "m/dflash/7/D", 0.4),
        kind("mi355", "m/dflash/7/D/hardware=MI355X", 0.25),
    ]
    found = FleetAdvice.of(kinds, [Wanted("default", Limits(), {"chat": 1.0}, 32.0)])
    assert found.words[1].startswith("consolidate on 3 x mi355's configuration: +")
    assert set(found.consolidating) == {"plain7", "tuned7", "mi355"}
