"""The system prompt: the template, the place, the person's and the project's instructions.

Its bytes stay the same for a whole session, because providers cache the prefix: no dates, no ids.
"""

from __future__ import annotations

from collections.abc import Mapping

from buddy.agent.pattern import pattern

_FIELD = pattern(r"\{\{ (\w+) \}\}")


def rendered(template: str, values: Mapping[str, str]) -> str:
    """A template of `templates/*.md` with its fields filled in. The syntax is jinja2's simplest; importing
    jinja2 itself would cost a one-shot run 40 ms for these few substitutions. Raises `KeyError` for an
    unknown field."""
    return _FIELD().sub(lambda match: values[match[1]], template)


def system_prompt(
    template: str, *, cwd: str, root: str, is_repository: bool, platform: str, person: str, instructions: str
) -> str:
    """The whole system prompt. `person` is what `[agent] system_prompt` adds."""
    text = rendered(
        template,
        {
            "cwd": cwd,
            "root": root,
            "repository": "" if is_repository else " (not a git repository)",
            "platform": platform,
            "person": f"\n# From the person\n\n{person.strip()}\n" if person.strip() else "",
            "instructions": f"\n{instructions}\n" if instructions else "",
        },
    )
    return text.strip() + "\n"
