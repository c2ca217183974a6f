"""What holds of the budget of further attempts under every storm."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.budget import Budget, BudgetSettings

SETTINGS = st.builds(
    BudgetSettings, share=st.floats(0.0, 1.0), per_second=st.floats(0.0, 50.0), burst=st.integers(1, 100)
)


@given(SETTINGS, st.lists(st.tuples(st.floats(0.0, 2.0), st.integers(0, 9)), max_size=200))
def test_a_storm_gets_no_more_than_was_earned(
    settings: BudgetSettings, storm: list[tuple[float, int]]
) -> None:
    """Each request fails and asks for as many further attempts as it is given."""
    budget, now, made = Budget(float(settings.burst), 0.0), 0.0, 0
    for requests, (apart, wanted) in enumerate(storm, start=1):
        now += apart
        budget = budget.filled(settings, now, requests=1)
        for _ in range(wanted):
            if budget.allows:
                budget = budget.spent()
                made += 1
        assert made <= settings.burst + settings.per_second * now + settings.share * requests + 1e-6
        assert 0.0 <= budget.tokens <= settings.burst
