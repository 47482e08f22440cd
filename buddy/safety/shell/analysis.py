"""Analysis of a command line: both parsers, then each simple command.

Import this module late: its grammar takes 5 ms.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable

import msgspec

from buddy.agent.tool import ToolError
from buddy.safety.paths import Boundary, Located, is_beneath, locate
from buddy.safety.shell.compound import Compound, Sequence, is_loop_variable, read_sequence
from buddy.safety.shell.context import CommandPlace, Feed, JudgedCommand, RefusedError
from buddy.safety.shell.destructive import (
    bomb,
    catastrophe,
    catastrophe_across,
    protected_target,
    protected_write,
    suspicious_text,
    unknown_target,
)
from buddy.safety.shell.expansion import expand, expand_one
from buddy.safety.shell.fallback_scan import inner_commands, scavenge, targets_in_text, targets_inside
from buddy.safety.shell.lexer import NOT_FOLLOWED, lookalike, read_line
from buddy.safety.shell.programs.names import uses_network
from buddy.safety.shell.programs.registry import Programs
from buddy.safety.shell.programs.wrappers import check_assignment
from buddy.safety.shell.result import (
    MAX_CHARS,
    UNRESOLVED,
    Analysis,
    CommandLine,
    Level,
    Redirect,
    Simple,
    Subcommand,
    UnclearError,
    Word,
    weakest,
)
from buddy.safety.shell.tree_sitter import Grammar
from buddy.safety.shell.write_targets import targets

MAX_COMMANDS = 20
MAX_SEEN = 1000
MAX_JUDGED = 300
MAX_WRITES = 20
"""Paths of one command that are looked at for what it writes; a request names far fewer."""
_COMPOUND = re.compile(r"\(|(?:\A|[\s;])(?:\{|for|if|while)\s")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_WRITES = frozenset({">", ">>", ">|", "&>", "&>>", "<>"})
_DEVICES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_STREAMS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_MOVERS = frozenset({"cd", "pushd", "popd", "eval", "source", ".", "builtin", "command"})


class Analyser:
    """Judges command lines. Keeps a parser, but no state of commands."""

    def __init__(self) -> None:
        self._grammar = Grammar()
        self._programs = Programs(self._judge_text)

    def analyse(self, command: str, place: CommandPlace) -> Analysis:
        """Analyse the effects of a command line at a place. Never raises."""
        analysis = self._analyse(command, place)
        reason = lookalike(command[:MAX_CHARS]) or _place_reason(place)
        if not reason:
            return analysis
        if analysis.level == "ask":
            reason = f"{reason}; {analysis.reason}"
        return msgspec.structs.replace(analysis, level="ask", reason=reason)

    def _analyse(self, command: str, place: CommandPlace) -> Analysis:
        try:
            line = self._parse(command)
        except UnclearError as unclear:
            return self._compound(command, place, unclear)
        return _LineJudge(self._programs, command, place).judge(line)

    def _parse(self, command: str) -> CommandLine:
        """Return the line as both parsers read it. Raises `UnclearError`."""
        _check_text(command)
        line = read_line(command)
        if self._grammar.commands(command) != line.commands:
            raise UnclearError("the two parsers read it differently")
        if len(line.commands) > MAX_COMMANDS:
            raise UnclearError(f"more than {MAX_COMMANDS} commands", construct=True)
        return line

    def _compound(self, command: str, place: CommandPlace, unclear: UnclearError) -> Analysis:
        """Return the verdict on what is no plain line: that of its tree, when all of it only reads."""
        asked = _unclear(command, place, unclear)
        if not unclear.construct or not _COMPOUND.search(command):
            return asked
        try:
            _check_text(command)
            sequence = read_sequence(command)
            if self._grammar.commands(command, compounds=True) != tuple(sequence.commands()):
                return asked
            analysis = _SequenceJudge(self._programs, command, place).judge_sequence(sequence)
        except (UnclearError, RefusedError):
            return asked
        if analysis.read_only:
            reason = analysis.reason or only_in_a_sandbox(unclear.reason.removesuffix(NOT_FOLLOWED))
            parts = tuple(msgspec.structs.replace(part, level="wide") for part in analysis.commands)
            return msgspec.structs.replace(analysis, level="wide", reason=reason, commands=parts)
        return msgspec.structs.replace(
            asked,
            catastrophic=asked.catastrophic or analysis.catastrophic,
            protected=analysis.protected,  # with the values of its loops known
            writes=analysis.writes,
        )

    def _judge_text(self, judged: JudgedCommand, text: str) -> None:
        """Judge the text a shell is given. Raises `RefusedError`."""
        try:
            line = self._parse(text)
        except UnclearError as unclear:
            raise RefusedError(unclear.reason) from unclear
        analysis = _LineJudge(self._programs, text, judged.place).judge(line)
        judged.reads.extend(analysis.reads)
        if not analysis.read_only:
            raise RefusedError(analysis.reason)


def only_in_a_sandbox(construct: str) -> str:
    """Return the reason for level wide."""
    return f"{construct} runs unasked only in a sandbox"


def _place_reason(place: CommandPlace) -> str:
    """Why nothing runs unasked in a working directory, "" for one in the workspace: without an operand most
    programs read there."""
    boundary = place.boundary
    if not any(is_beneath(boundary.cwd, root) for root in (boundary.root, *boundary.extra)):
        return f"it starts in {boundary.cwd}, outside the workspace"
    try:
        located = locate(boundary, boundary.cwd)
    except ToolError as error:
        return str(error)
    return f"it starts in {located.shown}: {located.secret}" if located.secret else ""


def _check_text(command: str) -> None:
    if len(command) > MAX_CHARS:
        raise UnclearError(f"{len(command)} characters are too many to judge; at most {MAX_CHARS}")
    if not command.strip():
        raise UnclearError("the command is empty")
    if command.isascii() and not _CONTROL.search(command):
        return
    for char in dict.fromkeys(command):
        if (char < " " and char not in "\n\t") or char == "\x7f":
            raise UnclearError(f"a control character, U+{ord(char):04X}")
        if char > "~" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"):
            raise UnclearError(f"an invisible or unusual character, U+{ord(char):04X}")


def _unclear(command: str, place: CommandPlace, unclear: UnclearError) -> Analysis:
    """Return the verdict on what was not followed. Whatever might be a command in it is still looked at by
    deny rules and the hard floor."""
    boundary = place.boundary
    commands: list[Subcommand] = []
    seen: list[tuple[str, ...]] = []
    for argv in scavenge(command):
        inner = inner_commands(argv)
        seen.extend((argv, *inner))
        commands.append(Subcommand(argv, literal=False, reason=unclear.reason, inner=inner))
    seen = seen[:MAX_SEEN]
    moved = _after_each(seen, boundary)
    disaster = next(filter(None, (catastrophe(argv, at) for argv, at in zip(seen, moved, strict=True))), "")
    disaster = disaster or catastrophe_across([command.argv for command in commands], boundary)
    targets = dict.fromkeys(
        (*targets_in_text(command), *(target for argv in seen for target in targets_inside(argv)))
    )
    disaster = disaster or bomb(command[:MAX_CHARS])
    if not disaster and not unclear.construct:
        disaster = suspicious_text(command[:MAX_CHARS])
    return Analysis(
        command,
        "ask",
        unclear.reason,
        parsed=unclear.construct,
        commands=tuple(commands),
        network=any(map(uses_network, seen)),
        catastrophic=disaster,
        protected=next(
            filter(
                None,
                (
                    *(protected_write(argv, boundary) for argv in seen),
                    *(unknown_target(target, boundary) for target in targets),
                ),
            ),
            "",
        ),
    )


def _after_each(seen: list[tuple[str, ...]], boundary: Boundary) -> list[Boundary]:
    """For each command, the boundary as the `cd`s before it would leave it."""
    found: list[Boundary] = []
    for argv in seen:
        found.append(boundary)
        boundary = _boundary_after_cd(argv, boundary)
    return found


def _boundary_after_cd(argv: tuple[str, ...], boundary: Boundary) -> Boundary:
    """Return the boundary for the hard floor after a `cd`, as far as its words tell."""
    folders = [word for word in argv[1:] if not word.startswith("-")]
    if (
        argv[:1] not in (("cd",), ("pushd",))
        or len(folders) > 1
        or any(UNRESOLVED in folder for folder in folders)
    ):
        return boundary
    try:
        return msgspec.structs.replace(boundary, cwd=locate(boundary, (*folders, "~")[0]).real)
    except ToolError:
        return boundary


def _may_move(argv: tuple[str, ...]) -> bool:
    """Tell whether a command may change the working directory of those after it."""
    return bool(argv) and (argv[0] in _MOVERS or UNRESOLVED in argv[0])


class _LineJudge:
    """Judges the commands of one line from left to right; a first `cd` moves the place of the rest."""

    def __init__(self, programs: Programs, command: str, place: CommandPlace) -> None:
        self._programs = programs
        self._command = command
        self._place = place
        self._floor = place.boundary
        """The folder for judging deletes and writes: every readable `cd` moves it, followed or not."""
        self._found: list[Subcommand] = []
        self._reads: list[Located] = []
        self._writes: list[Located] = []
        self._catastrophic = ""
        self._protected = ""
        self._lost = False
        """An earlier command may have changed to an unknown folder."""
        self._unmoved: Boundary | None = None
        """The folder before the first `cd`, None while there was none."""
        self._may_stay = False
        """A command also runs there if the `cd` fails: after `;` and `||`."""
        self._all_follow = False
        """The whole list ends when its first command fails."""
        self._upstream: tuple[str, ...] | None = None
        """The words of the commands whose output the next one gets, None when no pipe leads to it."""

    def judge(self, line: CommandLine) -> Analysis:
        self._commands(line)
        return self._verdict()

    def _commands(self, line: CommandLine) -> None:
        feed: Feed | None = None
        for position, simple in enumerate(line.commands):
            if line.connectors[position] != "|":
                feed = self._upstream = None
            piped = "|" in line.connectors[position : position + 2][:1] or line.connectors[
                position + 1 : position + 2
            ] == ("|",)
            self._may_stay = self._may_stay or line.connectors[position] in (";", "||")
            if position == 0:
                self._all_follow = set(line.connectors[1:]) <= {"&&", "|"}
            feed = self._simple(simple, feed, may_move=position == 0 and not piped)

    def _verdict(self) -> Analysis:
        level = weakest([command.level for command in self._found])
        reason = next((command.reason for command in self._found if command.level == level), "")
        across = catastrophe_across([command.argv for command in self._found], self._floor)
        everything = [argv for command in self._found for argv in (command.argv, *command.inner)]
        return Analysis(
            self._command,
            level,
            reason,
            parsed=True,
            commands=tuple(self._found),
            network=any(map(uses_network, everything)),
            catastrophic=self._catastrophic or across,
            protected=self._protected,
            reads=tuple(dict.fromkeys(self._reads)),
            writes=tuple(dict.fromkeys(self._writes)),
        )

    def _simple(self, simple: Simple, feed: Feed | None, *, may_move: bool) -> Feed | None:
        """Judge one command; what it hands on through a pipe."""
        words = simple.words[1:] if simple.words and simple.words[0].plain == "!" else simple.words
        folder = "" if self._lost else self._place.boundary.cwd
        unmoved = self._unmoved if self._may_stay else None
        judged, literal, reason = self._judge_here(simple, words, feed, may_move=may_move)
        if not reason and unmoved is not None:
            place, self._place = self._place, msgspec.structs.replace(self._place, boundary=unmoved)
            elsewhere, _, reason = self._judge_here(simple, words, feed, may_move=False)
            self._place = place
            reason = f"if the cd fails: {reason} (with && nothing runs then)" if reason else ""
            judged.reads.extend(elsewhere.reads)
            judged.wide.extend(elsewhere.wide)
        level: Level = "ask" if reason else "core"
        if not reason and judged.wide:
            level, reason = "wide", only_in_a_sandbox(judged.wide[0])
        inner = inner_commands(judged.argv)
        written = [tuple(_display(word) for word in words)] if judged.globbed else []
        for argv in (judged.argv, *inner, *written):
            self._catastrophic = self._catastrophic or catastrophe(argv, self._floor)
            self._protected = self._protected or protected_write(argv, self._floor)
            for target in targets_inside(argv):
                self._protected = self._protected or unknown_target(target, self._floor)
        for argv in (judged.argv, *inner):
            self._note_writes(targets(argv))
        self._floor = _boundary_after_cd(judged.argv, self._floor)
        self._reads.extend(judged.reads)
        sources = self._sources(simple)
        self._upstream = (*(sources or ()), *judged.argv[1:])
        self._found.append(
            Subcommand(
                judged.argv,
                literal=literal,
                reason=reason,
                inner=inner,
                folder=folder,
                level=level,
                sources=sources,
                assignments=tuple(f"{name}={_display(value)}" for name, value in simple.assignments),
            )
        )
        self._lost = self._lost or (level == "ask" and _may_move(judged.argv))
        return judged.lists

    def _judge_here(
        self, simple: Simple, words: tuple[Word, ...], feed: Feed | None, *, may_move: bool
    ) -> tuple[JudgedCommand, bool, str]:
        """Return the command as the place reads it, whether all of its words are known, and why it does not
        only read."""
        judged, literal, reason = self._expand(words, feed)
        try:
            self._surroundings(simple, words, judged)
        except RefusedError as refused:
            return judged, False, reason or str(refused)
        except UnclearError as unclear:
            return judged, False, reason or unclear.reason
        return judged, literal, reason or self._by_program(judged, may_move=may_move)

    def _sources(self, simple: Simple) -> tuple[str, ...] | None:
        """Return the words that may name files a command gets as its input, None without input."""
        given = [redirect for redirect in simple.redirects if redirect.sign.startswith("<")]
        if not given:
            return self._upstream
        return (*(self._upstream or ()), *(_display(one.word) for one in given if one.sign in ("<", "<>")))

    def _expand(self, words: tuple[Word, ...], feed: Feed | None) -> tuple[JudgedCommand, bool, str]:
        """Return the command with its words expanded, whether all of them are known, and why not."""
        try:
            expanded = expand(words, self._place)
        except UnclearError as unclear:
            argv = tuple(_display(word) for word in words)
            return JudgedCommand(self._place, argv), False, unclear.reason
        except RefusedError as refused:
            return JudgedCommand(self._place, tuple(_display(word) for word in words)), False, str(refused)
        judged = JudgedCommand(
            self._place,
            expanded.argv,
            opaque=expanded.opaque,
            globbed=expanded.globbed,
            splits=expanded.splits,
            feed=feed,
        )
        if expanded.odd_variable:
            judged.widen(f"a command with ${expanded.odd_variable}")
        return judged, not expanded.opaque, ""

    def _surroundings(self, simple: Simple, words: tuple[Word, ...], judged: JudgedCommand) -> None:
        """Judge assignments and redirections. Raises `RefusedError` for those that do more than read."""
        refused: RefusedError | None = None
        for redirect in simple.redirects:
            try:
                self._redirect(redirect, judged)
            except RefusedError as error:
                refused = refused or error
        if refused is not None:
            raise refused
        for name, value in simple.assignments:
            check_assignment(name, expand_one(value, self._place))
        if not words:
            raise RefusedError("it sets variables or redirects without a command")

    def _redirect(self, redirect: Redirect, judged: JudgedCommand) -> None:
        sign = redirect.sign
        if sign in ("<<", "<<-"):
            return
        if sign == "<<<":
            expand((redirect.word,), self._place)
            return
        try:
            target = expand_one(redirect.word, self._place)
        except UnclearError:
            if ">" in sign:
                self._protected = self._protected or unknown_target(
                    _display(redirect.word), self._place.boundary, redirect.word.text
                )
            raise
        if sign in (">&", "<&") and (target.isdecimal() or target == "-"):
            return
        if sign == "<":
            judged.read(target)
            return
        if target in _STREAMS and sign in _WRITES:
            return
        self._protected = self._protected or protected_target(target, self._place.boundary)
        self._note_writes((target,))
        raise RefusedError(f"it writes {target}")

    def _note_writes(self, paths: Iterable[str]) -> None:
        """Keep those that lead out of the workspace."""
        for path in itertools.islice(paths, MAX_WRITES):
            try:
                located = locate(self._floor, path)
            except ToolError:
                continue
            if not located.inside and path not in _DEVICES and UNRESOLVED not in path:
                self._writes.append(located)

    def _by_program(self, judged: JudgedCommand, *, may_move: bool) -> str:
        """Why the command is not known to only read, "" when it is."""
        try:
            if judged.argv[0] == "cd":
                self._move(judged, may_move=may_move)
            else:
                self._programs.judge(judged)
        except RefusedError as refused:
            return str(refused)
        return ""

    def _move(self, judged: JudgedCommand, *, may_move: bool) -> None:
        folders = [word for word in judged.argv[1:] if word != "--"]
        if len(folders) != 1 or folders[0].startswith("-") or judged.opaque or not folders[0]:
            raise RefusedError("cd without one known folder")
        if not may_move:
            raise RefusedError("cd anywhere but at the start is not followed")
        before = self._place.boundary
        self._place = self._place.after_cd(folders[0], may_miss=self._all_follow)
        self._unmoved, self._may_stay = before, False
        if ".." in folders[0].split("/") or judged.globbed:
            judged.widen("cd with .. or a pattern")


class _SequenceJudge(_LineJudge):
    """Judges compound commands too: loops over known words once for every word."""

    def judge_sequence(self, sequence: Sequence) -> Analysis:
        """Return the verdict on all of it. Raises `RefusedError` and `UnclearError`."""
        self._sequence(sequence, may_move=True)
        return self._verdict()

    def _sequence(self, sequence: Sequence, *, may_move: bool) -> None:
        feed: Feed | None = None
        for position, item in enumerate(sequence.items):
            before, after = (
                sequence.connectors[place : place + 1] == ("|",) for place in (position, position + 1)
            )
            self._may_stay = self._may_stay or sequence.connectors[position] in (";", "||")
            if len(self._found) > MAX_JUDGED:
                raise RefusedError("a loop over too much")
            if isinstance(item, Compound):
                self._compound(item)
                feed = None
            else:
                first = may_move and position == 0 and not before and not after
                self._upstream = (self._upstream or ()) if before else None
                if first:
                    self._all_follow = set(sequence.connectors[1:]) <= {"&&", "|"}
                feed = self._simple(item, feed if before else None, may_move=first)

    def _compound(self, item: Compound) -> None:
        place, unmoved = self._place, self._unmoved
        if item.kind == "for":
            self._for(item)
        elif item.kind == "while":
            self._place = place.with_variable(_name_read(item.bodies[0]), None)
            self._sequence(item.bodies[1], may_move=False)
        else:
            for body in item.bodies:
                self._sequence(body, may_move=item.kind == "subshell")
        self._place, self._unmoved = place, unmoved

    def _for(self, item: Compound) -> None:
        place = self._place
        expanded = expand(item.words, place)
        for position, value in enumerate(expanded.argv):
            if not value:
                raise RefusedError("a loop over an empty word")
            self._place = place.with_variable(item.name, None if position in expanded.opaque else value)
            self._sequence(item.bodies[0], may_move=False)


def _name_read(condition: Sequence) -> str:
    """Return the variable of `while read -r name`. Raises `RefusedError` for any other condition."""
    only = condition.items[0]
    if len(condition.items) == 1 and isinstance(only, Simple) and not only.redirects:
        assignments = [(name, word.text) for name, word in only.assignments]
        command = " ".join(word.plain or "?" for word in only.words)
        found = re.fullmatch(r"read (?:-r )?([a-z][a-z0-9_]*)", command)
        if found and is_loop_variable(found[1]) and assignments in ([], [("IFS", "")]):
            return found[1]
    raise RefusedError("a while loop whose end is not certain")


def _display(word: Word) -> str:
    """Return a word that was not expanded: known text stays, the rest is unknown."""
    if any(piece.kind.endswith("variable") for piece in word.pieces):
        return "".join(UNRESOLVED if piece.kind.endswith("variable") else piece.text for piece in word.pieces)
    return word.text
