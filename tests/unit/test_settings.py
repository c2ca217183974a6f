from tools.settings_reference import TARGET, reference


def test_the_page_of_settings_is_in_step():
    assert TARGET.read_text(encoding="utf-8") == reference(), "run python tools/settings_reference.py"
