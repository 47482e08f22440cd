"""Regular expressions over one line that recognise definitions, language by language."""

from __future__ import annotations

import re

from buddy.agent.lazy_regex import pattern

_C_NAME = r"[\w:<>,~*&\[\]][\s\w:<>,~*&\[\]]*[\s*&](?:\w+::)*{name}\s*\((?:[^;]*|[^;{{]*\)[^;(){{]*\{{.*)$"
_JAVA_LIKE = r"(?:[\w<>\[\],.?]+\s+)+{name}\s*\((?:[^;=]*|[^;={{]*\)[^;=(){{]*\{{.*)$"
_TYPE = r"\b(?:class|interface|struct|enum|union|trait|record|protocol|object|module|namespace)\s+{name}\b"

_PYTHON = (
    r"^\s*(?:async\s+)?def\s+{name}\b",
    r"^\s*class\s+{name}\b",
    r"^{name}\s*(?::[^=]+)?=[^=]",
    r"^type\s+{name}\b",
)
_SCRIPT = (
    r"\bfunction\s*\*?\s*{name}\b",
    r"\b(?:class|interface|enum|namespace|module)\s+{name}\b",
    r"\btype\s+{name}\b[^=]*=",
    r"^\s*(?:export\s+)?(?:declare\s+)?(?:const|let|var)\s+{name}\b",
    r"^\s*(?:(?:public|private|protected|static|async|readonly|override|abstract|get|set)\s+|\*\s*|#)*{name}\s*(?:<[^>]*>)?\([^;]*\{{\s*$",
    r"^\s*(?:static\s+)?{name}\s*[:=]\s*(?:async\s*)?(?:function\b|\([^)]*\)\s*=>|\w+\s*=>)",
)
_GO = (
    r"^func\s+(?:\([^)]*\)\s*)?{name}\b",
    r"^\s*(?:type\s+)?{name}\s+(?:struct|interface|func)\b",
    r"^type\s+{name}\b",
    r"^(?:var|const)\s+{name}\b",
)
_RUST = (
    r"\bfn\s+{name}\b",
    r"\b(?:struct|enum|trait|union|type|mod)\s+{name}\b",
    r"\b(?:const|static)\s+(?:mut\s+)?{name}\s*:",
    r"\bmacro_rules!\s+{name}\b",
)
_JAVA = (_TYPE, rf"^\s*{_JAVA_LIKE}")
_C = (
    _TYPE,
    rf"^{_C_NAME}",
    r"^\s*#\s*define\s+{name}\b",
    r"^\s*typedef\b.*\b{name}\s*;",
    r"^\}}\s*{name}\s*;",
    r"\busing\s+{name}\s*=",
    rf"^\s+{_C_NAME}",
)
_RUBY = (
    r"^\s*def\s+(?:self\.|\w+\.)?{name}(?![\w])",
    r"^\s*(?:class|module)\s+(?:\w+::)*{name}\b",
    r"^\s*{name}\s*=[^=~]",
)
_PHP = (r"\bfunction\s+&?{name}\b", _TYPE, r"\bconst\s+{name}\s*=", r"define\s*\(\s*['\"]{name}['\"]")
_SHELL = (r"^\s*(?:function\s+)?{name}\s*\(\s*\)", r"^\s*function\s+{name}\b")
_KOTLIN = (
    r"\bfun\s+(?:<[^>]*>\s*)?(?:[\w<>?]+\.)?{name}\b",
    _TYPE,
    r"\btypealias\s+{name}\b",
    r"^\s*(?:(?:private|const|lateinit|override|public|internal)\s+)*va[lr]\s+{name}\b",
)
_SWIFT = (
    r"\bfunc\s+{name}\b",
    _TYPE,
    r"\b(?:actor|typealias|extension)\s+{name}\b",
    r"^\s*(?:(?:public|private|static)\s+)*(?:let|var)\s+{name}\b",
)

BY_EXTENSION: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("py", "pyi", "pyx"), _PYTHON),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "vue", "svelte"), _SCRIPT),
    "go": _GO,
    "rs": _RUST,
    **dict.fromkeys(("java", "cs"), _JAVA),
    **dict.fromkeys(("c", "h", "cc", "cpp", "cxx", "hpp", "hh", "hxx", "m", "mm"), _C),
    **dict.fromkeys(("rb", "rake"), _RUBY),
    "php": _PHP,
    **dict.fromkeys(("sh", "bash", "zsh", "ksh"), _SHELL),
    **dict.fromkeys(("kt", "kts"), _KOTLIN),
    "swift": _SWIFT,
}
"""By a file name's end."""

_NOT_A_DEFINITION = pattern(
    r"^\s*(?:return|throw|await|yield|else|new|delete|case|goto|if|while|for|switch)\b"
)


def extension_of(path: str) -> str:
    """Return a file name's end, lower case, without the dot."""
    return path.rpartition("/")[2].rpartition(".")[2].lower()


def defines(path: str, line: str, name: str) -> bool:
    """Tell whether a line of a file looks like the definition of a name."""
    if _NOT_A_DEFINITION().match(line):
        return False
    templates = BY_EXTENSION.get(extension_of(path), ())
    return any(re.search(template.format(name=re.escape(name)), line[:400]) for template in templates)
