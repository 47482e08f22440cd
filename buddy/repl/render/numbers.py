"""Phrases for durations, sizes and money, the same everywhere on the screen."""

from __future__ import annotations

import time

from buddy.agent.budget import plain_dollars
from buddy.safety.sanitise import one_line

TITLE_CHARS = 40


def clock_time(at: float) -> str:
    """Return a time as `16:12`, with the date unless it is today."""
    form = "%H:%M" if time.localtime(at)[:3] == time.localtime()[:3] else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(at))


def running_name(what: str, title: str) -> str:
    """Name something that runs, with the beginning of its title: `task 2 (write tests)`."""
    return f"{what} ({one_line(title, TITLE_CHARS)})" if title else what


def seconds(value: float) -> str:
    """Return a duration: `0.4 s`, `12 s`, `3 m 5 s`, `1 h 4 m`."""
    if value < 0.95:
        return f"{value:.1f} s"
    whole = int(value + 0.5) if value < 60 else int(value)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} m {rest} s" if rest else f"{minutes} m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} m" if minutes else f"{hours} h"


def whole_units(value: float) -> str:
    """Return a running duration in whole units, so that it changes once a second at most: `4 s`, `3 m`, `1
    h`."""
    whole = max(0, int(value))
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} m" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} m"


def state(name: str, *, has_worked: bool = True) -> str:
    """Return a task's state or a turn's outcome, one word for each wherever it is shown."""
    match name:
        case "completed" | "finished":
            return "done"
        case "idle":
            return "done" if has_worked else "new"
        case "limit":
            return "paused"
        case _:
            return name


def tokens(count: int) -> str:
    """Return a number of tokens: `950`, `12.3k`, `1.2M`."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def token_count(count: int) -> str:
    """Return a number of tokens with its noun: `1 token`, `12.3k tokens`."""
    return f"{tokens(count)} {'token' if count == 1 else 'tokens'}"


def money(usd: float) -> str:
    """Return an amount of dollars, with as many digits as it needs."""
    if 0 < usd < 0.00005:
        return plain_dollars(usd, significant=1)
    return f"${usd:.2f}" if usd >= 0.095 or usd == 0 else f"${usd:.4f}"


def cost(usd: float, *, known: bool) -> str:
    """Format a cost: `$0.12`; `$0.12+` where a part of it has no known price; `no price` where nothing of it
    has one."""
    if known:
        return money(usd)
    return f"{money(usd)}+" if usd else "no price"


def context_size(count: int) -> str:
    """Return the size of a context window in four cells or less where it can: `8.2k`, `262k`, `1M`."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if count >= unit * 0.9995:
            return f"{count / unit:.{0 if count >= 9.95 * unit else 1}f}".removesuffix(".0") + name
    return str(count) if count else "?"
