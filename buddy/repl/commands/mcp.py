"""`/mcp`: the MCP servers, their states and tools, and the person's answers about them."""

from __future__ import annotations

from buddy.agent.cancel import TurnCancelled, run_cancellable
from buddy.agent.formatting import format_count
from buddy.app.browser import has_browser, open_in_browser
from buddy.app.mcp import SessionServer, SessionServers
from buddy.extend.mcp.names import server_part
from buddy.extend.mcp.records import LoginFailedError, LoginPage
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.context import Context
from buddy.repl.view.blocks import NoteBlock, PlainText
from buddy.safety.sanitise import clean, one_line, visible

STDERR_LINES = 10


@command(
    family="setup",
    usage="[SERVER | trust SERVER [CODE] | distrust|login|logout|reconnect SERVER]",
    choices=("trust", "distrust", "login", "logout", "reconnect"),
)
async def mcp(context: Context, argument: str) -> None:
    """List the MCP servers, show one, approve one, log in to one, or connect one again"""
    servers = context.session.mcp
    if servers is None:
        raise CommandError(
            "no MCP server is defined: buddy mcp add NAME COMMAND (or URL) in another terminal, "
            "then start again; /help mcp"
        )
    word, _, name = argument.partition(" ")
    if not argument:
        context.screen.print(PlainText("\n".join(_rows(servers)) or "no MCP server is defined"))
        return
    if word == "logout":  # also of a server that is gone
        await _log_out(context, servers, name.strip())
        return
    if word not in ("trust", "distrust", "login", "reconnect"):
        context.screen.print(PlainText(_details(context, servers, _server(servers, argument))))
        return
    if word == "trust":
        await _trust(context, servers, name)
        return
    server = _server(servers, name.strip())
    shown = visible(server.name)
    match word:
        case "distrust":
            problem = await servers.distrust(server.name)
            said = f"MCP server {shown} is not started"
            context.screen.print(NoteBlock("info", f"{said}, in this run: {problem}" if problem else said))
        case "login":
            _check_may_run(server)
            await _log_in(context, servers, server)
        case _:
            _check_may_run(server)
            if server.definition.agent and server.state == "waiting":
                raise CommandError(server.advice)
            server.reconnect()
            context.screen.print(NoteBlock("info", f"MCP server {shown} is connected anew"))


async def _trust(context: Context, servers: SessionServers, words: str) -> None:
    """Show what would be approved, with a code; approve exactly that when the code comes back."""
    from buddy.extend.mcp.servers import OfferChangedError  # loaded already: there are servers

    name, _, code = words.strip().rpartition(" ")
    if not name or words.strip() in servers.servers:
        name, code = words.strip(), ""
    server = _server(servers, name.strip())
    shown = visible(server.name)
    if code:
        try:
            problem = await servers.trust(server.name, code.strip())
        except OfferChangedError:
            context.screen.print(
                NoteBlock("warning", f"nothing was approved: that is not the code of what {shown} is now")
            )
        else:
            text = f"MCP server {shown} is approved as it was shown"
            context.screen.print(
                NoteBlock("info", f"{text}, for this run only: {problem}" if problem else text)
            )
            return
    offer = await servers.offer(server.name)
    lines = [f"{shown} would run:", f"  {server.definition.summary()}"]
    lines += [f"  defined in {visible(server.definition.source)}"]
    for tool in offer.changed:
        lines += _instructions(f"its tool {visible(tool.name)} would be accepted as:", tool.description)
    if offer.instructions:
        lines += _instructions("it tells models:", offer.instructions)
    context.screen.print(
        PlainText("\n".join(lines)),
        NoteBlock("info", f"/mcp trust {shown} {offer.code} approves exactly this"),
    )


def _check_may_run(server: SessionServer) -> None:
    if server.state in ("untrusted", "disabled"):
        raise CommandError(server.advice)


