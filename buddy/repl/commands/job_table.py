"""Jobs as a table: their state, and the ports they serve."""

from __future__ import annotations

from collections.abc import Sequence

from buddy.repl.view.blocks import NoteBlock, TableBlock
from buddy.workspace.processes.jobs import Jobs, JobStatus
from buddy.workspace.processes.process_tree import LeftCommand

INSIDE_ONLY = (
    "only commands inside the sandbox reach a port there, your browser does not; an allow rule with "
    'sandbox = "off" runs its command outside'
)


def job_blocks(
    jobs: Jobs, statuses: Sequence[JobStatus], left: Sequence[LeftCommand] = ()
) -> tuple[TableBlock | NoteBlock, ...]:
    """Return tables about jobs and the commands an earlier run left. Blocks: it walks over all processes for
    their ports."""
    rows: list[tuple[str, ...]] = []
    inside_only = False
    for status in statuses:
        child = jobs.get(status.id).child
        ports = ", ".join(map(str, child.ports()))
        hidden = bool(ports and child.ports_inside)
        inside_only = inside_only or hidden
        serves = f"{ports} inside" if hidden else ports
        rows.append(
            (
                str(status.id),
                status.state,
                f"{status.seconds:.0f} s",
                f"{status.bytes_written:,} B",
                serves,
                status.command,
            )
        )
    for number, command in enumerate(left, 1):
        rows.append(
            (f"left{number}", "left by an earlier run", "", "", "", f"{command.command} ({command.pids})")
        )
    table = TableBlock(("job", "state", "for", "output", "serves", "command"), tuple(rows))
    return (table, NoteBlock("info", INSIDE_ONLY)) if inside_only else (table,)
