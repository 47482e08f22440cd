"""pyproject names what buddy imports, nothing else, and why."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PROJECT = tomllib.loads(TEXT)["project"]
NOT_OURS_TO_IMPORT: set[str] = set()
"""Packages that only others import."""


def _named(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=;~! ]", one, maxsplit=1)[0].lower().replace("_", "-") for one in requirements}


def _imported() -> set[str]:
    """The distributions of the modules that buddy imports; those it names to `import_module` too."""
    modules: set[str] = set()
    for path in (ROOT / "buddy").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import():
                    modules |= {one.name for one in node.names}
                case ast.ImportFrom(module=str(name)):
                    modules.add(name)
                case ast.Call(args=[ast.Constant(value=str(name)), *_]):
                    modules |= {name} if "import" in ast.unparse(node.func) else set()
                case _:
                    pass
    installed = packages_distributions()
    top = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names) - {"buddy"}
    return {one.lower().replace("_", "-") for name in top for one in installed.get(name, [])[:1]}


def test_every_dependency_is_imported_and_every_import_is_named() -> None:
    extras = _named([one for some in PROJECT["optional-dependencies"].values() for one in some])
    named = _named(PROJECT["dependencies"])
    assert named - _imported() == NOT_OURS_TO_IMPORT
    assert _imported() - named - extras == set()


def test_every_dependency_has_its_reason() -> None:
    block = TEXT.split("\ndependencies = [\n", 1)[1].split("\n]\n", 1)[0].split("\n")
    lines = [
        line for at, line in enumerate(block) if "  #" not in line and not block[at - 1].startswith("  #")
    ]
    assert [line for line in lines if not line.startswith("  #")] == []
