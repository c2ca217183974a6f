"""Which client asks the servers, by the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.wire.lean.pool import LeanUpstream

if TYPE_CHECKING:
    from gateway.settings import Settings
    from gateway.wire.upstream import Upstream


def upstream_of(settings: Settings) -> Upstream:
    """An empty pool of connections of the kind that the settings name."""
    if settings.upstream == "lean":
        return LeanUpstream()
    from gateway.wire.portable import HttpxUpstream  # noqa: PLC0415 - aiohttp takes 20 MB that most do not need

    return HttpxUpstream()
