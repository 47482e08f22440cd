"""The second parser: the command line as tree-sitter's bash grammar reads it.

Only texts that the strict lexer accepted come here: the grammar takes 90 ms for 4,000 characters of `a=( `,
which the lexer refuses. Importing it costs 5 ms, so this module is imported late.
"""

from __future__ import annotations

import threading

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from buddy.safety.shell.result import ARITHMETIC, SUM, Piece, Redirect, Simple, UnclearError, Word, word_of

_STRUCTURE = frozenset({"program", "list", "pipeline", "redirected_statement", "negated_command"})
_SILENT = frozenset({"comment", "heredoc_body", "heredoc_end", "&&", "||", "|", ";", "\n", "!"})
_WORDS = frozenset(
    {
        "word", "number", "string", "raw_string", "ansi_c_string", "concatenation", "simple_expansion",
        "expansion", "test_operator", "brace_expression", "arithmetic_expansion",
    }
)  # fmt: skip
_COMPOUNDS = frozenset(
    {
        "subshell", "compound_statement", "if_statement", "elif_clause", "else_clause", "while_statement",
        "for_statement", "do_group",
    }
)  # fmt: skip
_COMPOUND_WORDS = frozenset(
    {"(", ")", "{", "}", "if", "then", "elif", "else", "fi", "while", "do", "done", "for", "in"}
)
_FOR_HEAD = 3
"""`for`, the name, `in`."""
_AFTER_FOR_HEAD = frozenset({"do_group", ";", "\n", "comment"})
_TEST_STRUCTURE = frozenset({"unary_expression", "binary_expression", "parenthesized_expression"})
_ANSI = {"t": "\t", "n": "\n", "\\": "\\", "'": "'", '"': '"'}


