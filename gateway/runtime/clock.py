"""The one place that reads clocks."""

from __future__ import annotations

import time
from typing import Final

monotonic: Final = time.monotonic  # noqa: TID251 - this is the wrapper
unix_ns: Final = time.time_ns
