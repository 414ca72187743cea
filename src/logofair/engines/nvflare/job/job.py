"""LoGoFair as a job of NVIDIA FLARE: writes the folder to submit, or tries it in FLARE's simulator."""

import argparse
from pathlib import Path

from nvflare.recipe.sim_env import SimEnv

from logofair.engines.nvflare import JobRecipe


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plan", help="the plan's file on the server's machine")
    parser.add_argument("folder", help="where the server keeps its state and the result")
    parser.add_argument("--sites", type=int, default=2, help="how many sites must be there before it starts (2)")
    parser.add_argument("--simulate", metavar="SETTINGS", help="try it here: the folder of all sites' NAME.json")
    chosen = parser.parse_args()
    if chosen.simulate is None:
        JobRecipe(chosen.plan, chosen.folder, sites=chosen.sites).export("job")
        print("Wrote job/logofair. Next: submit_job in FLARE's console.")
        return
    names = sorted(file.stem for file in Path(chosen.simulate).glob("*.json"))
    recipe = JobRecipe(chosen.plan, chosen.folder, sites=len(names), simulated=chosen.simulate)
    recipe.run(SimEnv(clients=names, workspace_root="flare"))


if __name__ == "__main__":
    main()
