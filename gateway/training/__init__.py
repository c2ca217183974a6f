"""How the shipped classifier is made from labelled requests; nothing of it runs in a gateway."""
