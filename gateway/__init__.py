"""Everything about a request: classify it, decide where it goes, relay it, record it."""

__version__ = "0.1.0"
