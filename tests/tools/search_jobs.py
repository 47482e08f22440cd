"""Jobs for the search itself, over every file of a folder."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from buddy.workspace.search_extract import Job
from buddy.workspace.search_pattern import SearchPattern


def job_of(folder: Path, **changed: Any) -> Job:
    """Lines with a b, the first ten in full, unless a field of the job is `changed`."""
    job = Job(
        top=str(folder),
        files=sorted(os.listdir(folder)),
        source="b",
        flags=int(re.MULTILINE),
        literals=[],
        signs=None,
        multiline=False,
        first=0,
        last=10,
        enough=sys.maxsize,
        once=False,
        longest=0,
    )
    return Job(**{**job, **changed})


def known_of(asked: SearchPattern) -> dict[str, Any]:
    """A pattern's fields of a job, with all that helps to find its matches."""
    return {
        "source": asked.source,
        "flags": asked.flags,
        "literals": list(asked.literals),
        "signs": asked.signs,
    }
