"""A first word that looks like a subcommand and is none: refused with the nearest one, never sent to a model.

What is meant as a prompt is usually quoted. A misspelt subcommand is refused whatever stands behind it; an
English word near a subcommand with at most one more word, or with a word the subcommand takes; a word that
other programs have as a subcommand with at most one more.
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
"""English words near a subcommand: with more than one word behind them they begin a sentence."""
_TAKES = {"permissions": frozenset({"test"})}
"""Words that a subcommand takes first."""
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
    "continue": "`buddy --continue` goes on with the newest session",
    "run": "`buddy exec PROMPT` runs one prompt",
    "chat": "`buddy` alone opens the prompt",
    "start": "`buddy` alone opens the prompt",
    "auth": "`buddy login PROVIDER` stores a key",
    "history": "`buddy sessions` lists what you did",
    "list": "`buddy sessions` lists sessions, `buddy models` models",
    "status": "`buddy doctor` says what works here",
}
"""Subcommands of other programs, and what does the same here."""
_INSIDE = (
    "add-dir agents answer approve bg btw budget cd clear compact config context continue copy cost diff "
    "doctor editor export fg fork help hooks init jobs keys kill log login logout mcp memory mode model "
    "models more new no ok permissions plan ps queue quit redo redraw rename reset restore resume retry "
    "rewind session skills status steer theme timeout tools trust undo wait worktree"
)
"""The slash commands, held against their registry by a test: importing that here would slow every start."""


def mistaken_command(words: Sequence[str], commands: Collection[str]) -> str:
    """Advice on words that were meant as a subcommand, "" for a prompt."""
    first, behind = words[0], len(words) - 1
    if not _WORD().fullmatch(first):
        return ""
    if first in _ELSEWHERE and behind <= 1:
        return f"there is no `buddy {first}`: {_ELSEWHERE[first]}. {_as_prompt(words)}"
    if not behind and first in _INSIDE.split():
        return f"/{first} works inside buddy: start `buddy` and type it there. {_as_prompt(words)}"
    import difflib  # here: 1 ms that only such words need

    near = difflib.get_close_matches(first, commands, 1, _NEAR) or _transposed(first, commands)
    if not near or (first in _MAY_BE_ENGLISH and behind > 1 and words[1] not in _TAKES.get(near[0], ())):
        return ""
    meant = shlex.join(["buddy", near[0], *words[1:]])
    return f"there is no `buddy {first}`; did you mean `{meant}`? {_as_prompt(words)}"


def _transposed(word: str, known: Collection[str]) -> list[str]:
    return [one for one in known if sorted(one) == sorted(word)][:1]


def _as_prompt(words: Sequence[str]) -> str:
    return f"To send it as a prompt: buddy -- {shlex.join(words)}"
