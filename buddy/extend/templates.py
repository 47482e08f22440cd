"""Where `templates/` lies: beside the package in a checkout, an editable install and an sdist; inside it in a
wheel."""

from __future__ import annotations

import os


class TemplateMissingError(Exception):
    """The installation is incomplete."""


def template_path(name: str) -> str:
    """The path of a file of `templates/`. Raises `TemplateMissingError` naming both places it was looked
    for."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    beside = os.path.join(os.path.dirname(package), "templates", name)
    inside = os.path.join(package, "_templates", name)
    for path in (inside, beside):
        if os.path.exists(path):
            return path
    raise TemplateMissingError(f"{name} is missing from this installation: looked for {inside} and {beside}")


def template_text(name: str) -> str:
    """A template's text."""
    with open(template_path(name), encoding="utf-8") as file:
        return file.read()
