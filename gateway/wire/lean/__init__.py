"""A lean pooled HTTP/1.1 client for backends, over plain TCP and TLS."""
