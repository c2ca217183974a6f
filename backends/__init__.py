"""Everything about a vLLM process: simulate, launch, check and measure it."""
