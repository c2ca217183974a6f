"""What may go wrong in reading JSON that somebody else wrote."""

from __future__ import annotations

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""Not JSON, not of the expected shape, not UTF-8, or nested more deeply than can be read."""
