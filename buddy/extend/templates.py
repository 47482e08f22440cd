"""The place of `templates/`: beside the package in a checkout, an editable install and an sdist; inside it in
a wheel."""

from __future__ import annotations

import os


class TemplateMissingError(Exception):
    """The installation is incomplete."""


REFERENCE = "buddy.toml.example"
"""The reference of all settings: at the top of a checkout, among the templates of a wheel."""


def template_path(name: str) -> str:
    """The path of a file of `templates/`, or of the reference beside it. Raises `TemplateMissingError` naming
    the places it was looked for."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    beside = os.path.join(os.path.dirname(package), "templates", name)
    inside = os.path.join(package, "_templates", name)
    above = os.path.join(os.path.dirname(package), name)
    for path in (inside, beside, *([above] if name == REFERENCE else [])):
        if os.path.exists(path):
            return path
    raise TemplateMissingError(f"{name} is missing from this installation: looked for {inside} and {beside}")


async def read_template(name: str) -> str:
    """A template's text, for a coroutine."""
    import aiofiles  # here: a start reads none of them so

    async with aiofiles.open(template_path(name), encoding="utf-8") as file:
        return await file.read()


def template_text(name: str) -> str:
    """A template's text."""
    with open(template_path(name), encoding="utf-8") as file:
        return file.read()
