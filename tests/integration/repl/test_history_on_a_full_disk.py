"""The history on a disk that takes half a line: the line is lost, the next one is whole."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from tests.capabilities import requires

CHILD = textwrap.dedent("""
    import os, resource, signal, sys
    from buddy.repl.input.history import LineHistory

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    told = []
    history = LineHistory(sys.argv[1], told.append, lambda line: line)
    history.store_string("first")
    resource.setrlimit(resource.RLIMIT_FSIZE, (12, resource.RLIM_INFINITY))
    history.store_string("there is no room for all of this")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    history.store_string("third")
    print(told, list(history.load_history_strings()))
""")


@requires("linux")
def test_a_line_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "history"
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True
    )
    told = f"input history was not written: [Errno 28] No space left on device: '{path}'"
    assert done.stdout == f"{[told]} ['third', 'first']\n"
    assert path.read_text() == '"first"\n"third"\n'
