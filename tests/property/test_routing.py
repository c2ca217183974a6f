"""What the product says of a fleet holds in the simulation of it, from a cold start with a prior that is wrong."""

from tests.bench.routing import advising


def figures(kind, fleet, policy, mix, load):
    return advising.run(
        {"kind": kind, "fleet": fleet, "policy": policy, "mix": mix, "load": load, "seed": 1, "stretch": 0.5}
    )


def test_on_servers_that_are_alike_it_is_as_good_as_least_requests_and_says_that_routing_does_not_pay():
    alike = ("best", "G31", 4)
    ours, least = (figures("closed", alike, policy, "equal", 8) for policy in ("learned", "least requests"))
    assert ours["tokens"] >= 0.98 * least["tokens"]
    assert figures("advice", alike, "learned", "equal", 8)["routing"] <= 0.02


def test_on_one_server_of_each_it_names_the_configuration_to_consolidate_on_and_what_that_gains():
    found = figures("advice", ("one of each", "G26", 1), "learned", "chat70", 32)
    assert found["named"] == 1.0
    assert found["off"] <= 0.03
    assert found["of_best"] >= 0.98
