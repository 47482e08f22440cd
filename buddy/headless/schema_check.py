"""The check of one value by a JSON Schema, as a program of its own: a slow pattern is ended with it, and its
references are looked up nowhere.

Reads `{"schema": …, "value": …}` on stdin and writes `{"problem": …}`, "" for none. Imports nothing of buddy.
"""

from __future__ import annotations

import json
import sys
from typing import Any

MAX_PROBLEM_CHARS = 600


def find_problem(schema: dict[str, Any], value: Any) -> str:
    """Return the first way in which a value does not match, "" for none."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY  # pyright: ignore[reportMissingTypeStubs] - it has none

    # This registry has the drafts and no way to fetch: the default one would request any address.
    validator = validator_for(schema, default=Draft202012Validator)(schema, registry=REGISTRY)
    try:
        error = next(iter(validator.iter_errors(value)), None)
    # An unresolvable reference shows only when a value reaches it.
    except Exception as failure:  # noqa: BLE001 - the library raises those of another package
        return f"the schema can't be applied: {str(failure)[:MAX_PROBLEM_CHARS]}"
    if error is None:
        return ""
    place = "/".join(map(str, error.absolute_path)) or "the whole value"
    return f"{place}: {error.message[:MAX_PROBLEM_CHARS]}"


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    json.dump({"problem": find_problem(request["schema"], request["value"])}, sys.stdout)


if __name__ == "__main__":
    main()
