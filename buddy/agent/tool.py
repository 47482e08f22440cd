"""Tools: functions whose name, docstring and annotations are their declaration, and the registry of one
agent."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any, Literal, TypeVar, cast

import msgspec

from buddy.agent.display import NOTHING, Display
from buddy.agent.messages import Image
from buddy.agent.provider import ToolDefinition
from buddy.agent.schema import arguments_type, decode_arguments, is_plain, parameters_schema, takes_context

Risk = Literal["low", "medium", "high"]
Category = Literal["files", "search", "shell", "git", "web", "plan", "tasks", "templates", "other"]
T = TypeVar("T")


class ToolError(Exception):
    """A tool could not do it. The message is what the model reads: expected, found, what to do."""


class Access(msgspec.Struct, frozen=True):
    """The paths a call touches, as the model gave them; whoever compares them resolves them. `anything`: it
    may change whatever it likes (a shell command). A call that writes nothing and is not `anything` is
    read-only."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    anything: bool = False

    @property
    def read_only(self) -> bool:
        """Tell whether the call changes nothing."""
        return not self.writes and not self.anything


class Survey(msgspec.Struct, frozen=True):
    """Findings on the disk about a call before it is judged: paths it would write beside its declared ones,
    the command line it would run, the programs a repository makes it run (in words, "" for none), and the
    reason why its effects cannot be known ("" when they are)."""

    writes: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    programs: str = ""
    unknown: str = ""


NO_SURVEY = Survey()


class Blocked(msgspec.Struct, frozen=True):
    """The accesses the sandbox refused one command: `paths` it tried to change, `hosts` its proxy refused
    (`name` or `name:port`), `addresses` it tried to reach without the proxy. `failures`: sentences about
    hosts that were allowed and could not be reached; nothing refused those."""

    paths: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.paths or self.hosts or self.addresses)


NOTHING_BLOCKED = Blocked()


class ToolResult(msgspec.Struct, frozen=True):
    """The result of a call: `text` for the model, `display` for the person, pictures for a model that sees.
    `ok` is False for a failure the tool reports as its answer (a command's exit code, say). `cached`: an
    equal call was answered before. `blocked`: what the sandbox refused the command behind it."""

    text: str
    display: Display = NOTHING
    images: tuple[Image, ...] = ()
    ok: bool = True
    cached: bool = False
    blocked: Blocked = NOTHING_BLOCKED


class ToolContext(msgspec.Struct, frozen=True):
    """The services a running tool gets besides its arguments. `progress` shows output while it runs;
    `cancelled` fires when the person cancels (the tool is cancelled as well: it only needs the event to end
    its children)."""

    task_id: int
    call_id: str
    progress: Callable[[str], None]
    cancelled: asyncio.Event
    services: Mapping[type, object]

    def service(self, kind: type[T]) -> T:
        """Return the one object of this type the host provides. Raises `ToolError` when there is none."""
        found = self.find(kind)
        if found is None:
            raise ToolError(f"this tool needs {kind.__name__}, which is not available here")
        return found

    def find(self, kind: type[T]) -> T | None:
        """Return the one object of this type the host provides, None when there is none."""
        return cast("T | None", self.services.get(kind))


class ForeignArguments(msgspec.Struct, frozen=True):
    """The arguments of a call whose schema is another program's, as the object it has there."""

    values: dict[str, Any]


