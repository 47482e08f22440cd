"""Write the module map of buddy/README.md from the docstrings: `python .ci/module_map.py` (`--check` only
compares)."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- module map: made by .ci/module_map.py -->\n", "<!-- end of the module map -->"
ORDER = [
    "agent",
    "safety",
    "llm",
    "workspace",
    "sessions",
    "config",
    "tools",
    "extend",
    "tasks",
    "headless",
    "repl",
    "cli",
]


def sentence(path: Path) -> str:
    """The first sentence of a module's docstring."""
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first = " ".join(doc.split("\n\n")[0].split())
    return re.split(r"(?<!\.)\. ", first)[0].rstrip(".")  # an ellipsis ends no sentence


def rows(folder: Path) -> list[str]:
    """The modules of a room, one line each."""
    found = [path for path in sorted(folder.rglob("*.py")) if path.name != "__init__.py"]
    return [f"{path.relative_to(ROOT / 'buddy')!s:<34} {sentence(path)}" for path in found]


def module_map() -> str:
    """The whole map as Markdown."""
    lines = ["```"]
    tops = [path for path in sorted((ROOT / "buddy").glob("*.py")) if path.stem != "__init__"]
    lines += [f"{path.name:<34} {sentence(path)}" for path in tops]
    for room in ORDER:
        lines += [
            "",
            f"{room}/ — {sentence(ROOT / 'buddy' / room / '__init__.py')}",
            *rows(ROOT / "buddy" / room),
        ]
    return "\n".join([*lines, "```", ""])


def main() -> int:
    """Write or compare."""
    path = ROOT / "buddy" / "README.md"
    text = path.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    tail = rest[rest.index(END) :]
    wanted = head + BEGIN + module_map() + tail
    if "--check" in sys.argv:
        return 0 if wanted == text else 1
    path.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
