"""Definitions by tree-sitter: whether an occurrence of a name is where something of that name is defined.

Imported late and in a worker thread: the parser and its grammars take 20 ms to load. Grammars are packages of
their own (the extra `code`); where one is missing, or its files are too large, nothing is said about them.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tree_sitter import Language, Node, Parser

MAX_FILE_BYTES = 100_000
"""Parsing is not interrupted: 30 ms for such a file."""

GRAMMARS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("py", "pyi"), ("tree_sitter_python", "language")),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs"), ("tree_sitter_javascript", "language")),
    **dict.fromkeys(("ts", "mts", "cts"), ("tree_sitter_typescript", "language_typescript")),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "rs": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    "c": ("tree_sitter_c", "language"),
    **dict.fromkeys(("h", "cc", "cpp", "cxx", "hpp", "hh", "hxx"), ("tree_sitter_cpp", "language")),
    **dict.fromkeys(("rb", "rake"), ("tree_sitter_ruby", "language")),
    "php": ("tree_sitter_php", "language_php"),
    **dict.fromkeys(("sh", "bash"), ("tree_sitter_bash", "language")),
}
"""By a file name's end: the package of its grammar and the function that gives it."""

NAMED: Mapping[str, str] = {
    # Python, Bash
    "function_definition": "function",
    "class_definition": "class",
    # JavaScript, TypeScript
    "function_declaration": "function",
    "generator_function_declaration": "function",
    "function_signature": "function",
    "class_declaration": "class",
    "abstract_class_declaration": "class",
    "method_definition": "method",
    "method_signature": "method",
    "abstract_method_signature": "method",
    "interface_declaration": "interface",
    "type_alias_declaration": "type",
    "enum_declaration": "enum",
    "internal_module": "namespace",
    # Go
    "method_declaration": "method",
    "method_elem": "method",
    "type_spec": "type",
    "type_alias": "type",
    # Rust
    "function_item": "function",
    "function_signature_item": "function",
    "struct_item": "struct",
    "union_item": "union",
    "enum_item": "enum",
    "enum_variant": "enum member",
    "trait_item": "trait",
    "type_item": "type",
    "associated_type": "type",
    "mod_item": "module",
    "const_item": "constant",
    "static_item": "variable",
    "macro_definition": "macro",
    # Java
    "record_declaration": "record",
    "annotation_type_declaration": "annotation",
    "constructor_declaration": "constructor",
    "enum_constant": "enum member",
    # C and C++
    "preproc_def": "macro",
    "preproc_function_def": "macro",
    "enumerator": "enum member",
    "namespace_definition": "namespace",
    "alias_declaration": "type",
    "concept_definition": "concept",
    # Ruby
    "method": "method",
    "singleton_method": "method",
    "class": "class",
    "module": "module",
    # PHP
    "trait_declaration": "trait",
    "enum_case": "enum member",
}
"""Nodes that define what their field `name` says, in every language."""

WITH_BODY: Mapping[str, str] = {
    "struct_specifier": "struct",
    "union_specifier": "union",
    "enum_specifier": "enum",
    "class_specifier": "class",
}
"""The same, but without a body they only mention the name."""

AT_TOP: Mapping[str, str] = {"const_spec": "constant", "var_spec": "variable", "const_element": "constant"}
WRAPPED = ("scope_resolution", "qualified_identifier", "template_function", "type")
DECLARATORS = ("pointer_declarator", "function_declarator", "array_declarator", "parenthesized_declarator")
BRACKETS = ("parenthesized_declarator", "reference_declarator")
"""Declarators whose inner one has no field of its own."""
SEVERAL = ("pattern_list", "tuple_pattern")
CALLABLE = ("function_expression", "arrow_function", "function", "class", "generator_function")
TOP = (
    "module",
    "program",
    "translation_unit",
    "source_file",
    "declaration_list",
    "export_statement",
    "block",
)


class Defined(NamedTuple):
    """A definition in a text: line number from 1 and what it is."""

    line: int
    kind: str


class Trees:
    """Parsers, made when first asked for."""

    def __init__(self, grammars: Mapping[str, tuple[str, str]] = GRAMMARS) -> None:
        self._grammars = grammars
        self._parsers: dict[str, Parser | None] = {}

    def definitions(self, extension: str, source: bytes, name: str) -> list[Defined] | None:
        """Find the places where a source text defines a name; None when this kind of file cannot be
        parsed."""
        if extension not in self._parsers:
            self._parsers[extension] = _load_parser(*self._grammars.get(extension, ("", "")))
        parser = self._parsers[extension]
        if parser is None or len(source) > MAX_FILE_BYTES:
            return None
        root = parser.parse(source).root_node
        word = re.compile(rb"(?<![\w$])" + re.escape(name.encode()) + rb"(?![\w$])")
        found: list[Defined] = []
        for match in word.finditer(source):
            leaf = root.descendant_for_byte_range(match.start(), match.end())
            kind = _kind(leaf) if leaf is not None else ""
            if leaf is not None and kind:
                found.append(Defined(leaf.start_point[0] + 1, kind))
        return found