class Tool(msgspec.Struct, frozen=True):
    """A declared tool. `schema` returns `parameters`; `arguments` is the record its JSON is decoded into;
    `aliases` are other tool names models use for it, `argument_aliases` other argument names; `cache_s` is
    how long an equal read-only call may be answered from the cache (0: never); `preview` is what an approval
    shows. `survey` looks at the disk for the policy, given the boundary and the arguments (it blocks: call it
    in a thread); `risk_in_sandbox` is the risk where a working sandbox contains the call (None: the same);
    `confined`: what it runs goes into the sandbox; `subject` names what a call is about where the first text
    of its arguments does not; `keeps_undo`: it saves what it replaces before it does, so that nobody looks at
    the whole tree for it; `runs_tests`: while it runs, writes of other tasks wait, and its outcome is a test
    run of the receipt; `decoder` reads its arguments where `schema` was not made from a record (a server's);
    `effect` says why a call is asked about ("it deletes a file"); `command` returns the shell command a call
    runs; `query` returns words of a call that strangers read; `asks_person`, `delegates`: it asks the person,
    it starts subagents; `change_name` names its changes for the person ("edit", "" for its own name);
    `hooked_per_file`: hooks get one event for each file it writes; `core`: every request declares it, however
    many tools there are; `for_variants`: only variants of a prompt are offered it; `anywhere`: it also works
    where the task works on another machine; `agent`: only a subagent of this name is offered it."""

    name: str
    description: str
    risk: Risk
    category: Category
    schema: Callable[[], dict[str, Any]]
    arguments: type[msgspec.Struct]
    run: Callable[[ToolContext, msgspec.Struct], Awaitable[ToolResult]]
    access: Callable[[Any], Access]
    preview: Callable[[ToolContext, Any], Display] | None = None
    aliases: tuple[str, ...] = ()
    argument_aliases: dict[str, str] = {}
    cache_s: float = 0
    source: str = "built-in"
    survey: Callable[[Any, Any], Survey] | None = None
    risk_in_sandbox: Risk | None = None
    confined: bool = False
    subject: Callable[[Any], str] | None = None
    keeps_undo: bool = False
    runs_tests: bool = False
    function: Callable[..., Any] | None = None
    decoder: Callable[[str], msgspec.Struct] | None = None
    effect: str = ""
    command: Callable[[Any], str] | None = None
    query: Callable[[Any], str] | None = None
    asks_person: bool = False
    delegates: bool = False
    change_name: str = ""
    hooked_per_file: bool = False
    core: bool = False
    for_variants: bool = False
    anywhere: bool = False
    agent: str = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments, made when it is first needed: most tools are not declared
        in most runs."""
        return self.schema()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the declared function directly, as if it had not been decorated."""
        if self.function is None:
            raise TypeError(f"tool {self.name} was not made from a function")
        return self.function(*args, **kwargs)

    def definition(self) -> ToolDefinition:
        """Return the declaration the model reads."""
        return ToolDefinition(self.name, self.description, self.parameters)

    def decode(self, text: str) -> msgspec.Struct:
        """Validate arguments written by a model. Raises `ArgumentsError` that names what was expected."""
        if self.decoder is not None:
            return self.decoder(text)
        return decode_arguments(text, self.arguments, self.argument_aliases)


def call_title(name: str, arguments: msgspec.Struct | None, tool: Tool | None = None) -> str:
    """Return one short line that names a call: the tool, and its subject or the first text it was given."""
    if tool is not None and tool.subject is not None and arguments is not None:
        return f"{name} {tool.subject(arguments)}".rstrip()
    for field in arguments.__struct_fields__ if arguments is not None else ():
        value = getattr(arguments, field)
        if isinstance(value, str) and value:
            first = value.splitlines()[0]
            return f"{name} {first[:100]}{'…' if len(first) > 100 or len(value) > len(first) + 1 else ''}"
    return name


def no_access(_arguments: Any) -> Access:
    """Return the access of a call that touches no path."""
    return Access()


def reads_path(arguments: Any) -> Access:
    """Return the access of a call that reads its `path`."""
    return Access(reads=(arguments.path,))


def writes_path(arguments: Any) -> Access:
    """Return the access of a call that writes its `path`."""
    return Access(writes=(arguments.path,))


def any_access(_arguments: Any) -> Access:
    """Return the access of a call that may change anything."""
    return Access(anything=True)


