import pytest

from gateway.runtime.admission import Admission


def test_it_is_full_while_as_many_are_open_as_may_be():
    admission = Admission(2)
    with admission:
        assert not admission.full
        with admission:
            assert (admission.full, admission.open) == (True, 2)
        assert not admission.full
    assert admission.open == 0


def test_a_request_that_fails_has_ended_too():
    admission = Admission(1)
    with pytest.raises(RuntimeError), admission:
        raise RuntimeError
    assert not admission.full
