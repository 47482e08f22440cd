"""Commands about models and money."""

from __future__ import annotations

import asyncio

from buddy.agent.typed_number import whole_number
from buddy.config.settings import MOST_DOLLARS
from buddy.repl import words
from buddy.repl.blocks import Note, Table
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.port import Context
from buddy.tasks.board import TaskBoard, TaskError

MAX_SERVED = 30


@command(family="models", usage="[NAME]", completes=("model",))
async def model(context: Context, argument: str) -> None:
    """Show or change the model of the task in front: a profile, or a model's name"""
    board = context.board
    if not argument:
        current = board.parts.model(board.task(board.focus).model)
        settings = context.desk.settings
        rows = [("▸", current.name, current.model)]
        usual = settings.api.model
        if usual and usual != current.name:
            rows.append(("", usual, "the default of your settings"))
        rows += [(" ", name, one.model) for name, one in settings.models.items() if name != current.name]
        listed = {row[1] for row in rows} | {current.model}
        for name in context.desk.served(board.task(board.focus).model)[:MAX_SERVED]:
            if name not in listed:
                rows.append(("", name, "on the same server"))
        context.stage.print(Table(("", "profile", "model"), tuple(rows)))
        return
    if len(argument.split()) > 1:
        raise CommandError(f"expected one profile or model, found {argument!r}; /models lists what there is")
    if problem := await context.desk.problem(argument):
        raise CommandError(f"the model stays as it is: {problem}")
    board.change_model(board.focus, argument)
    await asyncio.to_thread(context.desk.remember_model, argument)
    access = board.parts.model(argument)
    guess = ", a guess: set context_limit" if access.window.guessed else ""
    context.stage.hint(f"model: {access.name} ({access.window.limit:,} tokens{guess})")


@command(family="models", usage="[TEXT]")
async def models(context: Context, argument: str) -> None:
    """List the models buddy knows"""
    wanted = argument.lower().split()
    found = [
        info
        for info in context.desk.catalogue().models.values()
        if all(word in info.id.lower() for word in wanted)
    ]
    if not found:
        raise CommandError(f"no model has {argument!r} in its name")
    rows = tuple(
        (
            info.id,
            words.tokens(info.context),
            "" if info.prices.input is None else f"${info.prices.input:g}",
            "" if info.prices.output is None else f"${info.prices.output:g}",
        )
        for info in found[:40]
    )
    context.stage.print(Table(("model", "context", "in / M", "out / M"), rows))
    if len(found) > 40:
        context.stage.print(Note("hint", f"{len(found) - 40} more; /models TEXT narrows it down"))


@command(family="models")
async def cost(context: Context, argument: str) -> None:
    """Show tokens and money, by task"""
    rows: list[tuple[str, ...]] = []
    for task in context.board.tasks.values():
        total = task.meter.total
        estimate = "~" if total.estimated else ""
        rows.append(
            (
                f"{task.number}",
                estimate + words.tokens(total.input_tokens),
                estimate + words.tokens(total.cache_read_tokens),
                estimate + words.tokens(total.output_tokens),
                words.cost(task.meter.cost_usd, known=task.meter.cost_known),
                task.title,
            )
        )
    context.stage.print(Table(("task", "in", "of it cached", "out", "cost", "what"), tuple(rows)))
    dollars, known = session_cost(context.board)
    unknown = "" if known else " (+: and what has no known price)" if dollars else " is known"
    said = f"session: {words.tokens(context.board.spent()[1])} tokens, {words.cost(dollars, known=known)}"
    context.stage.print(Note("info", said + unknown))


def session_cost(board: TaskBoard) -> tuple[float, bool]:
    """What all tasks have cost, and whether the price of all they used is known."""
    meters = [task.meter for task in board.tasks.values()]
    used = [meter for meter in meters if meter.total.input_tokens or meter.total.output_tokens]
    return board.spent()[0], all(meter.cost_known for meter in used or meters)


@command(family="models", usage="[@N] DOLLARS|off")
async def budget(context: Context, argument: str) -> None:
    """Set a limit in dollars: for the session, or for a task (/budget @3 0.50)"""
    first, _, rest = argument.partition(" ")
    number, rest = 0, rest.strip()
    if first.startswith("@"):
        named = whole_number(first[1:])
        if named is None:
            raise CommandError(f"expected a task like @3, found {first[:40]!r}")
        number, first, rest = named, rest, ""
    if not first or rest:
        raise CommandError("expected an amount: /budget 5, /budget @3 0.50, /budget off")
    amount = 0.0 if first == "off" else _dollars(first.removeprefix("$"))
    try:
        context.board.set_budget(number, amount)
    except TaskError as error:
        raise CommandError(str(error)) from error
    whose = f"task {number}" if number else "the session"
    context.stage.print(Note("info", f"budget of {whose}: {'none' if not amount else words.money(amount)}"))


def _dollars(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        raise CommandError(f"expected an amount of dollars, found {text[:40]!r}") from None
    if not 0 <= amount <= MOST_DOLLARS:  # "nan" is neither above nor below anything
        raise CommandError(f"expected 0 (no limit) to {MOST_DOLLARS:,} dollars, found {text[:40]!r}")
    return amount


COMMANDS = (model, models, cost, budget)
