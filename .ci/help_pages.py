"""Write the generated parts of `templates/help`, and the man page, from the code: `python .ci/help_pages.py`.
With `--check`, only compare.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`; NAME is a key of `PARTS`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from buddy import __version__  # noqa: E402 - the checkout beside this file

PAGES = ROOT / "templates" / "help"
MAN_PAGE = ROOT / "templates" / "man" / "buddy.1"
_PART = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_SETTING = re.compile(r"(?:# )?(?P<name>[a-z_]+) = (?P<value>.*?)(?:\s+# (?P<about>.*))?")
_LONG = 48


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table whose columns stand below each other in the source too."""
    every = [header, *rows]
    last = len(header) - 1
    widths = [max(len(row[at]) for row in every) if at < last else len(header[at]) for at in range(last + 1)]
    lines = [
        "| " + " | ".join(f"{cell:<{widths[at]}}" for at, cell in enumerate(row)) + " |" for row in every
    ]
    return [lines[0], "| " + " | ".join("-" * max(width, 3) for width in widths) + " |", *lines[1:]]


def commands() -> list[str]:
    """Every slash command, by family, but those that only say what buddy lacks."""
    from buddy.repl.commands.help import help_tables
    from buddy.repl.commands.registry import builtin_commands

    lines: list[str] = []
    for one in help_tables(builtin_commands()):
        lines += [f"**{one.header[0]}**", "", *(f"- `{line}`: {about}" for line, about in one.rows), ""]
    return lines[:-1]


def keys() -> list[str]:
    """What `?` lists."""
    from buddy.repl.input.keys import KEY_HELP

    return table(("key", "does"), [(f"`{key}`", about) for key, about in KEY_HELP])


def options() -> list[str]:
    """What `buddy --help` prints."""
    from buddy.cli.command_help import usage_text

    return ["```", *usage_text().rstrip("\n").split("\n"), "```"]


def settings() -> list[str]:
    """Every setting of the example file with its default and its comment."""
    lines: list[str] = []
    is_wanted = False
    for line in (ROOT / "buddy.toml.example").read_text(encoding="utf-8").split("\n"):
        if line.lstrip("# ").startswith("["):
            section, _, about = line.partition("#") if line.startswith("[") else ("", "", "")
            is_wanted = bool(section) and not section.startswith("[models.")
            if is_wanted:
                title = f"**{section.strip()}**"
                lines += ["", f"{title} {about.strip()}".rstrip(), ""]
        elif is_wanted and (found := _SETTING.fullmatch(line)):
            value = found["value"] if len(found["value"]) < _LONG else "[…]"
            about = f": {found['about']}" if found["about"] else ""
            lines.append(f"- `{found['name']} = {value}`{about}")
    return lines[1:]


def exit_codes() -> list[str]:
    """The constants of `headless/exit_codes.py` with the strings below them."""
    return table(("code", "means"), _exit_code_rows())


def _exit_code_rows() -> list[tuple[str, str]]:
    tree = ast.parse((ROOT / "buddy" / "headless" / "exit_codes.py").read_text(encoding="utf-8"))
    rows: list[tuple[str, str]] = []
    for node, below in zip(tree.body, tree.body[1:], strict=False):
        match node, below:
            case ast.Assign(value=ast.Constant(value=int(code))), ast.Expr(
                value=ast.Constant(value=str(text))
            ):
                rows.append((str(code), text))
            case _:
                pass
    return rows


def tools() -> list[str]:
    """The built-in tools: risk and first sentence."""
    from buddy.tools.builtin import BUILTIN_TOOLS

    rows = [(f"`{one.name}`", one.risk, _sentence(one.description)) for one in BUILTIN_TOOLS]
    return table(("tool", "risk", "does"), rows)


def _sentence(text: str) -> str:
    """The words up to the first full stop, colon or semicolon outside of brackets."""
    return re.split(r"[.:;](?=\s|$)(?![^(]*\))", " ".join(text.split()), maxsplit=1)[0]


def modes() -> list[str]:
    """The table of decisions by mode."""
    from buddy.safety.policy.decide import COLUMN_WORDS, MODES, TABLE

    words = {"allow": "runs", "ask": "asks", "deny": "no"}
    rows = [
        (about, *(words[TABLE[mode, column]] for mode in MODES)) for column, about in COLUMN_WORDS.items()
    ]
    return table(("call", *MODES), rows)


def mode_names() -> list[str]:
    """The modes in words, with the names Claude gives them."""
    from buddy.safety.policy.decide import CLAUDE_NAMES, MODE_WORDS

    return table(
        ("mode", "Claude's name", "in words"),
        [(f"`{mode}`", f"`{CLAUDE_NAMES[mode]}`", about) for mode, about in MODE_WORDS.items()],
    )


