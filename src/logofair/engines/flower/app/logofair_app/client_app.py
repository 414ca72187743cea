"""The client app, from the installed package."""

from logofair.engines.flower.client_app import app

__all__ = ["app"]
