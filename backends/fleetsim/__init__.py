"""A fleet of servers on a virtual clock: engines in event time, traffic, faults and the fluid optimum."""
