"""Definitions of names, language by language: with a parser and without one."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, Awaitable
from pathlib import Path

import pytest

from buddy.agent.tool import ToolContext
from buddy.safety.paths import Boundary
from buddy.tools.definitions import find_definition
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.pool import ChildProcesses, ProcessSettings
from buddy.workspace.symbol_trees import GRAMMARS, MAX_FILE_BYTES, Trees
from buddy.workspace.symbols import defines

# Behind ⇒, which is cut off, stands what a line defines; other lines only use the name.
SOURCES: dict[str, tuple[str, str]] = {
    "decorated.py": (
        "load",
        "import load\nfrom load import load as x\n@wraps(load)\ndef load(path): ⇒function\n"
        "    return load(path)\n"
        "class Store:\n    @cached\n    async def load(self, load=None): ⇒method\n"
        "        load = self.load()\n"
        "    load = property(load) ⇒variable\nload: Loader = make() ⇒variable\nprint(load, {'load': 1})\n"
        "store.load = 3\n# def load():\n'''\ndef load(): pass\n'''\n",
    ),
    "several.py": (
        "LIMIT",
        "LIMIT, OTHER = 1, 2 ⇒variable\n(OTHER, LIMIT) = 1, 2 ⇒variable\nOTHER, x = LIMIT, 2\n"
        "x[LIMIT], y = 1, 2\ndef f():\n    LIMIT, OTHER = 1, 2\nclass A:\n    LIMIT, x = 1, 2 ⇒variable\n",
    ),
    "exports.js": (
        "exports",
        "exports.drop = () => 1;\nmodule.exports = function () {}; ⇒function\n"
        "module.exports.drop = () => 1;\n",
    ),
    "types.py": ("Name", "type Name = str ⇒type\nclass Name[T]: ⇒class\n    x: Name\nname = Name()\n"),
    "old.js": (
        "render",
        "function render(a) { ⇒function\n  return render(a - 1);\n}\n"
        "View.prototype.render = function () {}; ⇒function\n"
        "class View {\n  render() { ⇒method\n    const render = this.render;\n    render();\n  }\n"
        "  static async render(a) {} ⇒method\n}\nconst parts = { render: () => 1, other: 2 }; ⇒function\n"
        "export const render = async () => {}; ⇒function\nimport { render } from './render';\n"
        "let x = { render };\n",
    ),
    "top.js": (
        "LIMIT",
        "export const LIMIT = 3; ⇒variable\nif (x > LIMIT) { const LIMIT = 4; }\nvar y = LIMIT;\n",
    ),
    "types.ts": (
        "Shape",
        "export interface Shape { area(): number } ⇒interface\nexport type Shape = { x: Shape } ⇒type\n"
        "enum Shape { A } ⇒enum\nabstract class Shape {} ⇒class\nnamespace Shape {} ⇒namespace\n"
        "function f(s: Shape): Shape { return s }\ndeclare function Shape(): void ⇒function\n",
    ),
    "members.ts": (
        "area",
        "interface S { area(): number } ⇒method\nabstract class A {\n  abstract area(): number; ⇒method\n"
        "  private area = () => 1; ⇒function\n}\nx.area();\n",
    ),
    "view.tsx": (
        "Page",
        "export function Page() { ⇒function\n  return <Page title='x' />;\n}\nexport default Page;\n",
    ),
    "main.go": (
        "Serve",
        "package main\n\ntype Serve struct{} ⇒type\n\nfunc Serve(x int) error { ⇒function\n"
        "\treturn Serve(x)\n}\n\n"
        "func (s *Server) Serve() {} ⇒method\n\ntype I interface {\n\tServe() error ⇒method\n}\n\n"
        "const Serve = 1 ⇒constant\n"
        "var (\n\tServe = 2 ⇒variable\n)\n// func Serve() {}\n",
    ),
    "lib.rs": (
        "Parse",
        "pub struct Parse { x: u8 } ⇒struct\nenum Parse { A } ⇒enum\n"
        "pub trait Parse { fn go(&self); } ⇒trait\n"
        "type Parse = u8; ⇒type\nimpl Parse for Other {}\nimpl Parse { }\nmod Parse {} ⇒module\n"
        "enum Other { Parse(u8), No } ⇒enum member\nuse crate::Parse;\nlet x = Parse { x: 1 };\n"
        "macro_rules! Parse { () => {} } ⇒macro\n",
    ),
    "fns.rs": (
        "run",
        "pub async fn run<T>(x: T) -> T { ⇒function\n    run(x)\n}\ntrait R { fn run(&self); } ⇒function\n"
        "const run: u8 = 1; ⇒constant\nstatic mut run: u8 = 1; ⇒variable\n"
        "fn other(run: u8) { let run = run; }\n",
    ),
    "Main.java": (
        "Node",
        "public final class Node<T> { ⇒class\n  private Node<T> next;\n"
        "  Node(int x) { this.next = new Node(x); } ⇒constructor\n"
        "  Node<T> Node() { return null; } ⇒method\n  int Node = 1; ⇒field\n}\n"
        "interface Node {} ⇒interface\n"
        "record Node(int a) {} ⇒record\nenum Node { A } ⇒enum\nenum E { Node, B } ⇒enum member\n"
        "@interface Node {} ⇒annotation\n",
    ),
    "list.c": (
        "list",
        "struct list; \nstruct list { struct list *next; }; ⇒struct\ntypedef struct list list; ⇒type\n"
        "static struct list *list(int x); \nstatic struct list *list(int x) { ⇒function\n"
        "  return list(x);\n}\n"
        "#define list 3 ⇒macro\n#define list(x) (x) ⇒macro\nextern int list;\nint list = 3; ⇒variable\n"
        "enum { list, other }; ⇒enum member\nvoid f(struct list list) { int list = 1; }\n"
        "int (*list)(void); \ntypedef int (*list)(void); ⇒type\n",
    ),
    "list.cpp": (
        "List",
        "namespace List { ⇒namespace\ntemplate <class T> class List : public Base { ⇒class\n public:\n"
        "  List() {} ⇒function\n  void add(List other);\n};\n}\nList::List(int x) : a(x) {} ⇒function\n"
        "void List::add(List other) { List x; }\nusing List = std::vector<int>; ⇒type\n"
        "std::unique_ptr<List> make();\n",
    ),
    "out.cpp": (
        "add",
        "struct A { int add(int); };\nint A::add(int x) { return x; } ⇒function\n"
        "const std::string& ns::A::add() const { return add(1); } ⇒function\n",
    ),
    "shop.rb": (
        "total",
        "module Shop\n  class Cart\n    def total ⇒method\n      total = @items.sum\n      total\n    end\n"
        "    def self.total(x) = x ⇒method\n    attr_reader :total\n  end\nend\nputs cart.total\n",
    ),
    "const.rb": (
        "Cart",
        "class Shop::Cart < Cart ⇒class\nend\nCart = Struct.new(:a) ⇒constant\nmodule Cart ⇒module\n"
        "end\nCart.new\n",
    ),
    "question.rb": ("empty?", "def empty? ⇒method\n  items.empty?\nend\n"),
    "index.php": (
        "render",
        "<html><?php\nfunction render($x) { return render($x); } ⇒function\nclass A {\n"
        "  public static function render() { ⇒method\n    $this->render();\n  }\n"
        "  const render = 1; ⇒constant\n}\n"
        "$render = 3;\n",
    ),
    "config.php": (
        "TOP",
        "<?php\ndefine('TOP', 1); ⇒constant\ndefine(\"TOP\", 1); ⇒constant\ndefine('OTHER', 'TOP');\n"
        "defined('TOP');\necho 'TOP';\n",
    ),
    "types.php": (
        "Kind",
        "<?php\ninterface Kind {} ⇒interface\ntrait Kind {} ⇒trait\nenum Kind { case A; } ⇒enum\n"
        "final class Kind {} ⇒class\n"
        "new Kind();\n",
    ),
    "build.sh": (
        "build",
        "build() { ⇒function\n  echo build\n}\nfunction build { ⇒function\n  :\n}\nbuild=1\n"
        'build "$build"\n# build() {\n',
    ),
}


def expected(text: str) -> tuple[str, list[tuple[int, str]]]:
    """A source without its marks, and what it defines."""
    lines = text.split("\n")
    marks = [(at, line.partition("⇒")[2]) for at, line in enumerate(lines, 1) if "⇒" in line]
    return "\n".join(line.partition("⇒")[0].rstrip() for line in lines), marks


@pytest.mark.parametrize("file", sorted(SOURCES))
def test_a_parser_tells_definitions_from_uses(file: str) -> None:
    name, text = SOURCES[file]
    source, marks = expected(text)

    found = Trees().definitions(file.rpartition(".")[2], source.encode(), name)

    assert found is not None
    assert sorted({(one.line, one.kind) for one in found}) == marks


def test_every_grammar_is_installed_here_and_nobody_has_one_for_prose() -> None:
    trees = Trees()
    assert [end for end in GRAMMARS if trees.definitions(end, b"", "x") is None] == []
    assert trees.definitions("md", b"", "x") is None
    assert trees.definitions("py", b"#" * (MAX_FILE_BYTES + 1), "x") is None


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("static inline int *load(struct cart *c, int n) { return c->n; }", True),
        ("int load(void) { int n = 1; return n; }", True),
        ("    std::string load(int n) const { return name; }", True),
        ("int load(int n);", False),
        ("    return load(n);", False),
        ("    total = load(n); {", False),
        ("    if (load(n)) { x = 1; }", False),
        ("    int total = load(n);", False),
    ],
)
def test_without_a_parser_a_function_on_one_line_is_one(line: str, is_one: bool) -> None:
    assert defines("a.cpp", line, "load") is is_one


@pytest.mark.parametrize("between", ["*", "&", "* ", "*&", "a* ", "[]*"])
def test_a_line_full_of_stars_is_looked_at_once(between: str) -> None:
    """With two ways to take each of the signs such a line would never be done."""
    many = between * 120
    assert not defines("a.c", f" {many} load of the cart", "load")
    assert not defines("a.c", f"int {many} load of the cart", "load")
    assert defines("a.c", f"int {many} load(void) {{", "load")


def test_without_a_parser_a_java_method_on_one_line_is_one() -> None:
    assert defines("A.java", "    public int load() { return n; }", "load")
    assert defines("A.java", "    public <R> List<R> load(int n) throws E { return x; }", "load")
    assert not defines("A.java", "    int n = load(x);", "load")
    assert not defines("A.java", "    abstract int load(int n);", "load")


@pytest.mark.parametrize(
    "source", [b"def load(:\n  ((((", b"\xff\xfe\x00", b"class load\0:", "def löad(): 1".encode()]
)
def test_broken_files_break_nothing(source: bytes) -> None:
    assert Trees().definitions("py", source, "löad") is not None


@pytest.fixture
async def context(tmp_path: Path) -> AsyncGenerator[ToolContext]:
    root = tmp_path.resolve() / "work"
    root.mkdir()
    environment = ChildEnvironment({"PATH": os.environ["PATH"]}, "s")
    async with ChildProcesses(environment, ProcessSettings(str(tmp_path / "out"))) as children:
        services: dict[type, object] = {
            Boundary: Boundary(str(root), str(root), "/nonexistent-home"),
            Approved: Approved(),
            ChildProcesses: children,
        }
        yield ToolContext(1, "c", lambda _text: None, asyncio.Event(), services)


async def asked(context: ToolContext, name: str) -> list[str]:
    result = await find_definition.run(context, find_definition.decode(json.dumps({"name": name})))
    return result.text.splitlines()


async def test_the_answer_names_what_it_is_and_who_said_so(context: ToolContext) -> None:
    root = Path(context.service(Boundary).root)
    (root / "a.py").write_text("class A:\n    def load(self): ...\n\nA().load()\n")
    (root / "a.swift").write_text("func load() {}\nload()\n")
    (root / "big.py").write_text("def load(): ...\n" + "#" * MAX_FILE_BYTES)

    found = await asked(context, "A.load")

    assert found[0] == "a.py:2: def load(self): ...  (method)"
    assert [line.split(": ")[0] for line in found[1:3]] == ["a.swift:1", "big.py:1"]
    assert found[-1].startswith("[3 definitions of load, found by tree-sitter and ")


async def test_a_file_that_only_uses_the_name_is_not_guessed_at(context: ToolContext) -> None:
    root = Path(context.service(Boundary).root)
    (root / "a.py").write_text("'''\ndef load(): in a docstring\n'''\nload()\n")

    assert (await asked(context, "load"))[0].startswith(
        "no definition of load found in .; 2 lines in 1 source"
    )


@pytest.mark.parametrize(
    "grammar",
    [("no_such_grammar", "language"), ("tree_sitter_python", "of_another_time"), ("", "")],
    ids=["not installed", "of another time", "nobody has one"],
)
def test_a_grammar_that_cannot_be_used_says_nothing_about_a_file(grammar: tuple[str, str]) -> None:
    assert Trees({"py": grammar}).definitions("py", b"def load(): ...", "load") is None


async def test_the_loop_goes_on_while_lines_are_looked_at(context: ToolContext) -> None:
    line = f"int {'* ' * 60}load of the cart"
    Path(context.service(Boundary).root, "a.swift").write_text(f"{line}\n" * 3_000)
    await asked(context, "load")  # what is imported late is no part of it

    begun = time.thread_time()
    assert not any(defines("a.swift", line, "load") for _ in range(3_000))
    alone_s = time.thread_time() - begun
    watched = asyncio.ensure_future(_longest_stretch_s(asked(context, "load")))

    assert await watched < alone_s / 2


async def _longest_stretch_s(work: Awaitable[object]) -> float:
    """Of this thread's own time, between two looks while something else is done."""
    running = asyncio.ensure_future(work)
    longest = 0.0
    while not running.done():
        begun = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - begun)
    return longest
