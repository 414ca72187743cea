"""NVIDIA FLARE carries the messages: a transport over its Collab API, and the recipe of a job.

An administrator submits the job, to the simulator or to a deployment. This room needs
``pip install 'logofair[nvflare]'``, in an environment without Flower: each wants a protobuf that the other refuses.
Nothing outside it knows NVIDIA FLARE.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nvflare.collab import CollabRecipe

from logofair.engines.nvflare.parts import FlareServer, FlareSite, FlareTransport

__all__ = ["CLASSES", "FlareServer", "FlareSite", "FlareTransport", "JobRecipe"]

# What a site has to allow by name (class_allow_list) so that it needs to allow no code from outside.
CLASSES = ("logofair.engines.nvflare.parts", "nvflare.collab.runtime")


class JobRecipe(CollabRecipe):  # type: ignore[misc]
    """A plan as a job of NVIDIA FLARE; it carries names of installed classes and no code.

    Parameters
    ----------
    plan : path
        The plan's file on the server's machine (:func:`logofair.engines.folder.write_plan`).
    folder : path
        Where the server keeps state and result.
    sites : int
        How many sites must be there before the job starts.
    simulated : path, optional
        For the simulator alone: the folder of all sites' settings, ``NAME.json``.
    """

    def __init__(self, plan: str | Path, folder: str | Path, *, sites: int = 2, simulated: str | Path = "") -> None:
        where = {"plan": str(Path(plan).resolve()), "folder": str(Path(folder).resolve())}
        settings = str(Path(simulated).resolve()) if simulated else ""
        super().__init__("logofair", FlareServer(**where), FlareSite(settings), min_clients=sites)
        # Sources would travel with the job, which then counts as code from outside (BYOC): sites switch that off.
        self._job.set_app_packages(["logofair"])

    @staticmethod
    def _user_source_entries(objs: Any) -> list[tuple[str, str | None]]:
        """Likewise the files of server and site themselves, which a recipe adds in another way."""
        return []