PARTS: dict[str, Callable[[], list[str]]] = {
    "commands": commands,
    "keys": keys,
    "options": options,
    "settings": settings,
    "exit-codes": exit_codes,
    "tools": tools,
    "modes": modes,
    "mode-names": mode_names,
}


def filled(text: str) -> str:
    """A page with its generated parts as the code has them now."""
    return _PART.sub(lambda found: f"{found[1]}{chr(10).join(PARTS[found['name']]())}\n{found[3]}", text)


def man_page() -> str:
    """buddy(1) in the macros of man(7)."""
    from buddy.cli.arguments import COMMANDS, OPTIONS

    lines = [
        f'.TH BUDDY 1 "{MAN_DATE}" "buddy {__version__}" "User Commands"',
        *_man_section("NAME", [r"buddy \- a coding assistant for the terminal whose prompt never goes away"]),
        *_man_section("SYNOPSIS", [r".B buddy", r"[\fIOPTIONS\fR] [\fIPROMPT\fR]"]),
        *(f".br\n.B buddy {name}\n{_troff(row.words)}".rstrip() for name, row in COMMANDS.items()),
        *_man_section("DESCRIPTION", MAN_DESCRIPTION),
        *_man_section("COMMANDS", _man_rows((name, "", row.description) for name, row in COMMANDS.items())),
        *_man_section("OPTIONS", [_troff("Options before and after the command mean the same.")]),
    ]
    lines += _man_rows(
        (", ".join(names.split()), value, _limited(takers.split(), text))
        for names, value, takers, text in OPTIONS
        if text
    )
    lines += _man_section("EXIT STATUS", _man_rows((code, "", text) for code, text in _exit_code_rows()))
    lines += _man_section("ENVIRONMENT", _man_rows((name, "", text) for name, text in MAN_ENVIRONMENT))
    lines += _man_section("FILES", _man_rows((name, "", text) for name, text in MAN_FILES))
    lines += _man_section("SEE ALSO", [_troff("buddy help prints the list of topics of the manual.")])
    return "\n".join(lines) + "\n"


MAN_DATE = "2026-11-23"
MAN_DESCRIPTION = (
    "buddy opens a prompt in the terminal.",
    "What is typed becomes a task: a model is asked, the tools it calls are run",
    "after the approvals that the permission mode demands,",
    "and their results go back to it.",
    "Several tasks run at once while the prompt stays free.",
    ".PP",
    "buddy exec runs one prompt without a terminal and prints the answer on stdout.",
)
MAN_ENVIRONMENT = (
    ("OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, ...", "keys of the providers"),
    ("BUDDY_SECTION_KEY", "a setting of buddy.toml, such as BUDDY_DISPLAY_THEME=light"),
    ("NO_COLOR", "no colours, where it is not empty"),
    ("HTTPS_PROXY, ALL_PROXY, NO_PROXY", "the proxy for requests"),
    ("XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_STATE_HOME, XDG_CACHE_HOME", "where the folders below lie"),
)
MAN_FILES = (
    ("~/.config/buddy/buddy.toml", "settings of the person"),
    ("~/.local/share/buddy/credentials.json", "keys, readable by their owner alone"),
    ("buddy.toml", "settings of a project, read after trust"),
    (".buddyx/", "sessions, checkpoints, exports and plug-ins of a project"),
)


def _limited(takers: Sequence[str], text: str) -> str:
    """Name the commands an option is for, where these are neither the prompt nor exec."""
    return text if {"open", "exec"} & {*takers} else f"{', '.join(takers)}: {text}"


def _man_section(title: str, lines: Sequence[str]) -> list[str]:
    return [f".SH {title}", *lines]


def _man_rows(rows: Iterable[tuple[str, str, str]]) -> list[str]:
    lines: list[str] = []
    for names, value, text in rows:
        lines += [".TP", f".B {_troff(names)}" + (f" \\fI{_troff(value)}\\fR" if value else ""), _troff(text)]
    return lines


def _troff(text: str) -> str:
    """Escape what troff would read as a request."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped[:1] in (".", "'") else escaped


def main() -> int:
    """Write, or compare and name the pages that differ."""
    texts = {path: filled(path.read_text("utf-8")) for path in sorted(PAGES.glob("*.md"))}
    texts[MAN_PAGE] = man_page()
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        if "--check" in sys.argv:
            sys.stderr.write(
                f"{path.relative_to(ROOT)} differs from the code: run python .ci/help_pages.py\n"
            )
        else:
            path.write_text(texts[path], encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
