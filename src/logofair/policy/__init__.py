"""A policy: weighted thresholds per cell, the coins they need, their words, and their file."""
