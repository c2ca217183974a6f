"""A simulated vLLM server: continuous batching with speculation, calibrated to published measurements."""
