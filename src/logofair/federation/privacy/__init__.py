"""Differential privacy: each client noises one histogram once, and everything after is post-processing."""
