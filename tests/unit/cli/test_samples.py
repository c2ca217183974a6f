import pytest

from gateway.cli import samples


@pytest.mark.parametrize("name", ["fleet.yaml", "policy.yaml", "demo.yaml", "policy.schema.json"])
def test_samples_of_a_checkout_are_found(name):
    assert samples.sample(name).is_file()


def test_samples_of_an_installed_package_come_first(tmp_path, monkeypatch):
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "fleet.yaml").write_text("version: 1")
    monkeypatch.setattr(samples, "_PACKAGE", tmp_path)
    assert samples.sample("fleet.yaml") == tmp_path / "samples" / "fleet.yaml"
