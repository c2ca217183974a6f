"""A server in the mind: requests that share its steps, by what is known of its speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.core.predict import ServerModel


class VirtualServer:
    """Requests decode together, each a token's worth of steps at a time; a prompt holds up all of them.

    Args:
        model: What is known of the server.
        level: Factor on all its times.

    Attributes:
        ended: Requests that have ended, by number: seconds on the clock.
    """

    def __init__(self, model: ServerModel, level: float = 1.0) -> None:
        self._model = model
        self._level = level
        self._clock = 0.0
        self._stall = 0.0
        self._left: dict[int, float] = {}
        self.ended: dict[int, float] = {}

    @property
    def open(self) -> int:
        """Requests on it."""
        return len(self._left)

    def submit(self, number: int, steps: float, prefill: float, now: float) -> None:
        """Take a request.

        Args:
            number: Its number.
            steps: Decode steps that it takes.
            prefill: Seconds that its prompt takes.
            now: Seconds on the clock; never less than before.
        """
        self.advance(now)
        self._stall += prefill * self._level
        self._left[number] = steps + self._model.start_steps

    def advance(self, now: float) -> None:
        """Let time pass."""
        while self._left and self._clock < now:
            if self._stall:
                taken = min(self._stall, now - self._clock)
                self._stall -= taken
                self._clock += taken
                continue
            count = len(self._left)
            running = min(count, self._model.max_running)
            # Those that wait for a place hold up all alike.
            seconds = self._model.step(running) * self._level * count / running
            next_one = min(self._left, key=self._left.__getitem__)
            steps = min(self._left[next_one], (now - self._clock) / seconds)
            ends = steps >= self._left[next_one]
            self._clock += steps * seconds
            for number in self._left:
                self._left[number] -= steps
            if ends:
                del self._left[next_one]
                self.ended[next_one] = self._clock
        self._clock = max(self._clock, now)
