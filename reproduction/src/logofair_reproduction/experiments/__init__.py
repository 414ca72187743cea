"""Experiments: methods side by side on data sets, as tables."""
