"""How many further attempts the whole gateway may make: a token bucket that requests and time fill."""

from __future__ import annotations

from gateway.core.values import value


@value(frozen=True, slots=True)
class BudgetSettings:
    """What fills the budget and how much it holds.

    Attributes:
        share: Further attempts each request pays for.
        per_second: Further attempts each second pays for.
        burst: Further attempts that can be saved up: by default what one full backend holds open.
    """

    share: float = 0.2
    per_second: float = 10.0
    burst: int = 256


@value(frozen=True, slots=True)
class Budget:
    """What is left.

    Attributes:
        tokens: Further attempts that may be made.
        at: Monotonic seconds at which this was so.
    """

    tokens: float
    at: float

    def filled(self, settings: BudgetSettings, now: float, *, requests: int = 0) -> Budget:
        """The budget at a later time and after so many requests."""
        earned = settings.per_second * (now - self.at) + settings.share * requests
        return Budget(min(self.tokens + earned, float(settings.burst)), now)

    @property
    def allows(self) -> bool:
        """Whether one more attempt may be made."""
        return self.tokens >= 1.0

    def spent(self) -> Budget:
        """The budget less one attempt."""
        return Budget(self.tokens - 1.0, self.at)
