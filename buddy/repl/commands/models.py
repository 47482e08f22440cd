"""Commands about models and costs."""

from __future__ import annotations

import asyncio

from buddy.agent.budget import Budget
from buddy.agent.formatting import whole_number
from buddy.config.settings import MOST_DOLLARS
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.context import Context
from buddy.repl.render import numbers as words
from buddy.repl.render.model_table import MODEL_HEAD, model_row
from buddy.repl.view.blocks import NoteBlock, TableBlock
from buddy.safety.sanitise import visible
from buddy.tasks.board import TaskBoard, TaskError

MAX_SERVED = 30
MAX_REASONS = 5
MOST_TOKENS = 1_000_000_000_000


@command(family="models", usage="[NAME]", completes=("model",), essential=True)
async def model(context: Context, argument: str) -> None:
    """Show or change the model of the foreground task: a profile, or a model's name"""
    board = context.board
    if not argument:
        current = board.parts.model(board.task(board.focus).model)
        settings = context.session.settings
        rows = [("▸", current.name, current.model)]
        usual = settings.api.model
        if usual and usual != current.name:
            rows.append(("", usual, "the default of your settings"))
        rows += [
            (" ", name, profile.model) for name, profile in settings.models.items() if name != current.name
        ]
        listed = {row[1] for row in rows} | {current.model}
        for name in context.session.models.list_served(board.task(board.focus).model)[:MAX_SERVED]:
            if name not in listed:
                rows.append(("", name, "on the same server"))
        context.screen.print(TableBlock(("", "profile", "model"), tuple(rows)))
        return
    if len(argument.split()) > 1:
        raise CommandError(f"expected one profile or model, found {argument!r}; /models lists them")
    if problem := await context.session.models.problem(argument):
        raise CommandError(f"the model was not changed: {problem}")
    board.change_model(board.focus, argument)
    await asyncio.to_thread(context.session.save_model, argument)
    access = board.parts.model(argument)
    guess = ", a guess: set context_limit" if access.window.guessed else ""
    context.screen.hint(f"model: {access.name} ({access.window.limit:,} tokens{guess})")


@command(family="models", usage="[TEXT]")
async def models(context: Context, argument: str) -> None:
    """List the models buddy knows"""
    wanted = argument.lower().split()
    matches = [
        info
        for info in context.session.models.catalogue().models.values()
        if all(word in info.id.lower() for word in wanted)
    ]
    if not matches:
        raise CommandError(f"no model has {argument!r} in its name")
    rows = tuple(map(model_row, matches[:40]))
    context.screen.print(TableBlock(MODEL_HEAD, rows))
    if len(matches) > 40:
        context.screen.print(NoteBlock("hint", f"{len(matches) - 40} more; /models TEXT narrows it down"))


@command(family="models", essential=True)
async def cost(context: Context, argument: str) -> None:
    """Show tokens and costs by task"""
    rows: list[tuple[str, ...]] = []
    for task in context.board.tasks.values():
        total = task.meter.total
        estimate = "~" if total.estimated else ""
        rows.append(
            (
                f"{task.task_id}",
                estimate + words.tokens(total.input_tokens),
                estimate + words.tokens(total.cache_read_tokens),
                estimate + words.tokens(total.output_tokens),
                words.cost(task.meter.cost_usd, known=task.meter.cost_known),
                task.title,
            )
        )
    context.screen.print(TableBlock(("task", "in", "of it cached", "out", "cost", "what"), tuple(rows)))
    for task in context.board.tasks.values():
        for reason in task.prefix_changes[-MAX_REASONS:]:
            begun = f"task {task.task_id}: the prompt cache began anew: {visible(reason)}"
            context.screen.print(NoteBlock("hint", begun))
    dollars, known = session_cost(context.board)
    suffix = "" if known else " (+: plus models without a known price)" if dollars else " is known"
    totals = (
        f"session: {words.tokens(context.board.spending()[1])} tokens, {words.cost(dollars, known=known)}"
    )
    context.screen.print(NoteBlock("info", totals + suffix))


def session_cost(board: TaskBoard) -> tuple[float, bool]:
    """Return the cost of all tasks, and whether the price of everything they used is known."""
    meters = [task.meter for task in board.tasks.values()]
    used = [meter for meter in meters if meter.total.input_tokens or meter.total.output_tokens]
    return board.spending()[0], all(meter.cost_known for meter in used or meters)