class Grammar:
    """A parser to keep: making one costs more than a parse. Commands of several tasks may be judged at once,
    each in a thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parser = Parser(Language(tree_sitter_bash.language()))

    def commands(self, text: str, *, compounds: bool = False) -> tuple[Simple, ...]:
        """Return the simple commands of a text, in the order they stand there; with `compounds` also those
        inside compound commands, where the head of a for counts as one. Raises `UnclearError`."""
        source = text.encode()
        with self._lock:
            tree = self._parser.parse(source)
        if tree.root_node.has_error:
            raise UnclearError("the grammar finds a syntax error")
        return _TreeWalk(source, compounds=compounds).program(tree.root_node)


class _TreeWalk:
    """Collects commands and redirections of one tree. A node kind it doesn't know is `UnclearError`."""

    def __init__(self, source: bytes, *, compounds: bool) -> None:
        self._words = _Words(source)
        self._structure = _STRUCTURE | _COMPOUNDS if compounds else _STRUCTURE
        self._silent = _SILENT | _COMPOUND_WORDS if compounds else _SILENT
        self._found: list[tuple[int, Simple]] = []

    def program(self, root: Node) -> tuple[Simple, ...]:
        self._statement(root, [])
        return tuple(command for _, command in sorted(self._found, key=lambda item: item[0]))

    def _statement(self, node: Node, redirects: list[Redirect]) -> None:
        kind = node.type
        if kind in self._silent:
            return
        if kind == "command":
            self._command(node, redirects)
        elif kind == "test_command":
            self._test(node, redirects)
        elif kind == "redirected_statement":
            self._redirection(node, redirects)
        elif kind == "negated_command":
            self._negation(node, redirects)
        elif kind in self._structure:
            if redirects:
                raise UnclearError("a redirection of a compound command", construct=True)
            if kind == "for_statement":
                self._head(node)
            for child in node.children[_FOR_HEAD if kind == "for_statement" else 0 :]:
                if kind == "for_statement" and child.type not in _AFTER_FOR_HEAD:
                    continue  # the words, which are part of the head
                self._statement(child, [])
        else:
            raise UnclearError(f"the grammar finds a {kind}", construct=True)

    def _head(self, node: Node) -> None:
        """Return the words of a `for` up to its body."""
        words = [
            Word((Piece(self._words.text(child), "bare"),))
            if position < _FOR_HEAD
            else self._words.word(child)
            for position, child in enumerate(node.children)
            if child.type not in _AFTER_FOR_HEAD
        ]
        self._found.append((node.start_byte, Simple((), tuple(words), ())))

    def _negation(self, node: Node, redirects: list[Redirect]) -> None:
        """Attach `!` to the command as its first word, as the lexer does."""
        before = len(self._found)
        for child in node.children:
            self._statement(child, redirects)
        start, command = min(self._found[before:], key=lambda item: item[0])
        bang = Word((Piece("!", "bare"),))
        position = self._found.index((start, command))
        negated = Simple(command.assignments, (bang, *command.words), command.redirects)
        self._found[position] = (node.start_byte, negated)

    def _redirection(self, node: Node, outer: list[Redirect]) -> None:
        body: Node | None = None
        redirects: list[tuple[int, Redirect]] = []
        more: list[Word] = []
        for child in node.children:
            if child.type.endswith("_redirect"):
                redirects.append((child.start_byte, self._redirect(child, more)))
            else:
                body = child
        inner = [redirect for _, redirect in sorted(redirects, key=lambda item: item[0])] + outer
        if body is None:
            self._found.append((node.start_byte, Simple((), (), tuple(inner))))
        elif body.type in ("list", "pipeline"):
            self._last_of(body, inner)
        else:
            self._statement(body, inner)
        if more:
            self._append(more)

    def _append(self, words: list[Word]) -> None:
        """Move words after a redirection to the command: the grammar attaches them to the redirection."""
        start, command = self._found[-1]
        self._found[-1] = (start, Simple(command.assignments, (*command.words, *words), command.redirects))

    def _last_of(self, node: Node, redirects: list[Redirect]) -> None:
        """Return the command that the redirections at the end of a line belong to: the grammar attaches them
        to the whole line."""
        for child in node.children[:-1]:
            self._statement(child, [])
        last = node.children[-1]
        if last.type in ("list", "pipeline"):
            self._last_of(last, redirects)
        else:
            self._statement(last, redirects)

    def _command(self, node: Node, outer: list[Redirect]) -> None:
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        for child in node.children:
            if child.type == "variable_assignment":
                assignments.append(self._assignment(child))
            elif child.type == "command_name":
                words.append(self._words.word(child.children[0]))
            elif child.type.endswith("_redirect"):
                redirects.append(self._redirect(child, words))
            else:
                words.append(self._words.word(child))
        simple = Simple(tuple(assignments), tuple(words), tuple(redirects + outer))
        self._found.append((node.start_byte, simple))

    def _test(self, node: Node, redirects: list[Redirect]) -> None:
        if node.children[0].type != "[":
            raise UnclearError("a [[ ]] test or arithmetic", construct=True)
        words: list[Word] = []
        self._test_words(node, words)
        self._found.append((node.start_byte, Simple((), tuple(words), tuple(redirects))))

    def _test_words(self, node: Node, words: list[Word]) -> None:
        for child in node.children:
            if child.type in _TEST_STRUCTURE:
                self._test_words(child, words)
            elif child.type in _WORDS:
                words.append(self._words.word(child))
            elif not child.is_named:
                words.append(Word((Piece(self._words.text(child), "bare"),)))
            else:
                raise UnclearError(f"the grammar finds a {child.type} in a test", construct=True)

    def _assignment(self, node: Node) -> tuple[str, Word]:
        name, sign, *value = node.children
        if name.type != "variable_name" or sign.type != "=" or len(value) > 1:
            raise UnclearError("an odd assignment", construct=True)
        return self._words.text(name), self._words.word(value[0]) if value else word_of([])

    def _redirect(self, node: Node, more: list[Word]) -> Redirect:
        fd, sign = "", ""
        target: Word | None = None
        for child in node.children:
            if child.type == "file_descriptor":
                fd = self._words.text(child)
            elif child.type == "heredoc_start":
                target = self._mark(child)
            elif child.type in _WORDS and target is None:
                target = self._words.word(child)
            elif child.type in _WORDS and node.type == "file_redirect":
                more.append(self._words.word(child))
            elif not child.is_named and not sign:
                sign = child.type
            elif node.type == "heredoc_redirect":
                self._statement(child, [])
            else:
                raise UnclearError("an odd redirection")
        if target is None:
            raise UnclearError("a redirection to nowhere")
        return Redirect(fd, sign, target)

    def _mark(self, node: Node) -> Word:
        text = self._words.text(node)
        if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
            return word_of([Piece(text[1:-1], "quoted")])
        if text.startswith("\\"):
            return word_of([Piece(text[1:], "quoted")])
        return word_of([Piece(text, "bare")])


