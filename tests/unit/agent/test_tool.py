"""Functions as tools: with and without a context, Pydantic and msgspec types, still callable (part 4.5)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, Field

from buddy.agent.host import Agent, Allowed, Denied
from buddy.agent.library import Conversation
from buddy.agent.schema import ArgumentsError
from buddy.agent.tool import Tool, ToolContext, ToolError, ToolRegistry, tool
from tests.support.laws import ScriptedLane, calls, says


class Item(BaseModel):
    name: str
    count: int = Field(1, ge=1)


class Order(BaseModel):
    customer: str
    items: list[Item]


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclass
class Size:
    width: int


async def run(one: Tool, **arguments: Any) -> str:
    context = ToolContext(0, "c", lambda _text: None, asyncio.Event(), {})
    return (await one.run(context, one.decode(json.dumps(arguments)))).text


@tool(risk="low")
def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


@tool(risk="low")
async def who(ctx: ToolContext, name: str) -> str:
    """Say who."""
    return f"{name} in task {ctx.task_id}"


@tool(risk="low")
async def unannotated(_call, name: str) -> str:
    """Take a context without annotation."""
    return f"{name} {type(_call).__name__}"


@tool(risk="low")
def book(order: Order, at: Point, sizes: list[Size], spare: Item | None = None) -> Order:
    """Book."""
    assert isinstance(order, Order)
    assert isinstance(at, Point)
    assert all(isinstance(size, Size) for size in sizes)
    assert spare is None or isinstance(spare, Item)
    return order


@tool(risk="low")
def nothing() -> None:
    """Do nothing."""


async def test_a_function_without_a_context_gets_all_of_its_arguments() -> None:
    assert set(add.parameters["properties"]) == {"a", "b"}
    assert await run(add, a=1) == "3"
    assert await run(add, a=1, b=5) == "6"
    assert await run(nothing) == "the tool returned nothing"


async def test_a_context_is_recognised_by_annotation_and_where_there_is_none() -> None:
    assert set(who.parameters["properties"]) == {"name"}
    assert await run(who, name="a") == "a in task 0"
    assert await run(unannotated, name="a") == "a ToolContext"


async def test_the_decorated_function_stays_callable() -> None:
    assert add(1, 2) == 3
    assert add(a=4) == 6
    context = ToolContext(7, "c", lambda _text: None, asyncio.Event(), {})
    assert await who(context, "b") == "b in task 7"


async def test_pydantic_msgspec_and_dataclass_arguments_arrive_as_what_they_are() -> None:
    order = {"customer": "c", "items": [{"name": "n", "count": 2}]}
    answer = await run(book, order=order, at={"x": 1}, sizes=[{"width": 3}], spare={"name": "s"})
    assert json.loads(answer) == order


def test_the_schema_of_pydantic_models_has_no_references() -> None:
    text = json.dumps(book.parameters)
    assert "$ref" not in text
    assert "$defs" not in text
    item = book.parameters["properties"]["order"]["properties"]["items"]["items"]
    assert item["properties"]["count"]["minimum"] == 1


def test_pydantics_objections_are_what_the_model_reads() -> None:
    with pytest.raises(ArgumentsError, match="greater than or equal to 1"):
        book.decode(
            '{"order": {"customer": "c", "items": [{"name": "n", "count": 0}]}, "at": {"x": 1}, "sizes": []}'
        )


async def test_an_answer_without_a_json_form_is_an_error() -> None:
    @tool(risk="low")
    def odd() -> object:
        """Answer with an object."""
        return object()

    with pytest.raises(ToolError, match="has no JSON form"):
        await run(odd)


@pytest.mark.parametrize("allow", [True, False])
async def test_part_4_an_async_decide_is_awaited(allow: bool) -> None:
    async def decide(_call: object, _tool: object, _arguments: object) -> Allowed | Denied:
        await asyncio.sleep(0)
        return Allowed() if allow else Denied("not today")

    lane = ScriptedLane(calls(("c1", "add", '{"a": 1}')), says("ok"))
    conversation = Conversation(Agent(lane, ToolRegistry([add]), "m"), decide=decide)
    messages = await conversation.prompt("go").result()
    texts = [getattr(message, "text", "") for message in messages]
    assert ("3" if allow else "denied: not today") in texts
