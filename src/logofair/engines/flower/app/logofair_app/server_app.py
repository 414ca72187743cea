"""The server app, from the installed package."""

from logofair.engines.flower.server_app import app

__all__ = ["app"]
