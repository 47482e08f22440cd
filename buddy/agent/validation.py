"""Validation errors of msgspec in words for people: `expected plan, ask, edit or auto, found 'edti'`."""

from __future__ import annotations

import re
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

import msgspec

MAX_SHOWN = 40


class Problem(msgspec.Struct, frozen=True):
    """A value that is not what was expected. `names` lead to it from the value that was converted."""

    names: tuple[str, ...]
    words: str

    def sentence(self) -> str:
        """The problem with its place: `mode: expected …`."""
        return f"{'.'.join(self.names)}: {self.words}" if self.names else self.words


def explain(error: msgspec.ValidationError, value: Any, wanted: Any, *, shown: bool = False) -> Problem:
    """Put an error of `msgspec.convert(value, wanted)` in words. Text that was found may be a secret: it is
    written only where one of a few words was expected, or with `shown`."""
    said, _, path = str(error).partition(" - at `$")
    names: list[str] = []
    for name, index in re.findall(r"\.([^.\[`]+)|\[(\d+|\.\.\.)\]", path):
        wanted, value = _step(_bare(wanted), value, name, index)
        if name:
            names.append(name)
    if said.startswith("Object "):
        return Problem(tuple(names), said.replace("Object contains", "has the").replace("`", "'"))
    wanted = _bare(wanted)
    # msgspec does not say which value of a table it was: `$[...]`.
    found = "" if value is ... else f", found {_found(value, wanted, shown)}"
    return Problem(tuple(names), f"expected {_expected(wanted)}{found}")


def _bare(wanted: Any) -> Any:
    """A type without the None that may stand in its place."""
    if get_origin(wanted) in (Union, UnionType):
        return next(one for one in get_args(wanted) if one is not type(None))
    return wanted


def _step(wanted: Any, value: Any, name: str, index: str) -> tuple[Any, Any]:
    """Type and value of a field, or of an item of a list or table."""
    if name:
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(wanted)}
        inner = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
        return fields[name], inner
    is_list = isinstance(value, list | tuple) and index.isdigit()
    arguments = get_args(wanted)
    item = arguments[-1] if get_origin(wanted) is dict else arguments[0]
    return item, cast("list[Any]", value)[int(index)] if is_list else ...


def _expected(wanted: Any) -> str:
    if get_origin(wanted) is Literal:  # in the order in which it was declared
        *others, last = (str(one) or '""' for one in get_args(wanted))
        return f"{', '.join(others)} or {last}" if others else last
    import msgspec.inspect as kinds  # here: only a mistake needs it

    match info := kinds.type_info(wanted):
        case kinds.BoolType():
            return "true or false"
        case kinds.IntType() | kinds.FloatType():
            noun = "a whole number" if isinstance(info, kinds.IntType) else "a number"
            least = f" from {info.ge:g}" if info.ge is not None else ""
            least = f" above {info.gt:g}" if info.gt is not None else least
            most = f"{' up' if not least else ''} to {info.le:,.0f}" if info.le is not None else ""
            return noun + least + most
        case kinds.StrType():
            return "text"
        case kinds.VarTupleType() | kinds.TupleType() | kinds.ListType():
            return "a list"
        case _:
            return "a table"


def _found(value: object, wanted: Any, shown: bool) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        is_safe = shown or get_origin(wanted) is Literal
        return repr(value[:MAX_SHOWN]) if is_safe else "text"
    return "a table" if isinstance(value, dict) else "a list"
