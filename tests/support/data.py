"""Where the real data lie: the folder that LOGOFAIR_DATA names, or the one beside the checkout."""

import os
from pathlib import Path

DATA = Path(os.environ.get("LOGOFAIR_DATA", Path(__file__).parents[3] / "shared" / "data"))
