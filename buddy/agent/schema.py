"""Tool arguments: the record and the JSON schema of a signature, decoding, and error texts."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Never, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from buddy.agent.argument_repair import choices, fields_of, fit_arguments
from buddy.agent.lazy_regex import pattern

MAX_ARGUMENT_CHARS = 1_000_000
MAX_DEPTH = 64
_STEP = pattern(r"\.(\w+)|(\[)")
_PUNCTUATION = pattern(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


class ArgumentsError(ValueError):
    """Arguments a tool cannot take. The message is what the model reads."""


class JsonError(ArgumentsError):
    """Text that is no JSON, or too much of it. `problem` says what it is instead."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(f"arguments are {problem}{hint}")
        self.problem = problem


_PLAIN: Mapping[str, type] = {"str": str, "int": int, "float": float, "bool": bool}
"""The annotations of most arguments: evaluating all annotations takes 3 ms at every start."""


def arguments_type(function: Callable[..., Any], signature: inspect.Signature) -> type[msgspec.Struct]:
    """Return the record of a tool function's parameters, its context left out. Raises `TypeError` for a
    function that can't be called with them by name."""
    parameters = _parameters(function, signature)
    hints = _hints(function, parameters)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in parameters:
        name = parameter.name
        if name not in hints:
            raise TypeError(f"{function.__name__}: parameter {name} needs an annotation: it is the schema")
        if parameter.default is inspect.Parameter.empty:
            fields.append((name, hints[name]))
        else:
            fields.append((name, hints[name], parameter.default))
    return msgspec.defstruct(
        f"{function.__name__}_arguments", fields, frozen=True, kw_only=True, forbid_unknown_fields=True
    )


def is_plain(record: type[msgspec.Struct]) -> bool:
    """Tell whether every field has a type that certainly has a schema: plain types, literal texts, lists of
    them, or one of these and None, with or without a description."""
    return all(_is_plain(hint) for hint in record.__annotations__.values())


def _is_plain(hint: Any) -> bool:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        described = [cast(Any, note).description for note in parts[1:] if isinstance(note, msgspec.Meta)]
        return list(parts[1:]) == [msgspec.Meta(description=text) for text in described] and _is_plain(
            parts[0]
        )
    if origin in (Union, UnionType):
        return len(parts) == 2 and type(None) in parts and all(map(_is_plain, {*parts} - {type(None)}))
    if origin is Literal:
        return all(isinstance(part, str) for part in parts)
    return _is_plain(parts[0]) if origin is list else hint in _PLAIN.values()


def takes_context(signature: inspect.Signature) -> bool:
    """Tell whether a tool function's first parameter is the context of the call: it is annotated as
    `ToolContext`, has no annotation, or is named ctx or context."""
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        return False
    written = first.annotation
    if written is inspect.Parameter.empty or first.name.strip("_") in ("ctx", "context"):
        return True
    name = written if isinstance(written, str) else getattr(written, "__name__", "")
    return name.rpartition(".")[2] == "ToolContext"


def _parameters(function: Callable[..., Any], signature: inspect.Signature) -> list[inspect.Parameter]:
    found = list(signature.parameters.values())[int(takes_context(signature)) :]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for parameter in found:
        if parameter.kind not in named:
            raise TypeError(f"{function.__name__}: expected parameters with names, found {parameter}")
    return found


