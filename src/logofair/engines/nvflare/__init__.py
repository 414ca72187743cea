"""NVIDIA FLARE carries the messages: a transport over its Collab API, and the recipe of a job.

This room needs ``pip install 'logofair[nvflare]'``, in an environment without Flower: each wants a protobuf that the
other refuses. Nothing outside it knows NVIDIA FLARE.
"""

from __future__ import annotations

from logofair.engines.nvflare.job import JobRecipe
from logofair.engines.nvflare.parts import FlareServer, FlareSite, FlareTransport

__all__ = ["FlareServer", "FlareSite", "FlareTransport", "JobRecipe"]
