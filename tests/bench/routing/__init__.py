"""The bars of routing: learned policy against peers and the fluid optimum, on simulated fleets."""
