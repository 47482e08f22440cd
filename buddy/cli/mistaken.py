"""Mistyped subcommands: refused with the nearest one, never sent to a model.

A prompt is usually quoted. A misspelt subcommand is refused whatever follows it; an English word that
resembles a subcommand, with at most one more word or with a word the subcommand takes; a subcommand of other
programs, with at most one more word.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence

from buddy.agent.lazy_regex import pattern

_WORD = pattern(r"[a-z][a-z-]*")
_NEAR = 0.8
_MAY_BE_ENGLISH = frozenset(
    {
        *("demon", "demos", "demote", "doctored", "doctors", "helped", "helper", "helpers", "helps", "logic"),
        *(
            "logins",
            "memo",
            "mode",
            "model",
            "modes",
            "modest",
            "permission",
            "presume",
            "resumed",
            "resumes",
        ),
        "session",
    }
)
"""English words like a subcommand: with more than one word after them they start a sentence."""
_TAKES = {
    "permissions": frozenset({"test"}),
    "plugin": frozenset({"add", "list", "remove"}),
    "mcp": frozenset({"add", "add-json", "list", "get", "remove", "login", "logout", "test"}),
}
"""First words that a subcommand takes."""
_UPDATE = "buddy does not update itself; update it as you installed it: pipx upgrade buddy-repl"
_CONFIG = "your settings are a file: `buddy init` writes it, `buddy init --print` shows every setting"
_ELSEWHERE = {
    "config": _CONFIG,
    "configure": _CONFIG,
    "settings": _CONFIG,
    "setup": _CONFIG,
    "update": _UPDATE,
    "upgrade": _UPDATE,
    "version": "the version is `buddy --version`",
    "continue": "`buddy --continue` continues the newest session",
    "run": "`buddy exec PROMPT` runs one prompt",
    "chat": "`buddy` alone opens the prompt",
    "start": "`buddy` alone opens the prompt",
    "auth": "`buddy login PROVIDER` stores a key",
    "history": "`buddy sessions` lists earlier sessions",
    "list": "`buddy sessions` lists sessions, `buddy models` models",
    "status": "`buddy doctor` checks what works here",
}
"""Subcommands of other programs, and buddy's equivalent."""
_INSIDE = (
    "add-dir agents answer approve bg btw budget cd clear commands compact config context continue copy cost "
    "diff doctor editor export fg fork help hooks init jobs keys kill log login logout mcp memory mode model "
    "models more new new-project no ok permissions plan ps queue quit redo redraw rename reset restore "
    "resume retry rewind serve session skills status steer target theme timeout tools trust try undo "
    "variants wait worktree"
)
"""The slash commands. A test compares them with the registry, which would slow every start if it were
imported here."""


def mistaken_command(words: Sequence[str], commands: Collection[str]) -> str:
    """Return advice for words that were meant as a subcommand, "" for a prompt."""
    first, behind = words[0], len(words) - 1
    if not _WORD().fullmatch(first):
        return ""
    if first in _ELSEWHERE and behind <= 1:
        return f"there is no `buddy {first}`: {_ELSEWHERE[first]}. {_as_prompt(words)}"
    if not behind and first in _INSIDE.split():
        return f"/{first} works inside buddy: start `buddy` and type it there. {_as_prompt(words)}"
    import difflib  # imported here: 1 ms, only needed for such words

    near = difflib.get_close_matches(first, commands, 1, _NEAR) or [
        name for name in commands if sorted(name) == sorted(first)
    ]
    if not near or (first in _MAY_BE_ENGLISH and behind > 1 and words[1] not in _TAKES.get(near[0], ())):
        return ""
    correction = shlex.join(["buddy", near[0], *words[1:]])
    return f"there is no `buddy {first}`; did you mean `{correction}`? {_as_prompt(words)}"


def _as_prompt(words: Sequence[str]) -> str:
    return f"To send it as a prompt: buddy -- {shlex.join(words)}"
