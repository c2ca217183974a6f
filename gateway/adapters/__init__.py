"""Other services than vLLM behind the seam to backends; each imports its library when it is first needed."""