async def _log_in(context: Context, servers: SessionServers, server: SessionServer) -> None:
    """Log in while the prompt stays free: the address is shown first, and a browser opens only when the
    person asks for it by the same command again."""
    shown, environment = visible(server.name), context.session.launch.environment
    under_way = servers.login_page(server.name)
    if under_way is not None:
        is_open = has_browser(environment) and await open_in_browser(
            under_way.url, environment, context.session.launch.boundary.root
        )
        if not is_open:
            raise CommandError("no browser could be opened: open the address yourself, on this machine")
        context.screen.print(NoteBlock("info", f"your browser opens {under_way.host}"))
        return

    async def show(page: LoginPage) -> None:
        how = f"/mcp login {shown} again opens it" if has_browser(environment) else "open it yourself"
        context.screen.print(
            NoteBlock(
                "info", f"MCP server {shown} wants a login at {page.host}; {how} in a browser of this machine"
            ),
            PlainText(visible(page.url)),
        )

    with context.own.register(f"login to {shown}") as work:
        try:
            place = await run_cancellable(servers.log_in(server.name, show), work.cancelled)
        except TurnCancelled:
            context.screen.print(NoteBlock("info", f"the login to {shown} was given up"))
            return
        except LoginFailedError as error:
            raise CommandError(f"MCP server {shown}: {one_line(str(error), 400)}") from error
    context.screen.print(NoteBlock("info", f"logged in to {shown}, saved in {visible(place)}"))


async def _log_out(context: Context, servers: SessionServers, name: str) -> None:
    from buddy.extend.mcp.logins import host_of  # here: a start without servers need not pay for it

    try:
        addresses = await servers.log_out(name)
    except LoginFailedError as error:
        raise CommandError(f"MCP server {visible(name)}: {error}") from error
    if not addresses:
        raise CommandError(f"there is no login to {visible(name)!r}")
    hosts = ", ".join(dict.fromkeys(map(host_of, addresses)))
    context.screen.print(
        NoteBlock(
            "info",
            f"forgot the login to {visible(name)} ({hosts}); what the server knows of it is ended there",
        )
    )


def _server(servers: SessionServers, name: str) -> SessionServer:
    found = servers.servers.get(name)
    if found is None:
        known = ", ".join(map(visible, servers.servers)) or "none"
        raise CommandError(f"there is no MCP server {visible(name)!r} (servers: {known})")
    return found


def _rows(servers: SessionServers) -> list[str]:
    rows = [
        f"{visible(one.name)}: {one.state_words}"
        f"{f', {_counts(servers, one)}' if one.state == 'ready' else ''}"
        f" · {one.definition.summary(120)}"
        f"{'' if one.state == 'ready' else f'{chr(10)}  {one.advice}'}"
        for one in servers.servers.values()
    ]
    rows += [
        f"{visible(one.name)} of {visible(one.source)} is not used: yours has that name"
        for one in servers.hidden
    ]
    return [*rows, *map(clean, servers.problems)]


def _counts(servers: SessionServers, server: SessionServer) -> str:
    counts = [
        format_count(len(servers.tools_of(server.name)), "tool"),
        *([format_count(len(server.resources), "resource")] if server.resources else []),
        *([format_count(len(server.prompts), "prompt")] if server.prompts else []),
    ]
    held = len(servers.withheld.get(server.name, ()))
    return ", ".join([*counts, *([f"{held} withheld"] if held else [])])


def _details(context: Context, servers: SessionServers, server: SessionServer) -> str:
    lines = [
        f"{visible(server.name)}: {server.state_words}",
        *([f"  {server.advice}"] if server.state != "ready" else []),
        f"  {server.definition.summary()}",
        f"  defined in {visible(server.definition.source)}",
    ]
    reads = server.definition.variables()
    lines += [f"  reads from your environment: {', '.join(reads)}"] if reads else []
    lines += [f"  {tool.name}: {one_line(tool.description, 160)}" for tool in servers.tools_of(server.name)]
    prefix = f"mcp__{server_part(server.name)}__"
    lines += [
        f"  /{command}: {about}" for command, about in servers.prompt_commands() if command.startswith(prefix)
    ]
    lines += [f"  {_counts(servers, server)}"] if server.state == "ready" else []
    lines += [
        f"  withheld: {visible(one.tool)}: {one.reason}" for one in servers.withheld.get(server.name, ())
    ]
    given = servers.instructions_of(server.name)
    if given.words:
        held = f"withheld: its instructions changed; /mcp trust {visible(server.name)} accepts them:"
        lines += _instructions(held if given.is_withheld else "it tells models:", given.words)
    tail = clean(context.board.parts.redact_text(server.stderr.text())).splitlines()[-STDERR_LINES:]
    return "\n".join([*lines, *(f"  stderr | {line}" for line in tail)])


def _instructions(heading: str, words: str) -> list[str]:
    from buddy.extend.mcp.instructions import quote_instructions  # here: only where a server says something

    return [f"  {heading}", *quote_instructions(words, "  | ").split("\n")]
