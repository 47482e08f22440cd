"""Clean-up that is due only when something failed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import ParamSpec

P = ParamSpec("P")


@contextmanager
def on_failure(clean_up: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> Generator[None]:
    """Call `clean_up` when the body does not come to its end, whatever it raises, cancellation and interrupt
    included; what was raised goes on. A body that comes to its end keeps what it made."""
    with ExitStack() as failing:
        failing.callback(clean_up, *args, **kwargs)
        yield
        failing.pop_all()
