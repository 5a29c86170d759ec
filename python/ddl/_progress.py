# SPDX-License-Identifier: Apache-2.0
"""Who brings requests on while the program computes."""

from __future__ import annotations

import os
from typing import Any, Dict


def progress() -> Dict[str, Any]:
    """Keywords of Comm.create() for frameworks whose calls return before they are complete: somebody must make progress, and that is a
    thread, unless the job says otherwise."""
    told = "DDL_PROGRESS" in os.environ or "progress=" in os.environ.get("DDL_PLAN", "")
    return {} if told else {"progress_threads": 1}
