"""The digest that an approval of an MCP server is bound to."""

from __future__ import annotations

import hashlib
import os

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.extend.mcp.definitions import VARIABLE, ServerDefinition
from buddy.safety.paths import hash_regular, is_beneath

MAX_SCRIPT_BYTES = 1_000_000_000
_BETWEEN_WORDS = pattern(r"""[\s=:,;'"]+""")


def definition_digest(definition: ServerDefinition, root: str) -> str:
    """Return the digest an approval is bound to: the definition as written, and the content of the files of
    the workspace that its command line names. Reads those files: call it in a thread."""
    plain = msgspec.to_builtins(definition)
    for key in ("source", "scope", "folder", "agent"):  # the name holds the agent's
        del plain[key]
    if not definition.oauth.document:
        del plain["oauth"]["document"]
    if not definition.required:  # approvals of before the key count on
        del plain["required"]
    parts = [msgspec.json.encode(plain, order="sorted")]
    parts += map(_script_digest, _scripts(definition, os.path.realpath(definition.folder or root)))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _scripts(definition: ServerDefinition, root: str) -> tuple[str, ...]:
    """Return the files of the workspace that a command line names: from its root or from `cwd`, as the
    default of a variable, as a part of a word, or in its environment."""
    folders = (root, os.path.join(root, os.path.expanduser(_put_defaults(definition.cwd))))
    named: dict[str, None] = {}
    for text in map(_put_defaults, (definition.command, *definition.args, *definition.env.values())):
        pieces = _BETWEEN_WORDS().split(text)  # of a shell's line, of NODE_OPTIONS, behind an option's "="
        glued = (piece[2:] for piece in pieces if piece.startswith("-"))  # -r./script
        named |= dict.fromkeys((text, text.partition("=")[2], *pieces, *glued))
    places = (os.path.join(folder, word) for word in named if word for folder in folders)
    paths = dict.fromkeys(os.path.realpath(place) for place in places if os.path.isfile(place))
    return tuple(path for path in paths if is_beneath(path, root))


def _put_defaults(text: str) -> str:
    """Return a text with the defaults of its variables in their place."""
    return VARIABLE().sub(lambda found: found[2] or "", text)


def _script_digest(path: str) -> bytes:
    try:
        status = os.stat(path)
        if (
            status.st_size > MAX_SCRIPT_BYTES
        ):  # too large to be read: nobody can choose the time of its change
            return f"{path} {status.st_ino} {status.st_size} {status.st_ctime_ns}".encode()
        return bytes.fromhex(hash_regular(path, MAX_SCRIPT_BYTES))
    except (OSError, ToolError) as error:
        return str(error).encode()
