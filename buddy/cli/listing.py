"""`buddy models` and `buddy sessions`: lists for people, one line each."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping

from buddy.agent.counting import counted
from buddy.agent.provider import ProviderError
from buddy.cli.arguments import Options
from buddy.cli.model_server import ModelServer
from buddy.cli.models import Models, catalogue
from buddy.cli.place import find_place, read_settings
from buddy.cli.stores import session_store
from buddy.cli.tables import show
from buddy.cli.telling import tell
from buddy.config.settings import ConfigError
from buddy.llm.catalog import Catalogue, ModelInfo
from buddy.llm.local_servers import find_local_servers
from buddy.repl.blocks import TableBlock
from buddy.safety.sanitise import one_line
from buddy.sessions.listing import SessionSummary

PICKED = 15
"""Sessions that `buddy resume` offers."""
_SESSION_HEAD = ("session", "last", "tasks", "what")


def models(options: Options, environment: Mapping[str, str]) -> int:
    """The models of the configured servers and of those on this machine, then the catalogue; filtered by the
    words given."""
    words = [word.lower() for word in options.words]
    served = [one for one in _served(options, environment) if all(word in one[0].lower() for word in words)]
    found = [info for info in catalogue().models.values() if all(word in info.id.lower() for word in words)]
    sizes = [f"{context:,}" if context else "?" for _name, context, _url in served]
    rows = [(row[0], size, "", "", f"at {row[2]}") for row, size in zip(served, sizes, strict=True)]
    rows += [_model_row(info) for info in found]
    lines = [f"{row[0]:<52} {size:>9}  at {row[2]}" for row, size in zip(served, sizes, strict=True)]
    lines += map(_model_line, found)
    show(
        TableBlock(("model", "context", "in/M", "out/M", "can"), tuple(rows)),
        lines,
        options,
        environment,
        sys.stdout,
    )
    if not found and not served:
        asked = " ".join(words)
        near = _near(asked, catalogue())
        hint = f"did you mean {near}?" if near else "buddy models lists all"
        tell(f"buddy: no model has {asked!r} in its name; {hint}\n")
        return 1
    return 0


def _served(options: Options, environment: Mapping[str, str]) -> list[tuple[str, int, str]]:
    """Name for `-m`, context (0 where the server does not say) and address of each model that a server
    lists. A server that can't be asked is told on stderr."""
    try:
        place = find_place(options, environment)
        settings = read_settings(place, options).settings
    except ConfigError as error:
        tell(f"buddy: {error}\n")
        return []
    return asyncio.run(_ask_servers(Models(settings, place)))


async def _ask_servers(known: Models) -> list[tuple[str, int, str]]:
    try:
        servers = known.own_servers()
        local, *listed = await asyncio.gather(_on_this_machine(), *map(_list_of, servers))
    finally:
        await known.aclose()
    asked = {row[2].rstrip("/") for rows in listed for row in rows}
    return [row for rows in listed for row in rows] + [row for row in local if row[2] not in asked]


async def _list_of(server: ModelServer) -> list[tuple[str, int, str]]:
    try:
        return [(one.name, one.context, server.base_url) for one in await server.list()]
    except ProviderError as error:
        tell(f"buddy: the models of {server.base_url} are not listed: {error.message}\n")
        return []


async def _on_this_machine() -> list[tuple[str, int, str]]:
    found = await find_local_servers()
    return [(f"{one.provider}/{name}", 0, one.base_url) for one in found for name in one.models]


def _near(asked: str, known: Catalogue) -> str:
    """The word of a model's name, or the name, that looks most like the one asked for; "" for none."""
    import difflib  # here: 1 ms that only a misspelled name needs

    names = [info.id.lower() for info in known.models.values()]
    parts = {part for name in names for part in name.replace("/", "-").split("-")}
    return next(iter(difflib.get_close_matches(asked, [*sorted(parts), *names], 1)), "")


