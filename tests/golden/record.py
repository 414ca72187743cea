"""Record the figures of the golden set anew: ``cd tests && python -m golden.record``.

``--policies`` also makes the stored policies anew: right only where their rules mean something else than before.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from golden.calls import STORED_POLICIES, figures, policy_to_store
from golden.cases import CASES, POLICIES

RECORDED = Path(__file__).with_name("figures.json")


def _write(path: Path, data: dict[str, Any]) -> None:
    """Sorted, one case after the other; numbers as Python writes them, so that none loses a bit."""
    lines = (f"{json.dumps(name)}: {json.dumps(data[name], sort_keys=True)}" for name in sorted(data))
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    if "--policies" in sys.argv[1:]:
        _write(STORED_POLICIES, {case.name: policy_to_store(case) for case in POLICIES})
    _write(RECORDED, {case.name: figures(case) for case in CASES})
