"""Jobs for the search itself, over every file of a folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from buddy.workspace.search.matcher import SearchJob
from buddy.workspace.search.pattern import SearchPattern


def job_of(folder: Path, asked: SearchPattern, **changed: Any) -> SearchJob:
    """The first ten matches in full, unless a field of the job is `changed`."""
    job = SearchJob(
        top=str(folder),
        files=sorted(os.listdir(folder)),
        source=asked.source,
        flags=asked.flags,
        literal=asked.literal,
        rare=asked.rare,
        multiline=asked.multiline,
        first=0,
        last=10,
        enough=sys.maxsize,
        once=False,
    )
    return SearchJob(**{**job, **changed})