@command(family="models", usage="[@N] [DOLLARS|N tokens|off]")
async def budget(context: Context, argument: str) -> None:
    """Show or set a limit for the session or a task: /budget 5, /budget 200k tokens, /budget @3 0.50"""
    arguments = argument.split()
    task_id = 0
    if arguments and arguments[0].startswith("@"):
        named = whole_number(arguments[0][1:])
        if named is None:
            raise CommandError(f"expected a task like @3, found {arguments[0][:40]!r}")
        task_id = named
        del arguments[0]
    try:
        current = context.board.budget(task_id)
        if not arguments:
            _show_budget(context, task_id, current)
            return
        limits = _budget(arguments, current)
        _check_price(context, task_id, limits)
        context.board.set_budget(task_id, limits)
    except TaskError as error:
        raise CommandError(str(error)) from error
    context.screen.print(NoteBlock("info", f"budget of {_owner(context, task_id)}: {_limits(limits)}"))


def _budget(arguments: list[str], current: Budget) -> Budget:
    """Return the limits after the command: the named one is changed, the other stays."""
    match arguments:
        case ["off"]:
            return Budget(0.0, 0)
        case [amount] if amount[-1:].lower() in ("k", "m"):
            raise CommandError(f"expected a unit behind {amount[:20]}: /budget {amount[:20]} tokens")
        case [amount]:
            return Budget(_dollars(amount.removeprefix("$")), current.max_tokens)
        case [amount, ("tokens" | "token" | "tok")]:
            return Budget(current.max_cost_usd, _tokens(amount))
        case [amount, ("dollars" | "dollar" | "usd" | "USD")]:
            return Budget(_dollars(amount.removeprefix("$")), current.max_tokens)
        case _:
            raise CommandError(
                "expected an amount: /budget 5, /budget 200k tokens, /budget @3 0.50, /budget off"
            )


def _check_price(context: Context, task_id: int, limits: Budget) -> None:
    """Refuse a limit in dollars when the costs are unknown."""
    if not limits.max_cost_usd:
        return
    tasks = [context.board.task(task_id)] if task_id else list(context.board.tasks.values())
    unpriced = next((task for task in tasks if not task.closed and task.meter.is_unpriced), None)
    if unpriced is not None:
        raise CommandError(
            f"task {unpriced.task_id}'s model has no known price, so a limit in dollars would not "
            f"work; limit "
            "tokens: /budget 200k tokens"
        )


def _show_budget(context: Context, task_id: int, limits: Budget) -> None:
    task = context.board.task(task_id) if task_id else None
    if task is not None and task.variant is not None and task.meter.shared is not None:
        dollars, tokens = task.meter.shared.spent()
    elif task is not None:
        meter = task.meter
        dollars, tokens = meter.cost_usd, meter.total.input_tokens + meter.total.output_tokens
    else:
        dollars, tokens = context.board.spending()
    used = f"used so far: {words.money(dollars)}, {tokens:,} tokens"
    context.screen.print(
        NoteBlock("info", f"budget of {_owner(context, task_id)}: {_limits(limits)}; {used}")
    )


def _owner(context: Context, task_id: int) -> str:
    if not task_id:
        return "the session"
    is_variant = context.board.task(task_id).variant is not None
    return f"all variants of task {task_id}'s prompt" if is_variant else f"task {task_id}"


def _limits(budget: Budget) -> str:
    dollars = words.money(budget.max_cost_usd) if budget.max_cost_usd else ""
    tokens = f"{budget.max_tokens:,} tokens" if budget.max_tokens else ""
    return " and ".join(filter(None, (dollars, tokens))) or "none"


def _tokens(text: str) -> int:
    scale = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    try:
        amount = float(text[:-1] if scale > 1 else text.replace(",", "").replace("_", "")) * scale
    except ValueError:
        raise CommandError(f"expected a number of tokens like 200k, found {text[:40]!r}") from None
    if not 0 <= amount <= MOST_TOKENS:
        raise CommandError(f"expected 0 (no limit) to {MOST_TOKENS:,} tokens, found {text[:40]!r}")
    return int(amount)


def _dollars(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        raise CommandError(f"expected an amount of dollars, found {text[:40]!r}") from None
    if not 0 <= amount <= MOST_DOLLARS:  # written this way, "nan" is refused too
        raise CommandError(f"expected 0 (no limit) to {MOST_DOLLARS:,} dollars, found {text[:40]!r}")
    return amount
