"""Questions of servers to the person, put through the same service as the model's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from buddy.agent.formatting import whole_number
from buddy.extend.mcp.records import FormAnswer, FormRequest
from buddy.safety.sanitise import clean, one_line, visible
from buddy.tools.ask_user import MAX_OPTIONS, Option, Question, Questions

MAX_FIELDS = 10
TRIES = 3
MESSAGE_CHARS = 1_000
LABEL_CHARS = 200
DECLINE = FormAnswer("decline")
CANCEL = FormAnswer("cancel")
SEND, CHANGE, REFUSE = "send", "change them first", "do not send"
LEAVE_OUT = "leave it out"
DEFAULT_CHARS = 120
QUESTION_CHARS = 1_990
Value = str | int | float | bool | list[str]


async def ask_person(
    server: str, request: FormRequest, questions: Questions, task_id: int, show: Callable[[str], None]
) -> FormAnswer:
    """Put a server's question, field by field, and show what would be sent before it is. Where the form's own
    defaults fill it, they are offered first, all at once. Cancels where nobody is there to answer."""
    if not questions.attended:
        return CANCEL
    head = f"The MCP server {server} asks: {_words(request.message, MESSAGE_CHARS)}"
    warning = "Do not give it a password or key."

    async def put(text: str, options: list[Option], *, multiple: bool = False) -> str | None:
        question = Question(
            text[:QUESTION_CHARS], header=f"MCP {server}"[:60], options=options, multiple=multiple
        )
        (answer,) = await questions.ask(task_id, [question], show)
        return answer

    if request.url:
        text = f"{head}\nIt wants you to open this page: {visible(request.url[:1_000])}\n{warning}"
        answer = await put(text, [Option("I opened it"), Option("no")])
        return CANCEL if answer is None else FormAnswer("accept") if answer == "I opened it" else DECLINE
    fields = _fields(request.schema)
    if len(fields) > MAX_FIELDS:
        return DECLINE
    if not fields:
        answer = await put(head, [Option("yes"), Option("no")])
        return CANCEL if answer is None else FormAnswer("accept") if answer == "yes" else DECLINE
    defaults = {name: value for name, field in fields.items() if (value := default_of(field)) is not None}
    required = _required(request.schema)
    offer = f"{head}\nSend it these values, its own defaults?\n{_rows(defaults)}"
    if defaults and required.issubset(defaults) and len(offer) <= QUESTION_CHARS:
        answer = await put(offer, [Option(SEND), Option(CHANGE), Option(REFUSE)])
        if answer != CHANGE:
            return _decision(answer, defaults)
    content: dict[str, Value | None] = {}
    for name, field in fields.items():
        text = f"{head}\n{_words(_title(name, field), LABEL_CHARS)}{_about(field)}\n{warning}"
        may_miss = name not in required and LEAVE_OUT not in _choices(field)
        options = _options(field, defaults.get(name), is_optional=may_miss)
        for attempt in range(TRIES):
            answer = await put(
                text if not attempt else f"That does not fit: expected {_expected(field)}.\n{text}",
                options,
                multiple=field.get("type") == "array",
            )
            if answer is None:
                return CANCEL
            if answer == LEAVE_OUT and may_miss:
                break
            value = read_value(answer, field)
            if value is not None:
                content[name] = value
                break
        else:
            return DECLINE
        head = f"The MCP server {server} asks:"
    answer = await put(
        f"Send this to the MCP server {server}?\n{_rows(content) or '  (nothing filled in)'}",
        [Option(SEND), Option(REFUSE)],
    )
    return _decision(answer, content)


def _decision(answer: str | None, content: Mapping[str, Value | None]) -> FormAnswer:
    if answer is None:
        return CANCEL
    return FormAnswer("accept", dict(content)) if answer == SEND else DECLINE


def _rows(content: Mapping[str, Value | None]) -> str:
    return "\n".join(
        f"  {_words(name, 40)}: {one_line(_answer_for(value), DEFAULT_CHARS)}"
        for name, value in content.items()
    )


def _answer_for(value: Value | None) -> str:
    """Return a value as the person would type it."""
    match value:
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(value)
        case _:
            return str(value)


def _required(schema: Mapping[str, Any]) -> frozenset[str]:
    names = schema.get("required")
    return frozenset(map(str, cast("list[object]", names))) if isinstance(names, list) else frozenset()


def default_of(field: Mapping[str, Any]) -> Value | None:
    """Return the default of a field, None where it has none, or one that does not fit the field or that the
    person could not be shown as it is."""
    default, choices = field.get("default"), _choices(field)
    match field.get("type"), default:
        case "boolean", bool():
            return default
        case "integer", int() if not isinstance(default, bool):
            return default
        case "number", int() | float() if not isinstance(default, bool):
            return default if abs(default) < float("inf") else None
        case "array", list():
            values = [str(one) for one in cast("list[object]", default)]
            return values if values and {*values} <= {*choices.values()} else None
        case (("string" | None), str()):
            if choices:
                return default if default in choices.values() else None
            is_shown_whole = default == one_line(visible(default), DEFAULT_CHARS)
            return default if default.strip() and is_shown_whole else None
        case _:
            return None


def _fields(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    table = cast("dict[str, object]", properties)
    return {name: cast("dict[str, Any]", field) for name, field in table.items() if isinstance(field, dict)}


def _words(text: object, limit: int) -> str:
    return clean(str(text)).strip()[:limit]


def _title(name: str, field: Mapping[str, Any]) -> str:
    title = field.get("title")
    return title if isinstance(title, str) and title else name


def _about(field: Mapping[str, Any]) -> str:
    about = field.get("description")
    return f": {_words(about, LABEL_CHARS)}" if isinstance(about, str) and about else ""


def _choices(field: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of a field to choose from, by the label that is shown."""
    items = field.get("items")
    source: Mapping[str, Any] = cast("dict[str, Any]", items) if isinstance(items, dict) else field
    named: object = source.get("oneOf") or source.get("anyOf") or ()
    if isinstance(named, list):
        pairs = [cast("dict[str, Any]", one) for one in cast("list[object]", named) if isinstance(one, dict)]
        found = {
            _words(one.get("title") or one["const"], LABEL_CHARS): str(one["const"])
            for one in pairs
            if "const" in one
        }
        if found:
            return found
    values: object = source.get("enum")
    names: object = source.get("enumNames")
    if not isinstance(values, list):
        return {}
    listed = cast("list[object]", values)
    named_so = cast("list[object]", names) if isinstance(names, list) else []
    labels = named_so if len(named_so) == len(listed) else listed
    return {
        _words(label, LABEL_CHARS): str(value) for label, value in zip(labels, listed, strict=True) if label
    }


