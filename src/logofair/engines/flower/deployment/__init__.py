"""Processes of a deployment: starting, watching and ending Flower's servers and nodes, and their keys."""
