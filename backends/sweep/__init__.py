"""Finding out by measurement which speculative configuration serves which work best here."""
