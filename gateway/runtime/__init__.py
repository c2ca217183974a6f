"""Owners of mutable state: the fleet, the policy in force, background tasks."""
