"""NVIDIA FLARE carries the messages: a transport over its Collab API, the two ends of a job, and its recipe.

An administrator submits the job, to the simulator or to a deployment. The server conducts the plan, a site answers each
message, and FLARE calls between them; both work from disk, so that a job that was stopped is submitted again and goes
on where it was. Needs ``pip install 'logofair[nvflare]'``, in an environment without Flower: each wants a protobuf that
the other refuses.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nvflare.collab import CollabCallError, CollabRecipe, collab

from logofair.engines.conductor import NoReply
from logofair.engines.folder import conduct_from_disk
from logofair.engines.site import answer_on_disk

# What a site has to allow by name (class_allow_list) so that it needs to allow no code from outside.
CLASSES = ("logofair.engines.nvflare", "nvflare.collab.runtime")
# Where a site's people name its settings: in the part of FLARE's folder that is theirs, which no job writes.
SETTINGS = "logofair-site.json"


class FlareTransport:
    """The sites of a job; every one is called in a thread of its own, all at the same time."""

    def __init__(self, sites: Iterable[Any]) -> None:
        self._sites = {client.name: client for client in sites}

    def present(self) -> tuple[str, ...]:
        """The sites of the job, in ascending order."""
        return tuple(sorted(self._sites))

    def exchange(self, messages: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes | NoReply]:
        """Call every named site with its message."""
        with ThreadPoolExecutor(max(1, len(messages))) as pool:
            calls = {site: pool.submit(self._called, site, data, timeout) for site, data in messages.items()}
        return {site: call.result() for site, call in calls.items()}

    def _called(self, site: str, message: bytes, timeout: float) -> bytes | NoReply:
        if site not in self._sites:
            return NoReply("not in the job")
        try:
            reply = self._sites[site](timeout=timeout).answer(message)
        except CollabCallError:  # its text came from the site
            return NoReply("did not answer")
        return reply if isinstance(reply, bytes) else NoReply("sent something that is no message")


class FlareServer:
    """The server's end: runs the plan over the job's sites, or goes on with the state in ``folder``."""

    def __init__(self, plan: str, folder: str) -> None:
        self.plan, self.folder = plan, folder

    @collab.main  # type: ignore[untyped-decorator]
    def conduct(self) -> None:
        """Run to the end."""
        log = logging.getLogger("logofair")
        conduct_from_disk(self.plan, self.folder, FlareTransport(collab.clients), tell=log.info)


class FlareSite:
    """A site's end: answers messages with the settings that its own people stored, never with what a job names.

    ``simulated`` is for FLARE's simulator alone, where all sites share one machine and have no folder of their own: the
    folder of their settings, ``NAME.json``. Where a site has its own settings, it is not read.
    """

    def __init__(self, simulated: str = "") -> None:
        self.simulated = simulated

    @collab.publish  # type: ignore[untyped-decorator]
    def answer(self, message: bytes) -> bytes:
        """One message, one reply; a refusal is a reply too."""
        own = Path(collab.workspace.get_site_config_dir()) / SETTINGS
        if self.simulated and not own.exists():
            own = Path(self.simulated) / f"{collab.site_name}.json"
        return answer_on_disk(str(own), message)


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
