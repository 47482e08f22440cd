"""The question whether to trust the folder buddy was started in, and the user's remembered answer.

The answer covers exactly the content that was shown: it is read once, when the question is asked, and a later
change makes a new question.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Literal

import msgspec

from buddy.app.launch import LaunchContext
from buddy.app.trust_state import trust_store
from buddy.safety.sanitise import clean, visible
from buddy.safety.trust import TrustChange, folder_of
from buddy.safety.trusted_files import trusted_things


class TrustAnswer(msgspec.Struct, frozen=True):
    """The result of an answer about trust: the text for the user, and whether the settings in force change
    for this run only, permanently, or not at all."""

    text: str
    changes: Literal["no", "once", "remembered"]


MAX_SHOWN = 12
MAX_TEXT_LINES = 200
DIGEST_CHARS = 12
_COMMAND_OWNERS = (".buddyx", ".claude", ".opencode", ".gemini")
_IN_FORCE: Mapping[str, str] = {
    "buddy.toml": "settings and rules",
    ".buddyx/ext": "tools: code that buddy runs",
    ".buddyx/hooks": "hooks: commands that buddy runs",
    ".claude/settings": "hooks: commands that buddy runs",
    ".claude/hooks": "a script, which hooks may run",
    **dict.fromkeys((f"{folder}/skills" for folder in (".buddyx", ".agents", ".claude")), "skills"),
    **dict.fromkeys((f"{folder}/agents" for folder in (".buddyx", ".claude", ".opencode")), "subagents"),
    ".opencode/agent": "subagents",
    **dict.fromkeys((f"{folder}/command" for folder in _COMMAND_OWNERS), "commands"),
}
_HOW = (
    "/trust show prints them · /trust once for this run · /trust always until they change · /trust no\n"
    "You can decide later."
)


def kind_of(name: str) -> str:
    """Return the effect of a file or folder that trust covers; "" for none."""
    lowered = name.lower()
    return next((kind for begin, kind in _IN_FORCE.items() if lowered.startswith(begin)), "")


class FolderTrust:
    """The folder, the content the question is about, and the answers. Every method reads the disk: call it in
    a thread."""

    def __init__(self, launch: LaunchContext) -> None:
        self._launch = launch
        self._store = trust_store(launch.where)
        self._folder = folder_of(launch.boundary.root)
        self._things: Mapping[str, str] = {}
        self._changes: tuple[TrustChange, ...] = ()
        self.is_open = False

    def ask(self) -> str:
        """Return the question, "" when there is none: the folder is trusted, has no settings, or the user
        refused exactly this content."""
        self._read()
        if self._launch.trusted or not self._changes:
            return ""
        if self._store.is_refused(self._folder, self._things):
            return ""
        self.is_open = True
        return self._question()

    def answer(self, word: str) -> TrustAnswer:
        """Apply the user's answer: once, always or no; "show" prints the content, "" the current state."""
        match word:
            case "once":
                if problem := self._ask_again_if_changed():
                    return problem
                self.is_open = False
                return TrustAnswer(f"{self._root()} is trusted for this run", "once")
            case "always":
                return self._always()
            case "no":
                return self._no()
            case "show":
                return TrustAnswer(self._contents(), "no")
            case _:
                return TrustAnswer(self._standing(), "no")

    def _read(self) -> None:
        self._things = trusted_things(self._launch.boundary.root)
        self._changes = self._store.changes(self._folder, self._things)

    def _always(self) -> TrustAnswer:
        if problem := self._ask_again_if_changed():
            return problem
        self.is_open = False
        problem = self._store.remember(self._folder, self._things, trusted=True, now=time.time())
        if problem:
            return TrustAnswer(f"trusted for this run only, not remembered: {problem}", "once")
        return TrustAnswer(f"{self._root()} is trusted until its settings change", "remembered")

    def _no(self) -> TrustAnswer:
        if not self._things:
            self._read()
        self.is_open = False
        problem = self._store.remember(self._folder, self._things, trusted=False, now=time.time())
        sentence = f"{self._root()} is not trusted: its settings are ignored"
        more = f" (not remembered: {problem})" if problem else "; you are asked again when it changes"
        return TrustAnswer(sentence + more, "remembered" if self._launch.trusted else "no")

    def _ask_again_if_changed(self) -> TrustAnswer | None:
        """Return the new question when the content changed since it was shown, None when it did not."""
        before = self._things
        self._read()
        if before == self._things:
            return None
        self.is_open = True
        if before:
            return TrustAnswer(
                f"Not trusted: it changed after it was shown. Read it again.\n{self._question()}", "no"
            )
        return TrustAnswer(self._question(), "no")

    def _standing(self) -> str:
        self._read()
        if self._launch.trusted and not self._changes:
            return f"{self._root()} is trusted. /trust no ends that."
        if not self._changes:
            return f"{self._root()} has no settings of its own: nothing to trust."
        return self._question()

    def _question(self) -> str:
        known = self._store.standing(self._folder).trusted
        head = (
            f"The settings of {self._root()} changed since you trusted it. They are ignored until you trust "
            "it again:"
            if known
            else f"{self._root()} has settings of its own. They are ignored until you trust it:"
        )
        return "\n".join([head, *self._rows(), _HOW])

    def _rows(self) -> list[str]:
        """Return a line for each changed thing."""
        rows = [self._row(change) for change in self._changes[:MAX_SHOWN]]
        more = len(self._changes) - MAX_SHOWN
        return [*rows, f"  and {more} more; /trust show lists them"] if more > 0 else rows

    def _row(self, change: TrustChange) -> str:
        kind = kind_of(change.name)
        digest = hashlib.sha256(self._things[change.name].encode("utf-8", "surrogatepass")).hexdigest()
        return f"  {visible(change.name)} ({change.kind}): {kind}, sha256 {digest[:DIGEST_CHARS]}"

    def _contents(self) -> str:
        self._read()
        if not self._changes:
            return self._standing()
        parts = [self._row(change).strip() + "\n" + self._content(change) for change in self._changes]
        return "\n".join([*parts, _HOW])

    def _content(self, change: TrustChange) -> str:
        """Return the difference, or all of something new."""
        text = change.diff if change.kind == "changed" and change.diff else self._things[change.name]
        lines = clean(text).splitlines()
        more = len(lines) - MAX_TEXT_LINES
        lines = [*lines[:MAX_TEXT_LINES], f"({more} more lines)"] if more > 0 else lines
        return "\n".join(f"  | {line}" for line in lines)

    def _root(self) -> str:
        return visible(self._folder.root)
