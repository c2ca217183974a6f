"""HTTP: from the client's bytes to a decision and back, and the control routes."""
