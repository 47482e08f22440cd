"""Completion of `/commands` and their arguments, `@files`, `@3` tasks and paths after `!`."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import TypeVar

import msgspec
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from buddy.extend.mentions import read_mention, write_mention
from buddy.repl.commands.registry import CommandError, Commands, Kind
from buddy.repl.commands.rewind import prompt_text, prompts_of
from buddy.repl.context import Context
from buddy.repl.early import is_current
from buddy.safety.sanitise import one_line, visible
from buddy.workspace.files.name_index import SHOWN, in_folder, typable

T = TypeVar("T")
META_CHARS = 300
"""Of a description; the menu cuts it to the width there is."""
_MENTION = re.compile(r"(?:^|(?<=\s))@(?P<path>(?:\\.|[^\s@])?(?:\\.|\S)*)$")
_ADDRESS = re.compile(r"@(?P<number>\d*)")
_COMMAND = re.compile(r"/(?P<name>[\w?:.-]*)")
_ARGUMENTS = re.compile(r"/(?P<name>[\w?-]+)\s+(?P<rest>[^\n]*)")
_OUTSIDE = ("/", "~", "../", "./")


class Offer(msgspec.Struct, frozen=True):
    """Something that can be put in the place of what was typed: the text, what is said about it."""

    text: str
    about: str = ""
    shown: str = ""


class SessionCompleter(Completer):
    """Completes where something is completable. `find` gives the files that fit a few letters, None when it
    has to be asked again; it is called in a thread. `cwd`: the folder that paths start from now."""

    def __init__(
        self,
        commands: Commands,
        context: Context,
        cwd: Callable[[], str],
        find: Callable[[str], Sequence[str] | None],
    ) -> None:
        self._commands = commands
        self._context = context
        self._cwd = cwd
        self._find = find
        self._looking = asyncio.Lock()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return nothing: `get_completions_async` offers everything."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield the completions for the text before the cursor."""
        context = self._context
        typed, offers = await self._offers(context, document, asked=complete_event.completion_requested)
        for offer in offers:
            yield Completion(
                offer.text,
                start_position=-len(typed),
                display=one_line(offer.shown or offer.text, META_CHARS),
                display_meta=one_line(offer.about, META_CHARS),
            )

    async def _offers(
        self, context: Context, document: Document, *, asked: bool
    ) -> tuple[str, Sequence[Offer]]:
        """Return the end of the text that is completed, and what it can become."""
        before, after = document.text_before_cursor, document.text_after_cursor
        line = before.lstrip()
        if found := _COMMAND.fullmatch(line):
            name = found["name"]
            offers = [*command_offers(self._commands, name), *definition_offers(context, name)]
            return line, [*offers, *server_prompt_offers(context, name)]
        if found := _ARGUMENTS.fullmatch(line):
            return await self._argument(context, found["name"], found["rest"])
        if found := _MENTION.search(before):
            path = found["path"]
            tasks = task_offers(context, path, "@") if _ADDRESS.fullmatch(line) and not after else []
            resources = resource_offers(context, path)
            return found[0], [*tasks, *resources, *await self._mentions(path, document)]
        if line.startswith("!") and asked:
            word = re.split(r"(?<!\\)[\s;|&<>()=]", line.lstrip("!"))[-1]
            paths = await self._look_up(lambda: in_folder(self._cwd(), word.replace("\\ ", " ")))
            return word, [Offer(_shell_word(path), shown=path) for path in paths if typable(path)]
        return "", ()

    async def _argument(self, context: Context, name: str, rest: str) -> tuple[str, Sequence[Offer]]:
        try:
            command = self._commands.find(name)
        except CommandError:
            return "", ()
        words = rest.split(" ")
        typed = words[-1]
        if command.choices and len(words) == 1:
            return typed, [Offer(choice) for choice in command.choices if choice.startswith(typed)]
        named_at = 2 if command.choices else 1
        if len(words) == named_at + 1 and command.then:
            return typed, [Offer(word) for word in command.then if word.startswith(typed)]
        if len(words) != named_at and command.completes != ("path",):
            return "", ()
        offers = [offer for kind in command.completes for offer in await self._of_kind(context, kind, typed)]
        by_text: dict[str, Offer] = {}
        for offer in offers:  # a topic and a command may have one name
            by_text.setdefault(offer.text, offer)
        return typed, tuple(by_text.values())

    async def _of_kind(self, context: Context, kind: Kind, typed: str) -> Sequence[Offer]:
        match kind:
            case "task":
                return task_offers(context, typed.removeprefix("@"), "@" if typed.startswith("@") else "")
            case "request":
                waiting = context.board.inbox.waiting()
                rows = [
                    Offer(str(one.number), f"task {one.task_id}: {one.event.call.name}") for one in waiting
                ]
                return [row for row in (*rows, Offer("all", "all that wait")) if row.text.startswith(typed)]
            case "question":
                return question_offers(context, typed)
            case "variant":
                return variant_offers(context, typed)
            case "prompt":
                return prompt_offers(context, typed)
            case "command":
                return command_offers(self._commands, typed, sign="")
            case "topic":
                return await self._look_up(lambda: topic_offers(typed))
            case "path":
                paths = await self._look_up(lambda: in_folder(self._cwd(), typed))
                return [Offer(path) for path in paths if typable(path)]
            case "session":
                return await self._look_up(lambda: session_offers(context, typed))
            case "model":
                return await self._look_up(lambda: model_offers(context, typed))

    async def _mentions(self, path: str, document: Document) -> list[Offer]:
        wanted = read_mention(path)
        if wanted.startswith(_OUTSIDE):
            found = await self._look_up(lambda: in_folder(self._cwd(), wanted))
        else:
            found = await self._look_up(lambda: self._find(wanted))
            while found is None and is_current(document):
                found = await self._look_up(lambda: self._find(wanted))
        return [Offer("@" + write_mention(name), shown=visible(name)) for name in found or ()]

    async def _look_up(self, look: Callable[[], T]) -> T:
        async with self._looking:
            return await asyncio.to_thread(look)


