"""Shell scripts for the other side: one runs a command and ends everything it started, one proves that
nothing is left. They need a POSIX `sh` only, and are fed to it through stdin.

stdin stays open as long as buddy wants the command to run. It ends when the call is cancelled, when the
connection is lost and when buddy itself is killed: then everything the command started is ended over there,
without buddy's help.
"""

from __future__ import annotations

import re

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError

MAX_SCRIPT_BYTES = 120_000
"""The command in it becomes one argument, which Linux limits to 128 kB."""

SUPERVISOR_NEEDS = ("awk", "sed", "grep", "tr", "cat", "sleep")

MEMBERS = r"""
members() {
  if [ -r "$proc/self/stat" ]; then
    tagged=$(grep -ls "BUDDY_JOB=$tag" "$proc"/[0-9]*/environ 2>/dev/null | tr -dc '0-9\n' | tr '\n' ' ')
    rows=$(cat "$proc"/[0-9]*/stat 2>/dev/null | sed 's/^\([0-9]*\) (.*) /\1 /')
  else
    tagged=
    rows=$(ps -A -o pid= -o stat= -o ppid= -o pgid= -o pgid= 2>/dev/null)
  fi
  candidates=$(echo "$rows" | awk -v sid="$sid" -v spared="$spared" -v tagged="$tagged" '
    $2 !~ /^[ZX]/ { n++; pid[n] = $1; parent[$1] = $3; session[$1] = $5 }
    END {
      split(spared, s, " "); for (i in s) skip[s[i]] = 1
      split(tagged, t, " "); for (i in t) hit[t[i]] = 1
      do {
        again = 0
        for (i = 1; i <= n; i++) {
          p = pid[i]
          if (p in skip || p in out) continue
          if (p in hit || session[p] == sid || parent[p] in out) { out[p] = 1; again = 1 }
        }
      } while (again)
      for (p in out) print p
    }')
  found=
  for p in $candidates; do alive "$p" && found="$found $p"; done
  [ "$found" ]
}
alive() {
  if [ -r "$proc/self/stat" ]; then
    { read -r stat <"$proc/$1/stat"; } 2>/dev/null || return 1
    set -- ${stat##*) }
    [ "$1" != Z ] && [ "$1" != X ]
  else
    kill -0 "$1" 2>/dev/null
  fi
}
pause() { sleep 0.05 2>/dev/null || sleep 1; }
sweep() {
  round=0
  while members; do
    if [ $round = "$patience" ]; then kill -TERM $found; $hangup $found; kill -CONT $found; fi
    if [ $round -gt $((patience + 20)) ]; then kill -KILL $found; fi
    [ $round -gt $((patience + 80)) ] && return 1
    round=$((round + 1)); pause
  done 2>/dev/null
}
"""
"""`members` lists the living processes of a command: those of its session, those that carry its tag, and
their descendants. The programs that list them have ended by the time `alive` looks. `sweep` ends them: TERM,
KILL after a second. `hangup` is a command that sends them another signal with TERM, `:` for none."""

_RUN = r"""
exec 3<&0 4>&2 2>&1
cd -- "$folder" 2>/dev/null || { echo "buddy:$tag no-folder" >&4; exit 1; }
sid=$$; patience=0; spared=" $$ "
if [ -r "$proc/self/stat" ]; then
  read -r stat <"$proc/$$/stat"; set -- ${stat##*) }; [ "$4" = $$ ] || sid=none
fi
echo "buddy:$tag pid=$sid" >&4
(
  while read -r _ <&3; do :; done
  spared="$spared$(exec sh -c 'echo $PPID') "
  while kill -0 $$; do sweep; pause; done  # again: the command may begin only now
) >/dev/null 2>&1 4>&- &
watcher=$!
spared="$spared$watcher "
trap : TERM HUP INT
if command -v bash >/dev/null 2>&1; then shell=bash; set -- bash --noprofile --norc -c "$command"
else shell=sh; set -- sh -c "$command"; fi
BUDDY_JOB=$tag AI_AGENT=buddy TERM=dumb PAGER=cat GIT_PAGER=cat GIT_TERMINAL_PROMPT=0 \
  "$@" </dev/null 3<&- 4>&-
code=$?
left=0; members && left=1
sweep || left=2
kill -KILL $watcher 2>/dev/null
echo "buddy:$tag code=$code shell=$shell left=$left" >&4
exit $code
"""

_VERIFY = r"""
patience=40; spared=" $$ "
if sweep; then echo "buddy:$tag clean"; else echo "buddy:$tag survivors=$found"; fi
exit 0
"""
"""The command's own watcher gets two seconds before this one signals."""

_HELLO = r"""
cd -- "$folder" 2>/dev/null || { echo "buddy:$tag no-folder"; exit 1; }
echo "buddy:$tag home=$HOME"
echo "buddy:$tag folder=$(pwd -P)"
echo "buddy:$tag system=$(uname -sm 2>/dev/null)"
command -v bash >/dev/null 2>&1 && echo "buddy:$tag bash=yes"
for p in $needs; do command -v $p >/dev/null 2>&1 || echo "buddy:$tag lacks=$p"; done
echo "buddy:$tag ready"
while read -r _; do :; done
exit 0
"""


class ScriptReport(msgspec.Struct, frozen=True):
    """The words a script wrote about one tag, by name; words without a value have ""."""

    words: dict[str, str]

    def get(self, name: str) -> str | None:
        """Return a value, None when the script did not get that far."""
        return self.words.get(name)


def quote(text: str) -> str:
    """Return a text as one word of a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def run_script(tag: str, folder: str, command: str, *, proc: str = "/proc") -> bytes:
    """Return the script that runs a command in a folder. Raises `ToolError` for one that can't be sent."""
    if "\0" in command:
        raise ToolError("the command holds a NUL character, which no command line can")
    script = script_text(MEMBERS + _RUN, tag=tag, folder=folder, command=command, proc=proc, hangup=":")
    if len(script) > MAX_SCRIPT_BYTES:
        raise ToolError("the command is too long to be sent; write it to a script file and run that")
    return script


def verify_script(tag: str, session: str, *, proc: str = "/proc") -> bytes:
    """Return the script that waits for the end of a command's processes and ends what goes on. `session`: the
    session they run in, "" when it is not known."""
    sid = session if session.isdigit() else "none"
    return script_text(MEMBERS + _VERIFY, tag=tag, sid=sid, proc=proc, hangup=":")


def hello_script(tag: str, folder: str, needs: tuple[str, ...]) -> bytes:
    """Return the script that describes the other side, with a program of `needs` that it lacks, and runs
    until its stdin ends."""
    return script_text(_HELLO, tag=tag, folder=folder or ".", needs=" ".join(needs))


def script_text(body: str, **variables: str) -> bytes:
    """Return a script with variables set in front of it."""
    # One compound command: the shell has read all of it before its stdin becomes the sign to stop.
    set_up = "\n".join(f"{name}={quote(value)}" for name, value in variables.items())
    return f"{{\n{set_up}\n{body}\n}}\n".encode("utf-8", "surrogateescape")


_WORD = pattern(r"^buddy:(\S+) (.*)$", re.MULTILINE)


def read_report(text: str, tag: str) -> ScriptReport:
    """Read what scripts wrote about a tag; other lines are not theirs."""
    words: dict[str, str] = {}
    for match in _WORD().finditer(text):
        if match[1] == tag:
            line = match[2]
            pieces = line.split(" ") if line.startswith("code=") else [line]
            for piece in pieces:
                name, _, value = piece.partition("=")
                words[name] = value.strip()
    return ScriptReport(words)