def _model_line(info: ModelInfo) -> str:
    prices = info.prices
    price = "" if prices.input is None else f"${prices.input:g} / ${prices.output:g} per M"
    able = " ".join(sorted(info.capabilities))
    return f"{info.id:<52} {info.context:>9,}  {price:<22} {able}".rstrip()


def _model_row(info: ModelInfo) -> tuple[str, str, str, str, str]:
    prices = info.prices
    able = " ".join(sorted(info.capabilities))
    return info.id, f"{info.context:,}", _dollars(prices.input), _dollars(prices.output), able


def _dollars(price: float | None) -> str:
    return "" if price is None else f"${price:g}"


def sessions(options: Options, environment: Mapping[str, str]) -> int:
    """The sessions of this folder: on a terminal the newest stands last, just above the prompt. Runs of exec
    and sessions without an answer are left out without `--all`."""
    try:
        place = find_place(options, environment)
        store = session_store(place, read_settings(place, options).settings, tell)
    except ConfigError as error:
        tell(f"buddy: {error}\n")
        return 4
    found = store.list()
    listed = found if options.all else tuple(one for one in found if one.matters())
    if options.json:
        sys.stdout.write(json.dumps([_session_object(one) for one in listed], indent=1) + "\n")
        return 0
    rows = tuple(map(_session_row, reversed(listed)))
    show(TableBlock(_SESSION_HEAD, rows), map(_session_line, listed), options, environment, sys.stdout)
    left_out = len(found) - len(listed)
    if left_out:
        them = "it" if left_out == 1 else "them"
        hidden = f"{counted(left_out, 'session')} hidden (from exec, or without an answer)"
        tell(f"{hidden}; --all shows {them}\n")
    elif not found:
        tell(f"buddy: there are no sessions in {place.boundary.root}\n")
    return 0


def pick_session(options: Options, environment: Mapping[str, str]) -> str:
    """Ask which session to resume, by its number; the newest where there is no choice. Raises
    `ConfigError`, `UsageError`."""
    place = find_place(options, environment)
    store = session_store(place, read_settings(place, options).settings, tell)
    listed = [one for one in store.list() if one.matters() and not one.foreign][:PICKED]
    if len(listed) < 2:
        return "last"
    newest_last = list(enumerate(listed, 1))[::-1]
    table = TableBlock(("", *_SESSION_HEAD), tuple((str(at), *_session_row(one)) for at, one in newest_last))
    lines = (f"{at:>3}  {_session_line(one)}" for at, one in newest_last)
    show(table, lines, options, environment, sys.stdout)
    while True:
        sys.stdout.write(f"Which one? 1 to {len(listed)}, Enter for 1: ")
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:  # Ctrl+D
            sys.stdout.write("\n")
            raise KeyboardInterrupt
        answer = line.strip() or "1"
        if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(listed):
            return listed[int(answer) - 1].session_id


def _session_row(one: SessionSummary) -> tuple[str, ...]:
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.last_at))
    marks = one.marks()
    title = one_line(one.name or one.title or "", 200)
    return (one.session_id, at, f"{one.tasks}", f"{title} ({marks})" if marks else title)


def _session_line(one: SessionSummary) -> str:
    session_id, at, _tasks, _title = _session_row(one)
    marks = one.marks()
    title = one_line(one.name or one.title or "", 60)
    tail = f"  ({marks})" if marks else ""
    return f"{session_id}  {at}  {counted(one.tasks, 'task'):<7}  {title}{tail}".rstrip()


def _session_object(one: SessionSummary) -> dict[str, object]:
    return {
        "session_id": one.session_id,
        "name": one.name,
        "title": one.title,
        "tasks": one.tasks,
        "created_at": one.created_at,
        "last_at": one.last_at,
        "size_bytes": one.size_bytes,
        "headless": one.headless,
        "answered": one.answered,
        "in_use": one.locked,
        "foreign": one.foreign,
    }