def tool(
    *,
    risk: Risk = "high",
    category: Category = "other",
    name: str = "",
    description: str = "",
    access: Callable[[Any], Access] | None = None,
    preview: Callable[[ToolContext, Any], Display] | None = None,
    aliases: tuple[str, ...] = (),
    argument_aliases: Mapping[str, str] | None = None,
    cache_s: float = 0,
    source: str = "built-in",
    survey: Callable[[Any, Any], Survey] | None = None,
    risk_in_sandbox: Risk | None = None,
    confined: bool = False,
    subject: Callable[[Any], str] | None = None,
    keeps_undo: bool = False,
    runs_tests: bool = False,
    effect: str = "",
    command: Callable[[Any], str] | None = None,
    query: Callable[[Any], str] | None = None,
    asks_person: bool = False,
    delegates: bool = False,
    change_name: str = "",
    hooked_per_file: bool = False,
    core: bool = False,
    for_variants: bool = False,
    anywhere: bool = False,
) -> Callable[[Callable[..., Any]], Tool]:
    """Declare a tool: its parameters become the schema the model sees, its docstring the description.

        @tool(risk="low")
        def add(a: int, b: int = 0) -> int:
            \"\"\"Add two numbers.\"\"\"
            return a + b

        @tool(risk="medium")
        async def book(ctx: ToolContext, order: Order) -> str:
            \"\"\"Book an order.\"\"\"
            ctx.progress("booking\\n")
            return order.customer

    The context of the call comes first if the function wants it: a first parameter that is annotated as
    `ToolContext`, has no annotation, or is named `ctx`. Every other parameter needs an annotation: plain
    types, dataclasses, msgspec structs and Pydantic models, and lists and optionals of them. The result is a
    text, a `ToolResult`, or anything that has a JSON form. The decorated function stays callable: `add(1, 2)`
    is 3.

    A tool that says nothing about its access may change anything unless its risk is low. A function that is
    not async runs in a thread, so that it keeps nobody waiting.
    """

    def declare(function: Callable[..., Any]) -> Tool:
        signature = inspect.signature(function)
        record = arguments_type(function, signature)
        doc = description or _join_wrapped_lines(inspect.cleandoc(function.__doc__ or ""))
        if not doc:
            raise TypeError(f"tool {function.__name__} needs a docstring: it is what the model reads")
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError(f"tool {function.__name__} yields; expected one result (ctx.progress shows more)")

        schema = cache(partial(parameters_schema, record))
        if not is_plain(record):
            schema()  # what has no schema is an error of the declaration
        called = function if inspect.iscoroutinefunction(function) else _in_thread(function)
        with_context = takes_context(signature)

        async def run(ctx: ToolContext, arguments: msgspec.Struct) -> ToolResult:
            given = {field: getattr(arguments, field) for field in record.__struct_fields__}
            return _as_result(await (called(ctx, **given) if with_context else called(**given)))

        return Tool(
            name=name or function.__name__,
            description=doc,
            risk=risk,
            category=category,
            schema=schema,
            arguments=record,
            run=run,
            access=access or (no_access if risk == "low" else any_access),
            preview=preview,
            aliases=aliases,
            argument_aliases=dict(argument_aliases or {}),
            cache_s=cache_s,
            source=source,
            survey=survey,
            risk_in_sandbox=risk_in_sandbox,
            function=function,
            confined=confined,
            subject=subject,
            keeps_undo=keeps_undo,
            runs_tests=runs_tests,
            effect=effect,
            command=command,
            query=query,
            asks_person=asks_person,
            delegates=delegates,
            change_name=change_name,
            hooked_per_file=hooked_per_file,
            core=core,
            for_variants=for_variants,
            anywhere=anywhere,
        )

    return declare


def _join_wrapped_lines(text: str) -> str:
    """Join the lines that a docstring was wrapped into; lists, indented and empty lines stay as they are."""
    lines: list[str] = []
    for line in text.split("\n"):
        if lines and lines[-1] and (line[:1].isalpha() or line[:1] in ("`", "(", '"')):
            lines[-1] += f" {line}"
        else:
            lines.append(line)
    return "\n".join(lines)


def _as_result(result: Any) -> ToolResult:
    """Return the answer of a tool function as the loop needs it. Raises `ToolError` for what has no JSON
    form."""
    if isinstance(result, ToolResult):
        return result
    if isinstance(result, str):
        return ToolResult(result)
    if hasattr(result, "model_dump_json"):  # a Pydantic model
        return ToolResult(result.model_dump_json())
    try:
        return ToolResult(
            "the tool returned nothing" if result is None else msgspec.json.encode(result).decode()
        )
    except (TypeError, ValueError) as error:
        raise ToolError(f"the tool answered with {type(result).__name__}, which has no JSON form") from error