class _Words:
    """Reads the words of one tree, quoting and expansions told apart. A node kind it doesn't know is
    `UnclearError`."""

    def __init__(self, source: bytes) -> None:
        self._source = source

    def text(self, node: Node) -> str:
        """Return the source text of a node."""
        return self._source[node.start_byte : node.end_byte].decode()

    def word(self, node: Node) -> Word:
        """Return a word, its quoting told apart."""
        pieces: list[Piece] = []
        self._pieces(node, pieces)
        return word_of(pieces)

    def _pieces(self, node: Node, pieces: list[Piece]) -> None:
        text = self.text(node)
        match node.type:
            case "word" | "number" | "test_operator" | "brace_expression":
                _bare(text, pieces)
            case "raw_string":
                pieces.append(Piece(text[1:-1], "quoted"))
            case "ansi_c_string":
                pieces.append(Piece(_ansi(text[2:-1]), "quoted"))
            case "string":
                self._string(node, pieces)
            case "simple_expansion" | "expansion" | "arithmetic_expansion":
                pieces.append(Piece(self._variable(node), "variable"))
            case "concatenation":
                self._concatenation(node, pieces)
            case _:
                raise UnclearError(f"the grammar finds a {node.type} in a word", construct=True)

    def _concatenation(self, node: Node, pieces: list[Piece]) -> None:
        end = node.start_byte
        for child in node.children:
            if child.start_byte != end:
                raise UnclearError("a gap inside a word")
            end = child.end_byte
            if child.is_named:
                self._pieces(child, pieces)
            else:
                _bare(self.text(child), pieces)

    def _string(self, node: Node, pieces: list[Piece]) -> None:
        """Append the pieces of a string. The text between expansions is taken from the source, because the
        grammar's string contents miss leading blanks."""
        pieces.append(Piece("", "quoted"))
        start = node.start_byte + 1
        for child in node.children:
            if child.type in ("simple_expansion", "expansion", "arithmetic_expansion"):
                pieces.append(Piece(self._unescape(start, child.start_byte), "quoted"))
                pieces.append(Piece(self._variable(child), "quoted variable"))
                start = child.end_byte
            elif child.is_named and child.type != "string_content":
                raise UnclearError(f"the grammar finds a {child.type} in a string", construct=True)
        pieces.append(Piece(self._unescape(start, node.end_byte - 1), "quoted"))

    def _unescape(self, start: int, end: int) -> str:
        parts = self._source[start:end].decode().split("\\\\")
        for sign in '$`"':
            parts = [part.replace(f"\\{sign}", sign) for part in parts]
        return "\\".join(parts)

    def _variable(self, node: Node) -> str:
        if node.type == "arithmetic_expansion":
            if not ARITHMETIC().fullmatch(self.text(node)):
                raise UnclearError("arithmetic", construct=True)
            return SUM
        named = [child for child in node.children if child.is_named]
        signs = [child.type for child in node.children if not child.is_named]
        if len(named) != 1 or named[0].type not in ("variable_name", "special_variable_name"):
            raise UnclearError("a parameter expansion", construct=True)
        if signs not in (["$"], ["${", "}"]):
            raise UnclearError("a parameter expansion", construct=True)
        return self.text(named[0])


def _bare(text: str, pieces: list[Piece]) -> None:
    """Convert an unquoted stretch with its backslash escapes."""
    rest = text
    while rest:
        before, backslash, after = rest.partition("\\")
        if before:
            for position, part in enumerate(before.split("$")):
                if position:
                    pieces.append(Piece("$", "quoted"))
                if part:
                    pieces.append(Piece(part, "bare"))
        if backslash:
            pieces.append(Piece(after[:1], "quoted"))
        rest = after[1:]


def _ansi(text: str) -> str:
    result = ""
    escaped = False
    for char in text:
        if escaped and char not in _ANSI:
            raise UnclearError("a $'…' string with escapes", construct=True)
        if escaped:
            result += _ANSI[char]
        elif char != "\\":
            result += char
        escaped = char == "\\" and not escaped
    return result
