"""Token and money budgets: usage so far, an estimate of the next request, and the limits.

Counts come from the provider. Where it states none they are estimated (4 characters a token plus 16
characters a message, CJK at 0.75 token a character) and calibrated against stated usage.
"""

from __future__ import annotations

import asyncio
import math
import operator
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal, TypeVar

import msgspec

from buddy.agent.events import TokenUsage
from buddy.agent.lazy_regex import pattern
from buddy.agent.messages import (
    NO_USAGE,
    AssistantMessage,
    AssistantPart,
    Attachment,
    Call,
    Image,
    Message,
    ServerItem,
    Text,
    Thinking,
    ToolMessage,
    Usage,
    UserMessage,
    UserPart,
)
from buddy.agent.provider import ModelRequest, ToolDefinition

WARN_SHARE = 0.8
CHARS_PER_TOKEN = 4
MESSAGE_CHARS = 16
IMAGE_TOKENS = 1_500
"""Tokens of a picture of ordinary size at the large providers (768 to 1,700)."""
_WIDE = pattern(
    r"[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)


def text_tokens(text: str) -> float:
    """Return estimated tokens of a text."""
    if text.isascii():
        return len(text) / CHARS_PER_TOKEN
    wide = len(_WIDE().findall(text))
    return wide * 0.75 + (len(text) - wide) / CHARS_PER_TOKEN


def message_tokens(message: Message) -> float:
    """Return estimated tokens of one message as it is sent."""
    overhead = MESSAGE_CHARS / CHARS_PER_TOKEN
    match message:
        case ToolMessage():
            return overhead + text_tokens(message.text) + IMAGE_TOKENS * len(message.images)
        case UserMessage() | AssistantMessage():
            return overhead + sum(_part_tokens(part) for part in message.parts)


def _part_tokens(part: UserPart | AssistantPart) -> float:
    match part:
        case Text() | Attachment() | Thinking():
            return text_tokens(part.text)
        case Image():
            return IMAGE_TOKENS
        case Call():
            return text_tokens(part.name) + text_tokens(part.arguments) + 8
        case ServerItem():
            return text_tokens(str(part.data))


def add_usage(one: Usage, other: Usage) -> Usage:
    """Add two usages."""
    return Usage(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cache_read_tokens + other.cache_read_tokens,
        one.cache_write_tokens + other.cache_write_tokens,
        one.reasoning_tokens + other.reasoning_tokens,
        estimated=one.estimated or other.estimated,
    )


Limit = TypeVar("Limit", int, float)


class Budget(msgspec.Struct, frozen=True):
    """Limits; 0 means none. Money in dollars, tokens as input plus output."""

    max_cost_usd: float = 0
    max_tokens: int = 0

    def within(self, other: Budget) -> Budget:
        """Return the smaller limits of two budgets."""
        return Budget(
            _smaller(self.max_cost_usd, other.max_cost_usd), _smaller(self.max_tokens, other.max_tokens)
        )


def _smaller(one: Limit, other: Limit) -> Limit:
    return min(one, other) if one and other else one or other


class BudgetLedger:
    """A budget and the running requests that may still cost something of it. `what` names it in a sentence;
    `spent` returns dollars and tokens so far. The worst case of each running request counts as spent until
    the request is settled or released, so that several at once stay within the limits together."""

    def __init__(self, what: str, budget: Budget, spent: Callable[[], tuple[float, int]]) -> None:
        self.what = what
        self.spent = spent
        self._budget = budget
        self._reserved: dict[object, tuple[float, int]] = {}
        self._changed = asyncio.Event()

    @property
    def budget(self) -> Budget:
        """Return the limits."""
        return self._budget

    @budget.setter
    def budget(self, budget: Budget) -> None:
        self._budget = budget
        self._changed.set()  # a higher limit may have room for those that wait

    def check(self, price_usd: float, tokens: int) -> BudgetReached | None:
        """Check a request against what is spent, as if no other one ran."""
        if not (self._budget.max_cost_usd or self._budget.max_tokens):
            return None
        usd, used = self.spent()
        return _check_limit(self.what, self._budget, usd, price_usd, used, tokens)

    async def reserve(
        self, owner: object, price_usd: float, tokens: int, heard: Callable[[str], None] = lambda _why: None
    ) -> BudgetReached | None:
        """Reserve a request's worst case. Waits while only the running requests of others leave no room, and
        says so once to `heard`."""
        self.release(owner)
        has_waited = False
        while (reached := self.check(price_usd, tokens)) is None:
            usd = price_usd + sum(reserved[0] for reserved in self._reserved.values())
            others = sum(reserved[1] for reserved in self._reserved.values())
            if not self._reserved or self.check(usd, tokens + others) is None:
                self._reserved[owner] = (price_usd, tokens)
                return None
            if not has_waited:
                has_waited = True
                heard(f"waiting for other requests: {self.what} has no room for all at once")
            self._changed.clear()
            await self._changed.wait()
        return reached

    def release(self, owner: object) -> None:
        """Take back what was reserved for a request that is over."""
        if self._reserved.pop(owner, None) is not None:
            self._changed.set()


class DayBudget:
    """The limit of a day over all sessions: `spent` returns the dollars so far, `add` counts those of a
    reply. With a limit of 0 nothing is refused. Requests that run in other processes are not known before
    they are paid."""

    def __init__(self, max_cost_usd: float, spent: Callable[[], float], add: Callable[[float], None]) -> None:
        self.ledger = BudgetLedger("the day's budget", Budget(max_cost_usd), lambda: (spent(), 0))
        self.add = add


class Window(msgspec.Struct):
    """A model's context window: the tokens that fit, whether that number is `guessed`, and the tokens kept
    free for the reply. Shared by all tasks on the model, because a server may state its window later.
    `asked`: the server was asked for it and has not answered yet."""

    limit: int
    guessed: bool
    reserve: int
    asked: bool = False


class BudgetReached(msgspec.Struct, frozen=True):
    """The next request could exceed a limit. `reason` is one sentence."""

    reason: str


Fit = Literal["fits", "warn", "compact"]
Price = Callable[[Usage], float | None]
"""Dollars for a usage, None when the catalogue has no price."""


class TokenMeter:
    """The token meter of one task: its totals and the calibration of its estimates."""

    def __init__(
        self,
        *,
        window: Window,
        price: Price,
        budget: Budget | None = None,
        spent: Usage | None = None,
        cost_usd: float = 0,
        session: BudgetLedger | None = None,
        day: DayBudget | None = None,
    ) -> None:
        self.window = window
        self.shared: BudgetLedger | None = None
        """The budget this task shares with the other variants of its prompt, None for a task of its own."""
        self._own = BudgetLedger("the budget", budget or Budget(), self._spent)
        self._session = session
        self._day = day
        self.total = spent or Usage(0, 0, 0, 0, 0, estimated=False)
        self.last = NO_USAGE
        self.cost_usd = cost_usd
        self.cost_known = bool(cost_usd) or price(self.total) is not None
        self.context_tokens = 0
        self.warned = False
        """The person was warned that the window is nearly full; cleared when it is emptier."""
        self._price = price
        self._billed_per_token: float | None = None
        self._factor = 1.0
        self._counted: list[Message] = []
        self._counted_tokens = 0.0
        self._fixed: dict[int, float] = {}

    @property
    def budget(self) -> Budget:
        """Return the limits of this task alone."""
        return self._own.budget

    @budget.setter
    def budget(self, budget: Budget) -> None:
        self._own.budget = budget

    def _spent(self) -> tuple[float, int]:
        return self.cost_usd, self.total.input_tokens + self.total.output_tokens

    def _ledgers(self) -> list[BudgetLedger]:
        """Return the budgets that a request must fit into. All meters have them in this order, so that no two
        of them wait for each other."""
        day = self._day.ledger if self._day is not None else None
        ledgers = (self._own, self.shared, self._session, day)
        return [ledger for ledger in ledgers if ledger is not None]

    @property
    def is_unpriced(self) -> bool:
        """Tell whether the model's price is unknown, so that no limit in dollars can be kept."""
        return self._worst_cost(1_000, 1_000) is None

    def _worst_cost(self, tokens: int, max_output: int) -> float | None:
        """Return the highest possible cost of a request: by the catalogue's price, else by the provider's
        last bill."""
        price = self._price(Usage(tokens, max_output, 0, 0, 0, estimated=True))
        if price is None and self._billed_per_token is not None:
            return self._billed_per_token * (tokens + max_output)
        return price

    def estimate(self, request: ModelRequest) -> int:
        """Estimate the input tokens of a request. Only new messages are counted: those known from the last
        request are compared by identity, in C."""
        history = request.history
        if len(self._counted) > len(history) or not all(map(operator.is_, self._counted, history)):
            self._counted, self._counted_tokens = [], 0.0
        new = history[len(self._counted) :]
        self._counted += new
        self._counted_tokens += sum(map(message_tokens, new))
        return round((self._prefix(request.system, request.tools) + self._counted_tokens) * self._factor)

    def _prefix(self, system: str, tools: Sequence[ToolDefinition]) -> float:
        key = hash((system, tuple(tool.name for tool in tools)))
        if key not in self._fixed:
            self._fixed[key] = text_tokens(system) + sum(
                text_tokens(tool.description) + text_tokens(str(tool.parameters)) + 8 for tool in tools
            )
        return self._fixed[key]

    def fit(self, tokens: int) -> Fit:
        """Return whether a request of this size fits. A guessed limit warns and never compacts."""
        if not self.window.guessed and tokens > self.window.limit - self.window.reserve:
            return "compact"
        return "warn" if tokens > self.window.limit * WARN_SHARE else "fits"

    async def reserve(
        self, tokens: int, max_output: int, heard: Callable[[str], None] = lambda _why: None
    ) -> BudgetReached | None:
        """Reserve the worst case of the next request of the conversation in the budgets of task, variants,
        session and day; None where it fits. Waits, and says so to `heard`, where only running requests of
        others leave no room."""
        return await self._reserve(self, self._worst_cost(tokens, max_output) or 0.0, tokens, heard)

    def release(self) -> None:
        """End the reservation of a request that is over, or that failed."""
        self._release(self)

    def request_aside(
        self, tokens: int, max_output: int
    ) -> AbstractAsyncContextManager[BudgetReached | None]:
        """Reserve the worst case of a request beside the conversation until the block ends."""
        return self._reserved(self._worst_cost(tokens, max_output) or 0.0, tokens)

    def expense(self, usd: float) -> AbstractAsyncContextManager[BudgetReached | None]:
        """Reserve the price of something beside the requests (a picture, say) in the same budgets until the
        block ends; None where it fits."""
        return self._reserved(usd, 0)

    @asynccontextmanager
    async def _reserved(self, usd: float, tokens: int) -> AsyncGenerator[BudgetReached | None]:
        owner = object()  # several can be under way at once in one task
        try:
            yield await self._reserve(owner, usd, tokens)
        finally:
            self._release(owner)

    async def _reserve(
        self, owner: object, usd: float, tokens: int, heard: Callable[[str], None] = lambda _why: None
    ) -> BudgetReached | None:
        ledgers = self._ledgers()
        # First without waiting: one that fits into no budget is refused at once.
        reached = next(filter(None, (ledger.check(usd, tokens) for ledger in ledgers)), None)
        is_reserved = False
        try:
            for ledger in ledgers:
                reached = reached or await ledger.reserve(owner, usd, tokens, heard)
            is_reserved = reached is None
        finally:
            if not is_reserved:  # refused, or cancelled while it waited for one of them
                self._release(owner)
        return reached

    def _release(self, owner: object) -> None:
        for ledger in self._ledgers():
            ledger.release(owner)

    def charge(self, usd: float | None) -> TokenUsage:
        """Count dollars spent beside the requests; None where the price is not known."""
        self.cost_known = self.cost_known and usd is not None
        self.cost_usd += usd or 0
        if self._day is not None and usd:
            self._day.add(usd)
        return self.report()

    def settle(self, estimated_input: int, message: AssistantMessage) -> tuple[AssistantMessage, TokenUsage]:
        """Count a finished reply. Where the provider stated no usage, the estimate is filled in; otherwise it
        calibrates later estimates (factor clamped to 0.5 to 3)."""
        usage = message.usage
        if usage.input_tokens == 0 and usage.output_tokens == 0:
            usage = Usage(estimated_input, round(message_tokens(message)), 0, 0, 0, estimated=True)
        elif estimated_input and usage.input_tokens:
            raw = estimated_input / self._factor
            self._factor = min(3.0, max(0.5, usage.input_tokens / raw))
        if message.finish == "cut":
            # Anthropic's count of a reply that broke off is the placeholder of its beginning.
            streamed = round(sum(map(_part_tokens, message.parts)))
            if streamed > usage.output_tokens:
                usage = msgspec.structs.replace(usage, output_tokens=streamed, estimated=True)
        is_first = not (self.total.input_tokens or self.total.output_tokens)
        self.last = usage
        self.total = add_usage(self.total, usage)
        self.context_tokens = usage.input_tokens + usage.output_tokens
        cost = self._cost(usage)
        self.cost_known = (is_first or self.cost_known) and cost is not None
        self.cost_usd += cost or 0
        if self._day is not None and cost:
            self._day.add(cost)
        return msgspec.structs.replace(message, usage=usage), self.report()

    def _cost(self, usage: Usage) -> float | None:
        """Return the cost of a reply: the provider's bill, else by the catalogue's price."""
        if usage.cost_usd is None:
            return self._price(usage)
        self._billed_per_token = usage.cost_usd / max(1, usage.input_tokens + usage.output_tokens)
        return usage.cost_usd

    def report(self) -> TokenUsage:
        """Return the totals as an event."""
        return TokenUsage(
            last=self.last,
            total=self.total,
            context_tokens=self.context_tokens,
            context_limit=self.window.limit,
            cost_usd=self.cost_usd,
            cost_known=self.cost_known,
        )


def _check_limit(
    what: str, budget: Budget, spent_usd: float, price_usd: float, used: int, tokens: int
) -> BudgetReached | None:
    if budget.max_tokens and used + tokens > budget.max_tokens:
        left = max(0, budget.max_tokens - used)
        return BudgetReached(f"the next request needs {tokens:,} tokens, {left:,} of {what} are left")
    left_usd = budget.max_cost_usd - spent_usd
    if not budget.max_cost_usd or (left_usd > 0 and price_usd <= left_usd):
        return None
    if left_usd <= 0:
        return BudgetReached(
            f"{what} of {plain_dollars(budget.max_cost_usd)} is used up ({_money(spent_usd)} spent)"
        )
    return BudgetReached(
        f"the next request could cost {_money(price_usd)}, {_money(left_usd)} of {what} is left"
    )


def plain_dollars(usd: float, *, significant: int = 4) -> str:
    """Return an amount in plain decimals, with cents or so many significant digits: `$2.5`, `$0.000001`."""
    decimals = max(2, significant - 1 - math.floor(math.log10(usd))) if usd > 0 else 2
    return "$" + f"{usd:,.{decimals}f}".rstrip("0").rstrip(".")


def _money(dollars: float) -> str:
    return f"${dollars:,.2f}" if dollars >= 0.01 else plain_dollars(dollars, significant=1)
