"""The question whether the folder buddy was started in is trusted: what it would put in force, and the
person's answer, remembered with what it was about.

What is answered is what was shown: the texts are read once, when the question is put, and a change since
then is a new question.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping

from buddy.app.launch import LaunchContext
from buddy.app.trust_answer import TrustAnswer
from buddy.app.trust_state import trust_store
from buddy.safety.sanitise import clean, visible
from buddy.safety.trust import TrustChange, folder_of
from buddy.safety.trusted_files import trusted_things

MAX_SHOWN = 12
MAX_TEXT_LINES = 200
DIGEST_CHARS = 12
_IN_FORCE: Mapping[str, str] = {
    "buddy.toml": "settings and rules",
    ".buddyx/ext": "tools: code that buddy runs",
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
    """The folder, what the question is about, and the answers. Everything here looks at the disk: call it in
    a thread."""

    def __init__(self, launch: LaunchContext) -> None:
        self._launch = launch
        self._store = trust_store(launch.where)
        self._folder = folder_of(launch.boundary.root)
        self._things: Mapping[str, str] = {}
        self._changes: tuple[TrustChange, ...] = ()
        self.is_open = False

    def ask(self) -> str:
        """The question, "" when there is none: the folder is trusted, has nothing that would be in force, or
        the person said no to exactly this."""
        self._look()
        if self._launch.trusted or not self._changes:
            return ""
        if self._store.is_refused(self._folder, self._things):
            return ""
        self.is_open = True
        return self._question()

    def answer(self, word: str) -> TrustAnswer:
        """The person's answer: once, always or no; or "" and `show` to look."""
        match word:
            case "once":
                return self._once()
            case "always":
                return self._always()
            case "no":
                return self._no()
            case "show":
                return TrustAnswer(self._contents(), "no")
            case _:
                return TrustAnswer(self._standing(), "no")

    def _look(self) -> None:
        self._things = trusted_things(self._launch.boundary.root)
        self._changes = self._store.changes(self._folder, self._things)

    def _once(self) -> TrustAnswer:
        if problem := self._unlike_what_was_shown():
            return problem
        self.is_open = False
        return TrustAnswer(f"{self._root()} is trusted for this run", "once")

    def _always(self) -> TrustAnswer:
        if problem := self._unlike_what_was_shown():
            return problem
        self.is_open = False
        problem = self._store.remember(self._folder, self._things, trusted=True, now=time.time())
        if problem:
            return TrustAnswer(f"trusted for this run only, not remembered: {problem}", "once")
        return TrustAnswer(f"{self._root()} is trusted until its settings change", "remembered")

    def _no(self) -> TrustAnswer:
        if not self._things:
            self._look()
        self.is_open = False
        problem = self._store.remember(self._folder, self._things, trusted=False, now=time.time())
        said = f"{self._root()} is not trusted: its settings are ignored"
        more = f" (not remembered: {problem})" if problem else "; you are asked again when it changes"
        return TrustAnswer(said + more, "remembered" if self._launch.trusted else "no")

    def _unlike_what_was_shown(self) -> TrustAnswer | None:
        """Nobody trusts what they were not shown: what changed meanwhile is shown first."""
        before = self._things
        self._look()
        if before == self._things:
            return None
        self.is_open = True
        if before:
            return TrustAnswer(
                f"Not trusted: it changed after it was shown. Read it again.\n{self._question()}", "no"
            )
        return TrustAnswer(self._question(), "no")

    def _standing(self) -> str:
        self._look()
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
        """The things the question is about."""
        rows = [self._row(change) for change in self._changes[:MAX_SHOWN]]
        more = len(self._changes) - MAX_SHOWN
        return [*rows, f"  and {more} more; /trust show lists them"] if more > 0 else rows

    def _row(self, change: TrustChange) -> str:
        kind = kind_of(change.name)
        digest = hashlib.sha256(self._things[change.name].encode("utf-8", "surrogatepass")).hexdigest()
        return f"  {visible(change.name)} ({change.kind}): {kind}, sha256 {digest[:DIGEST_CHARS]}"

    def _contents(self) -> str:
        self._look()
        if not self._changes:
            return self._standing()
        parts = [self._row(change).strip() + "\n" + self._content(change) for change in self._changes]
        return "\n".join([*parts, _HOW])

    def _content(self, change: TrustChange) -> str:
        """The difference, or the whole of what is new."""
        text = change.diff if change.kind == "changed" and change.diff else self._things[change.name]
        lines = clean(text).splitlines()
        more = len(lines) - MAX_TEXT_LINES
        lines = [*lines[:MAX_TEXT_LINES], f"({more} more lines)"] if more > 0 else lines
        return "\n".join(f"  | {line}" for line in lines)

    def _root(self) -> str:
        return visible(self._folder.root)