def _load_parser(module: str, function: str) -> Parser | None:
    try:
        language: Callable[[], object] = getattr(importlib.import_module(module), function)
        return Parser(Language(language()))
    except (ImportError, AttributeError, ValueError):
        return None  # the grammar is not installed, or of another time than the parser; or nobody has one


def _kind(leaf: Node) -> str:
    """Return the kind of definition a name node belongs to; "" when it only uses the name."""
    node = leaf
    while node.parent is not None and node.parent.type in WRAPPED and _is_last(node, node.parent):
        node = node.parent
    parent = node.parent
    if parent is None:
        return ""
    if parent.child_by_field_name("name") == node:
        kind = NAMED.get(parent.type) or AT_TOP.get(parent.type)
        if kind:
            return "method" if kind == "function" and _is_member(parent) else kind
        if parent.type in WITH_BODY and parent.child_by_field_name("body") is not None:
            return WITH_BODY[parent.type]
        if parent.type == "variable_declarator":
            return _variable(parent)
    if parent.type == "const_element":
        return "constant"
    return _assignment_kind(node, parent) or _declarator_kind(node, parent) or _php_define(leaf, parent)


def _php_define(leaf: Node, text: Node) -> str:
    """`define('NAME', 1)` of PHP: its first argument."""
    argument = text.parent
    arguments = argument.parent if argument is not None else None
    call = arguments.parent if arguments is not None else None
    if leaf.type != "string_content" or arguments is None or call is None:
        return ""
    function = call.child_by_field_name("function")
    is_define = function is not None and function.text == b"define"
    return "constant" if is_define and arguments.named_child(0) == argument else ""


def _is_last(node: Node, parent: Node) -> bool:
    return parent.child_by_field_name("name") == node or parent.type == "type"


def _is_member(node: Node) -> bool:
    """Tell whether a function is a method of a class (Python's grammar has one node type for both)."""
    block = node.parent.parent if node.parent and node.parent.type == "decorated_definition" else node.parent
    return block is not None and block.parent is not None and block.parent.type == "class_definition"


def _variable(declarator: Node) -> str:
    """Return a variable of a module, or one that holds a function; a field of a Java class."""
    declaration = declarator.parent
    value = declarator.child_by_field_name("value")
    if declaration is not None and declaration.type == "field_declaration":
        return "field"
    if value is not None and value.type in CALLABLE:
        return "function"
    outside = declaration.parent if declaration is not None else None
    return "variable" if outside is not None and outside.type in ("program", "export_statement") else ""


def _assignment_kind(node: Node, parent: Node) -> str:
    """Return the kind of thing an assignment defines: a constant of a module or class, or a function; "" for
    none."""
    if parent.type == "member_expression" and parent.child_by_field_name("object") == node:
        return ""
    if parent.type in ("member_expression", *SEVERAL) and parent.parent is not None:
        node, parent = parent, parent.parent
    left = next(
        (
            found
            for field in ("left", "key", "property", "name")
            if (found := parent.child_by_field_name(field))
        ),
        None,
    )
    if left != node:
        return ""
    value = parent.child_by_field_name("right") or parent.child_by_field_name("value")
    if parent.type in ("assignment_expression", "pair", "field_definition", "public_field_definition"):
        return "function" if value is not None and value.type in CALLABLE else ""
    if parent.type == "type_alias_statement":
        return "type"
    if parent.type == "assignment":  # Python and Ruby
        around = parent.parent
        if node.type == "constant":
            return "constant"
        if around is not None and around.type == "expression_statement" and around.parent is not None:
            block = around.parent
            in_class = block.parent is not None and block.parent.type == "class_definition"
            return "variable" if block.type == "module" or in_class else ""
    return ""


def _declarator_kind(node: Node, parent: Node) -> str:
    """Return the kind of thing a C or C++ declarator defines; "" when it does not define the name."""
    is_function = False
    while parent.type in DECLARATORS or parent.type in ("init_declarator", "reference_declarator"):
        if parent.child_by_field_name("declarator") != node and parent.type not in BRACKETS:
            return ""
        is_function = is_function or parent.type == "function_declarator"
        if parent.parent is None:
            return ""
        node, parent = parent, parent.parent
    if node not in parent.children_by_field_name("declarator"):
        return ""
    if parent.type == "function_definition":
        return "function"
    if parent.type == "type_definition":
        return "type"
    outside = parent.parent
    if parent.type == "declaration" and outside is not None and outside.type in TOP and not is_function:
        extern = any(
            child.type == "storage_class_specifier" and child.text == b"extern" for child in parent.children
        )
        return "" if extern else "variable"
    return ""
