"""The status page: what the gateway does right now, for people."""
