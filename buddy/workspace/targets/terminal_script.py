"""Shell scripts for a command on a terminal of the other side: one starts it there, one watches over it.
Pure.

Two channels work together. The terminal's own is a client that asks for a terminal (`ssh -tt`, `exec --tty`);
what goes through it is the command's. The other one is a pipe: its end is the sign to end everything the
command started, because a container's terminal outlives its client."""

from __future__ import annotations

from buddy.agent.tool import ToolError
from buddy.workspace.processes.launch import TerminalSize
from buddy.workspace.targets.pane_script import MARK
from buddy.workspace.targets.supervisor import MAX_SCRIPT_BYTES, MEMBERS, quote, script_text

_LEAD = (
    "stty raw -echo -iexten && echo && echo buddy:{tag} ready && read -r line "
    '&& eval "$line"; echo && echo buddy:{tag} no-stty'
)
"""In single quotes it is the same text for every login shell: no quote, backslash or `!` is in it."""

_BOOTSTRAP = (
    "n=$(printf '\\nx'); n=${{n%x}}; s=; "
    'while IFS= read -r l; do [ "$l" = {mark} ] && break; s=$s$l$n; done; eval "$s"'
)

_RUN = r"""
cd -- "$folder" 2>/dev/null || { echo; echo "buddy:$tag no-folder"; exit 1; }
trap : HUP INT QUIT TERM
if command -v bash >/dev/null 2>&1; then shell=bash; set -- bash --noprofile --norc -c "$command"
else shell=sh; set -- sh -c "$command"; fi
echo; echo "buddy:$tag shell=$shell"
stty sane; stty rows "$rows" cols "$columns"
printf '\033]%s;%s;begin;%s\007' "$number" "$mark" $$
AI_AGENT=buddy TERM=xterm-256color PAGER=cat GIT_PAGER=cat GIT_TERMINAL_PROMPT=0 "$@"
code=$?
printf '\033]%s;%s;end;%s\007' "$number" "$mark" $code
exit $code
"""

_WATCH = r"""
sid=none; ended=; patience=0; spared=" $$ "
echo "buddy:$tag watching"
while read -r word; do
  if [ "$word" = ended ]; then ended=yes; else sid=$word; fi
done
round=0
while [ "$ended" ] && alive "$sid" && [ $round -lt 40 ]; do round=$((round + 1)); pause; done
left=0; members && left=1
sweep || left=2
echo "buddy:$tag left=$left"
if [ $left = 2 ]; then echo "buddy:$tag survivors=$found"; else echo "buddy:$tag clean"; fi
late=0
while [ $sid = none ] && [ $late -lt 100 ]; do late=$((late + 1)); pause; sweep; done >/dev/null 2>&1
exit 0
"""
"""A terminal whose process nobody knows yet may begin a moment later: it is looked for a while. `sweep`
counts in `round`."""


def terminal_lead(tag: str) -> str:
    """Return the first text for the terminal's shell: it takes the script that follows without echo."""
    return _LEAD.format(tag=tag)


def terminal_script(tag: str, mark: str, folder: str, command: str, size: TerminalSize) -> bytes:
    """Return the bytes to type once the shell is ready. `mark` is for the marks around the output, and the
    command does not learn it. Raises `ToolError` for a command that can't be sent."""
    if "\0" in command:
        raise ToolError("the command holds a NUL character, which no command line can")
    variables = {"tag": tag, "mark": mark, "number": MARK, "folder": folder, "command": command}
    variables |= {"rows": str(size.rows), "columns": str(size.columns)}
    script = script_text(_RUN, **variables)
    if len(script) > MAX_SCRIPT_BYTES:
        raise ToolError("the command is too long to be sent; write it to a script file and run that")
    return f"{_BOOTSTRAP.format(mark=quote(mark))}\n".encode() + script + f"{mark}\n".encode()


def watch_script(tag: str, *, proc: str = "/proc") -> bytes:
    """Return the script that ends what carries a tag when its stdin ends. On stdin come the id of the
    terminal's process, and `ended` once that is over."""
    return script_text(MEMBERS + _WATCH, tag=tag, proc=proc, hangup="kill -HUP")
