"""Engines: they carry the messages of the federation between the server and its sites, and nothing else."""
