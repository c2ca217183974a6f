from __future__ import annotations

from gateway.core import reasons

SETS = (reasons.REJECTIONS, reasons.CHOICES, reasons.REFUSALS)


def test_every_code_is_in_exactly_one_set() -> None:
    codes = [value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)]
    assert sorted(codes) == sorted(code for one in SETS for code in one)
    assert len(set(codes)) == len(codes)


def test_every_code_is_its_constant_in_lower_case() -> None:
    codes = {
        name: value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)
    }
    assert codes == {name: name.lower() for name in codes}
