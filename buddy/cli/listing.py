"""`buddy models` and `buddy sessions`: lists for people, one line each."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from buddy.agent.counting import counted
from buddy.cli.arguments import Options
from buddy.cli.models import catalogue
from buddy.cli.place import find_place, read_settings
from buddy.cli.stores import session_store
from buddy.cli.telling import tell
from buddy.config.settings import ConfigError
from buddy.llm.catalog import ModelInfo
from buddy.safety.sanitise import one_line


def models(options: Options) -> int:
    """The catalogue, filtered by the words given."""
    words = [word.lower() for word in options.words]
    found = [info for info in catalogue().models.values() if all(word in info.id.lower() for word in words)]
    for info in found:
        sys.stdout.write(_model_line(info) + "\n")
    if not found:
        tell(f"buddy: no model has {' '.join(words)!r} in its name; buddy models lists all\n")
        return 1
    return 0


def _model_line(info: ModelInfo) -> str:
    prices = info.prices
    price = "" if prices.input is None else f"${prices.input:g} / ${prices.output:g} per M"
    able = " ".join(sorted(info.capabilities))
    return f"{info.id:<52} {info.context:>9,}  {price:<22} {able}".rstrip()


def sessions(options: Options, environment: Mapping[str, str]) -> int:
    """The sessions of this folder, newest first."""
    try:
        place = find_place(options, environment)
        store = session_store(place, read_settings(place, options).settings, tell)
    except ConfigError as error:
        tell(f"buddy: {error}\n")
        return 4
    found = store.list()
    for one in found:
        at = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.last_at))
        marks = one.marks()
        title = one_line(one.name or one.title or "", 60)
        tasks = counted(one.tasks, "task")
        sys.stdout.write(f"{one.session_id}  {at}  {tasks:<9} {title}{f'  ({marks})' if marks else ''}\n")
    if not found:
        tell(f"buddy: there are no sessions in {place.boundary.root}\n")
    return 0