def _hints(function: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> dict[str, Any]:
    """Return the types of annotated parameters; the return type is ignored."""
    found: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for parameter in parameters:
        written = parameter.annotation
        if isinstance(written, str) and written in _PLAIN:
            found[parameter.name] = _PLAIN[written]
        elif written is not inspect.Parameter.empty:
            others[parameter.name] = written
    scope = SimpleNamespace(__annotations__=others, __globals__=inspect.unwrap(function).__globals__)
    return {**found, **get_type_hints(scope, include_extras=True)} if others else found


def _pydantic_schema(kind: type) -> dict[str, Any]:
    """Return the schema of a Pydantic model. The model is recognised by its methods, so that pydantic need
    not be imported."""
    if not hasattr(kind, "model_json_schema"):
        raise NotImplementedError
    schema: dict[str, Any] = cast(Any, kind).model_json_schema(ref_template="{model}")
    return cast("dict[str, Any]", _inline(schema, schema.pop("$defs", {})))


def _pydantic_value(kind: type, value: Any) -> Any:
    """Return an argument as a Pydantic model. Its errors are `ValueError`: msgspec reports them with their
    place."""
    if not hasattr(kind, "model_validate"):
        raise NotImplementedError
    return cast(Any, kind).model_validate(value)


def parameters_schema(record: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON schema of a record, without references and titles. It does not forbid other arguments:
    that would be paid for with each request of each tool, and the error of a call names those there are."""
    (schema,), components = msgspec.json.schema_components(
        [record], schema_hook=_pydantic_schema, ref_template="{name}"
    )
    inlined = cast(dict[str, Any], _inline(schema, components))
    properties = {name: _shorten(value) for name, value in inlined.get("properties", {}).items()}
    required: list[str] = inlined.get("required", [])
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
    }


CLOSED = ("additionalProperties", False)


def _shorten(schema: dict[str, Any]) -> dict[str, Any]:
    """Shorten a parameter's schema, because it is sent with each request. Empty defaults and null say only
    "optional", which `required` says already, and "." only "here"; titles and record descriptions repeat the
    tool's description; unknown arguments are refused without a word about them in the schema."""
    kinds: list[dict[str, Any]] = schema.get("anyOf", [])
    if {"type": "null"} in kinds and len(kinds) == 2:
        (kept,) = (kind for kind in kinds if kind != {"type": "null"})
        schema = {**kept, **{key: value for key, value in schema.items() if key != "anyOf"}}
    short = {
        key: value
        for key, value in schema.items()
        if not (key == "default" and value in ("", ".", False, None, [])) and (key, value) != CLOSED
    }
    if "items" in short:
        short["items"] = _shorten(short["items"])
        if "properties" in short["items"]:
            short["items"].pop("description", None)
    if "properties" in short:
        short["properties"] = {name: _shorten(value) for name, value in short["properties"].items()}
    return short


def _inline(schema: Any, components: Mapping[str, Any], inside: tuple[str, ...] = ()) -> Any:
    if isinstance(schema, list):
        return [_inline(item, components, inside) for item in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    node = cast(dict[str, Any], schema)
    if "$ref" in node:
        name = node["$ref"]
        if name in inside:
            raise TypeError(f"{name} contains itself; expected types that end")
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return {**_inline(components[name], components, (*inside, name)), **rest}
    return {
        key: {name: _inline(value, components, inside) for name, value in value_.items()}
        if key == "properties"
        else _inline(value_, components, inside)
        for key, value_ in node.items()
        if key != "title"
    }


def parse_json(text: str) -> Any:
    """Strict JSON. Raises `JsonError` that shows where the text broke."""
    if len(text) > MAX_ARGUMENT_CHARS:
        raise JsonError(f"{len(text)} characters long; at most {MAX_ARGUMENT_CHARS} are taken")
    _check_depth(text)
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        around = text[max(0, error.pos - 30) : error.pos + 30]
        place = f"at character {error.pos}, near {around!r}."
        problem = f"not valid JSON: {error.msg.removesuffix(' at')} {place}"
        raise JsonError(problem, " Send one JSON object.") from error
    except ValueError as error:
        raise JsonError(f"not acceptable JSON: {str(error)[:200]}") from error


def _check_depth(text: str) -> None:
    depth = 0
    for found in _PUNCTUATION().finditer(text):
        sign = found.group()[0]
        if sign in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise JsonError(f"nested deeper than {MAX_DEPTH} levels")
        elif sign in "]}":
            depth -= 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key[:80]!r} is given twice")
        found[key] = value
    return found


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


def decode_arguments(text: str, record: type[msgspec.Struct], aliases: Mapping[str, str]) -> msgspec.Struct:
    """Decode a model's JSON text into a record. Aliases of arguments are accepted, unknown names are not."""
    data = parse_json(text if text.strip() else "{}")
    if not isinstance(data, dict):
        raise ArgumentsError(
            f"expected one JSON object with {_describe_arguments(record)}, found {type(data).__name__}"
        )
    given = cast(dict[str, Any], data)
    _rename(given, record, aliases)
    unknown = sorted(set(given) - set(record.__struct_fields__))
    if unknown:
        names = ", ".join(repr(name[:80]) for name in unknown[:8])
        raise ArgumentsError(f"unknown argument {names}; expected {_describe_arguments(record)}")
    fit_arguments(given, record, parse_json)
    try:
        return msgspec.convert(given, record, strict=False, dec_hook=_pydantic_value)
    except msgspec.ValidationError as error:
        raise ArgumentsError(
            f"{error}{_describe_nested(str(error), record)}; expected {_describe_arguments(record)}"
        ) from error


def _rename(given: dict[str, Any], record: type[msgspec.Struct], aliases: Mapping[str, str]) -> None:
    """Give arguments their own names, in the records inside this one as well."""
    names = record.__struct_fields__
    for alias, name in aliases.items():
        if alias in given and alias not in names and name in names and name not in given:
            given[name] = given.pop(alias)
    for field in fields_of(record):
        inner = _record_in(field.type) if field.name in given and aliases else None
        if inner is None:
            continue
        value = given[field.name]
        for item in cast(list[Any], value) if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                _rename(cast(dict[str, Any], item), inner, aliases)


def _record_in(kind: Any) -> type[msgspec.Struct] | None:
    """Return the record a type holds: itself, the items of a list, one side of a union."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    return next((found for inner in get_args(kind) if (found := _record_in(inner)) is not None), None)


def _describe_arguments(record: type[msgspec.Struct]) -> str:
    fields = fields_of(record)
    if not fields:
        return "no arguments"
    return ", ".join(
        f"{field.name} ({'required' if field.required else 'optional'}{_words(field.type)})"
        for field in fields
    )


def _describe_nested(error: str, record: type[msgspec.Struct]) -> str:
    """Describe the allowed values inside an argument: the fields of a record, or its words. "" for an
    argument itself."""
    steps = ["".join(step) for step in _STEP().findall(error.rpartition("`$")[2])]
    unknown: dict[str, Any] = {}
    node = parameters_schema(record) if len(steps) > 1 else unknown
    for step in steps:
        wanted = "items" if step == "[" else step
        inner: list[dict[str, Any]] = [node, *node.get("anyOf", [])]
        found: list[object] = [one.get("properties", one).get(wanted) for one in inner]
        node = next((cast(dict[str, Any], one) for one in found if isinstance(one, dict)), unknown)
    if "enum" in node:
        return f" (one of {', '.join(map(str, node['enum']))})"
    required = node.get("required", [])
    fields = [name if name in required else f"{name} (optional)" for name in node.get("properties", {})]
    return f" (an object with {', '.join(fields)})" if fields else ""


def _words(kind: Any) -> str:
    words = choices(kind)
    return f": {', '.join(words)}" if words else ""


MAX_SHOWN = 40


class Problem(msgspec.Struct, frozen=True):
    """A value of the wrong type. `names` is the path to it from the converted value."""

    names: tuple[str, ...]
    words: str

    def sentence(self) -> str:
        """Return the problem with its place: `mode: expected …`."""
        return f"{'.'.join(self.names)}: {self.words}" if self.names else self.words


def explain(error: msgspec.ValidationError, value: Any, wanted: Any, *, shown: bool = False) -> Problem:
    """Explain an error of `msgspec.convert(value, wanted)`. A found text may be a secret: it is quoted only
    where one of a few words was expected, or with `shown`."""
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
    found = "" if value is ... else f", found {_describe_value(value, wanted, shown)}"
    return Problem(tuple(names), f"expected {_describe_type(wanted)}{found}")


def _bare(wanted: Any) -> Any:
    """Return a type without the None that may stand in its place."""
    if get_origin(wanted) in (Union, UnionType):
        return next(argument for argument in get_args(wanted) if argument is not type(None))
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


def _describe_type(wanted: Any) -> str:
    if get_origin(wanted) is Literal:  # in the order in which it was declared
        *others, last = (str(argument) or '""' for argument in get_args(wanted))
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


def _describe_value(value: object, wanted: Any, shown: bool) -> str:
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
