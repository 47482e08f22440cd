"""Jobs as a table: what runs, and which ports it serves for whom."""

from __future__ import annotations

from collections.abc import Sequence

from buddy.repl.view.blocks import NoteBlock, TableBlock
from buddy.workspace.processes.jobs import Jobs, JobStatus
from buddy.workspace.processes.process_tree import LeftCommand

INSIDE_ONLY = (
    "a port inside the sandbox is reached by commands there, not by your browser; an allow rule with "
    'sandbox = "off" runs its command outside'
)


def job_blocks(
    jobs: Jobs, found: Sequence[JobStatus], left: Sequence[LeftCommand] = ()
) -> tuple[TableBlock | NoteBlock, ...]:
    """Describe jobs, and what an earlier run left. Blocks: it walks over all processes for their ports."""
    rows: list[tuple[str, ...]] = []
    inside_only = False
    for one in found:
        child = jobs.get(one.id).child
        ports = ", ".join(map(str, child.ports()))
        hidden = bool(ports and child.ports_inside)
        inside_only = inside_only or hidden
        serves = f"{ports} inside" if hidden else ports
        rows.append(
            (str(one.id), one.state, f"{one.seconds:.0f} s", f"{one.bytes_written:,} B", serves, one.command)
        )
    for number, command in enumerate(left, 1):
        rows.append(
            (f"left{number}", "left by an earlier run", "", "", "", f"{command.command} ({command.pids})")
        )
    table = TableBlock(("job", "state", "for", "output", "serves", "command"), tuple(rows))
    return (table, NoteBlock("info", INSIDE_ONLY)) if inside_only else (table,)