def _in_thread(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def called(*args: Any, **given: Any) -> Any:
        result = await asyncio.to_thread(function, *args, **given)
        return await result if inspect.isawaitable(result) else result

    return called


NOT_LOADED = (
    '{name} is not loaded and was not called. Call search_tools with query "{name}"; '
    "it can be called from your next reply on."
)


class ToolRegistry:
    """Tools by name. Names are unique; the first registration of a name or alias wins. Deferred tools are
    known and not declared: they can be called once they are admitted."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._aliases: dict[str, str] = {}
        self._deferred: dict[str, Tool] = {}
        self._admitted: list[str] = []
        self._definitions: tuple[ToolDefinition, ...] | None = None
        for tool in tools:
            self.register(tool)

    def register(self, tool: Tool) -> None:
        """Add a tool. Raises `ValueError` when its name is taken."""
        if tool.name in self._tools:
            raise ValueError(f"two tools are named {tool.name!r}; give one another name")
        self._tools[tool.name] = tool
        self._definitions = None
        for alias in tool.aliases:
            self._aliases.setdefault(alias, tool.name)

    def remove(self, name: str) -> None:
        """Take a tool and its aliases out, if it is there."""
        if self._tools.pop(name, None) is not None:
            self._definitions = None
            self._admitted = [other for other in self._admitted if other != name]
            self._aliases = {alias: target for alias, target in self._aliases.items() if target != name}

    def defer(self, tools: Iterable[Tool]) -> None:
        """Keep tools back until `admit`."""
        self._deferred |= {tool.name: tool for tool in tools}

    def deferred(self) -> tuple[Tool, ...]:
        """Return the tools that are kept back, sorted by name."""
        return tuple(self._deferred[name] for name in sorted(self._deferred))

    def admit(self, names: Iterable[str]) -> tuple[Tool, ...]:
        """Declare deferred tools from now on, behind all others: a prompt cache keeps what stands before
        them. Returns those that were kept back until now."""
        admitted = [self._deferred.pop(name) for name in names if name in self._deferred]
        for tool in admitted:
            self.register(tool)
            self._admitted.append(tool.name)
        return tuple(admitted)

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name or alias."""
        return self._tools.get(name) or self._tools.get(self._aliases.get(name, ""))

    def list_all(self) -> tuple[Tool, ...]:
        """Return all tools, sorted by name, the admitted ones last, so that the request prefix stays the
        same."""
        first = sorted(self._tools.keys() - set(self._admitted))
        return tuple(self._tools[name] for name in (*first, *self._admitted))

    def list_by_category(self, category: Category) -> tuple[Tool, ...]:
        """Return the tools of one category, sorted by name."""
        return tuple(tool for tool in self.list_all() if tool.category == category)

    def list_definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the tools' declarations in the order of `list_all`: the same tuple until a tool comes or
        goes, so that whoever encoded it need not compare schemas."""
        if self._definitions is None:
            self._definitions = tuple(tool.definition() for tool in self.list_all())
        return self._definitions

    def unknown(self, name: str) -> str:
        """Return the error text for a call of a tool that is not there."""
        import difflib  # here: 1 ms that a start need not pay

        later = {alias: tool.name for tool in self._deferred.values() for alias in (tool.name, *tool.aliases)}
        if name in later:
            return NOT_LOADED.format(name=later[name])
        near = difflib.get_close_matches(name[:80], [*self._tools, *self._aliases, *later], n=1)
        hint = f" Did you mean {self._aliases.get(near[0], later.get(near[0], near[0]))}?" if near else ""
        more = f"; search_tools finds {len(self._deferred)} more" if self._deferred else ""
        return (
            f"there is no tool named {name[:80]!r}.{hint} Available: {', '.join(sorted(self._tools))}{more}"
        )