def definition_offers(context: Context, beginning: str) -> list[Offer]:
    """Return the skills and command files whose names begin so, as the last look found them."""
    catalogue = context.session.extensions.catalogue
    wanted = beginning.lower()
    found = {
        definition.name: definition
        for definition in catalogue.definitions
        if definition.kind != "agent" and definition.for_user
    }
    return [
        Offer(f"/{name}", one.description)
        for name, one in sorted(found.items())
        if name.lower().startswith(wanted) and catalogue.invocable(name) is not None
    ]


def server_prompt_offers(context: Context, beginning: str) -> list[Offer]:
    """Return the prompts of MCP servers whose names begin so."""
    servers = context.session.mcp
    commands = servers.prompt_commands() if servers is not None else ()
    wanted = beginning.lower()
    return [Offer(f"/{name}", about) for name, about in commands if name.lower().startswith(wanted)]


def resource_offers(context: Context, typed: str) -> list[Offer]:
    """Return the resources of MCP servers that hold what was typed, once their server is named."""
    servers = context.session.mcp
    if servers is None or not typed:
        return []
    server, colon, wanted = typed.lower().partition(":")
    offers: list[Offer] = []
    for mention, about in servers.resource_mentions():
        name, _, uri = mention.removeprefix("@").lower().partition(":")
        fits = name == server and wanted in f"{uri} {about.lower()}" if colon else name.startswith(server)
        if fits and typable(mention) and not set(uri) & set(" \t"):
            offers.append(Offer(mention, about, visible(mention)))
    return offers[:SHOWN]


def command_offers(commands: Commands, beginning: str, sign: str = "/") -> list[Offer]:
    """Return the commands that begin so: those of every day first, those that only explain last, by name; an
    alias only where its name does not."""
    wanted = beginning.lower()
    offers: list[tuple[int, str, Offer]] = []
    for command in commands.all():
        names = [name for name in (command.name, *command.aliases) if name.startswith(wanted)]
        if names:
            rank = 0 if command.essential else 2 if command.only_explains else 1
            offers.append((rank, names[0], Offer(sign + names[0], command.help)))
    return [offer for _rank, _name, offer in sorted(offers, key=lambda ranked: ranked[:2])]


def topic_offers(beginning: str) -> list[Offer]:
    """Return the pages of the manual whose names begin so."""
    from buddy.extend.manual import topics  # here: few sessions read the manual

    wanted = beginning.lower()
    return [Offer(page.name, page.summary) for page in topics() if page.name.startswith(wanted)]


def task_offers(context: Context, beginning: str, sign: str) -> list[Offer]:
    """Return the tasks whose numbers begin so."""
    return [
        Offer(f"{sign}{task.task_id}", f"{task.state}: {task.title}")
        for task in context.board.tasks.values()
        if not task.closed and str(task.task_id).startswith(beginning)
    ]


def variant_offers(context: Context, beginning: str) -> list[Offer]:
    """Return the variants of the newest prompt whose numbers begin so."""
    groups = context.board.variants.groups()
    return [
        Offer(str(task.variant.number), f"{task.state}: {task.model or 'task'} {task.task_id}")
        for task in (groups[max(groups)] if groups else ())
        if task.variant is not None and str(task.variant.number).startswith(beginning)
    ]


def question_offers(context: Context, typed: str) -> list[Offer]:
    """Return the questions that wait for an answer."""
    return [
        Offer(str(one.number), f"task {one.task_id}: {one.question.question}")
        for one in context.session.questions.waiting()
        if str(one.number).startswith(typed)
    ]


def prompt_offers(context: Context, typed: str) -> list[Offer]:
    """Return the prompts a conversation can go back to, the newest first."""
    task = context.board.task(context.focus)
    return [
        Offer(str(number), prompt_text(task, at))
        for number, at in reversed(list(enumerate(prompts_of(task), 1)))
        if str(number).startswith(typed)
    ][:SHOWN]


def session_offers(context: Context, typed: str) -> list[Offer]:
    """Return the other sessions, the newest first: by id, and by name where the name is being typed."""
    current = context.session.session_id
    offers: list[Offer] = []
    for one in context.session.store.list():
        if one.session_id == current or one.foreign:
            continue
        if one.session_id.startswith(typed.lower()):
            offers.append(Offer(one.session_id, one.name or one.title))
        elif typed and one.name.lower().startswith(typed.lower()):
            offers.append(Offer(one.name, one.session_id))
    return offers[:SHOWN]


def model_offers(context: Context, typed: str) -> list[Offer]:
    """Return profiles first, then the models of the server in use, then models of the catalogue, that have it
    in their names."""
    profiles = context.session.settings.models
    text = typed.lower()
    offers = [Offer(name, profile.model) for name, profile in profiles.items() if name.startswith(typed)]
    served = context.session.models.list_served(context.board.task(context.focus).model)
    offers += [Offer(name, "on the same server") for name in served if text in name.lower()]
    if text:
        known = context.session.models.catalogue().models.values()
        offers += [Offer(info.id, f"{info.context:,} tokens") for info in known if text in info.id.lower()]
    return offers[:SHOWN]


def _shell_word(path: str) -> str:
    """Return a path as a word of a shell command, never an option; a leading `~/` stays what it is."""
    home, rest = (
        ("~/", path[2:]) if path.startswith("~/") else ("", f"./{path}" if path.startswith("-") else path)
    )
    return home + (shlex.quote(rest) if rest else "")