def _options(field: Mapping[str, Any], default: Value | None, *, is_optional: bool) -> list[Option]:
    """Return the answers to choose from: the field's, its default first, and none at all where it may be left
    out."""
    choices = _choices(field)
    labels = {value: label for label, value in choices.items()}
    match default:
        case None:
            first: list[str] = []
        case list():
            first = [", ".join(labels[one] for one in default)] if len(default) == 1 else []
        case str():
            first = [labels.get(default, default)]
        case _:
            first = [_answer_for(default)]
    rest = ["yes", "no"] if field.get("type") == "boolean" else list(choices)
    last = [LEAVE_OUT] if is_optional else []
    listed = list(dict.fromkeys((*first, *rest, *last)))
    return [Option(label) for label in (listed if len(listed) <= MAX_OPTIONS else [*first, *last])]


def _expected(field: Mapping[str, Any]) -> str:
    choices = _choices(field)
    if choices:
        return f"one of {', '.join(list(choices)[:20])}"
    return {"boolean": "yes or no", "integer": "a whole number", "number": "a number"}.get(
        str(field.get("type")), "text"
    )


def read_value(answer: str, field: Mapping[str, Any]) -> Value | None:
    """Return the value of an answer; None where it does not fit the field."""
    choices = _choices(field)
    words = answer.strip()
    match field.get("type"):
        case "boolean":
            return {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}.get(
                words.lower()
            )
        case "integer":
            sign = -1 if words.startswith("-") else 1
            number = whole_number(words.removeprefix("-"))
            return None if number is None else sign * number
        case "number":
            try:
                value = float(words)
            except ValueError:
                return None
            return value if value == value and abs(value) != float("inf") else None
        case "array":
            chosen = [choices.get(part.strip()) for part in answer.split(",")]
            return [one for one in chosen if one is not None] if all(chosen) else None
        case _ if choices:
            return choices.get(words) or (words if words in choices.values() else None)
        case _:
            return answer
