"""The litellm lane: every provider that has no direct one, behind the same `Provider` protocol."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
import re
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from time import monotonic
from typing import Any, Literal, cast

from buddy.agent.lazy_regex import pattern
from buddy.agent.provider import ModelDelta, ModelRequest, ProviderError
from buddy.llm.direct.lane import MAX_ERROR_BYTES, host_of
from buddy.llm.errors import classify, redact
from buddy.llm.http.errors import broken_answer, redirect_error, unreachable, unusable_answer
from buddy.llm.http.limits import HttpError, RedirectError, target_of
from buddy.llm.keys import Key, key_for_request
from buddy.llm.litellm_lane import messages as litellm_messages
from buddy.llm.litellm_lane.chunks import ChunkReader, Tap, UsageChunks
from buddy.llm.litellm_lane.loader import LitellmLibrary, LitellmUnavailableError

HOLDERS = frozenset({"litellm", "openai", "httpx", "aiohttp", "async_generator"})
MAX_LOOKED_AT = 200


async def hang_up(stream: Any) -> None:
    """Close a stream of litellm and every HTTP response beneath it. Never raises for what closing does."""
    responses = responses_in(getattr(stream, "completion_stream", None))
    for holder in (stream, *responses):
        with contextlib.suppress(Exception):  # it is left anyway
            await holder.aclose()


def responses_in(holder: Any) -> list[Any]:
    """Return the HTTP responses an iterator reads from."""
    found: list[Any] = []
    seen: set[int] = set()
    waiting: deque[Any] = deque([holder])
    while waiting and len(seen) < MAX_LOOKED_AT:
        one = waiting.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if hasattr(one, "status_code") and hasattr(one, "is_closed") and hasattr(one, "aclose"):
            found.append(one)
            continue
        frame = getattr(one, "ag_frame", None)
        parts = getattr(one, "__dict__", {}) if frame is None else frame.f_locals
        waiting.extend(part for part in list(parts.values()) if _may_hold(part))
    return found


def _may_hold(part: Any) -> bool:
    name, module = str(part.__class__.__name__), str(part.__class__.__module__)
    return name in HOLDERS or module.partition(".")[0] in HOLDERS


ANTHROPIC_MODELS = pattern(r"claude|anthropic", re.IGNORECASE)
LOOP_SHARE_S = 0.004
"""How long chunks are taken apart before the event loop gets its turn."""
PREFIXES = pattern(r"^(?:litellm\.[\w.]+: ?|[A-Z]\w*(?:Error|Exception)\b(?: ?[:-])? ?)+")
NOISE = pattern(r"(?s)(?:Traceback \(most recent call last\).*|\.? ?Handle with `litellm\.\w+`\.?)$")
BYTES = pattern(r"""\bb(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
"""A body as litellm prints it into its messages: the `repr` of bytes."""
NO_SUCH_PROVIDER = "LLM Provider NOT provided"
"""litellm's words for a name whose first part it does not know."""
NO_AWS_CREDENTIALS = frozenset({"NoCredentialsError", "PartialCredentialsError", "ProfileNotFound"})
"""botocore's exceptions, by name: it is not imported for this."""
AWS_ADVICE = "no AWS credentials: set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
NO_TERMINAL_EVENT = "before any terminal event"
"""litellm's words for a responses stream that ended without its end."""
TRANSPORT_ERRORS = frozenset(
    {
        *("ConnectError", "ConnectTimeout", "ProxyError", "PoolTimeout", "UnsupportedProtocol", "InvalidURL"),
        *("ReadError", "ReadTimeout", "WriteError", "WriteTimeout", "CloseError", "gaierror", "SSLError"),
        *("RemoteProtocolError", "LocalProtocolError", "IncompleteReadError", "ConnectionResetError"),
    }
)
"""Exceptions below HTTP, by name: httpx is not imported for this."""


class LitellmProvider:
    """Answers through litellm. `base_url` replaces the provider's address; `api` is the catalogue's word;
    `timeout_s` bounds a whole call (watching its stream is the idle watchdog's work); `options` go to litellm
    as they are (aws_region_name, api_version …)."""

    def __init__(
        self,
        library: LitellmLibrary,
        *,
        key: Key,
        base_url: str = "",
        api: Literal["chat", "responses"] = "chat",
        timeout_s: float = 3600,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._library = library
        self._key = key
        self._base_url = base_url
        self._api: Literal["chat", "responses"] = api
        self._timeout_s = timeout_s
        self._options = dict(options or {})

    @property
    def lane(self) -> str:
        """Return the wire format's name."""
        return litellm_messages.LANE

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Yield the reply in pieces. Raises `ProviderError`."""
        try:
            litellm = await self._library.module()
        except LitellmUnavailableError as error:
            raise ProviderError("bad_request", str(error)) from error
        key = await key_for_request(self._key)
        owner = provider_of(request.model)
        arguments = self.arguments(request, key, litellm)
        stream: Any = None
        reader, tap = ChunkReader(keeps_cost=self._api != "responses"), Tap()
        try:
            stream = await litellm.acompletion(**arguments)
            if stream is None:  # it drops parameters after a 422 and swallows the second one
                raise ProviderError("bad_request", f"{owner} cannot process the request (422)", status=422)
            if getattr(stream, "completion_stream", None) is None:
                await stream.fetch_stream()
            tap.watch(stream.completion_stream)
            stream.chunks = UsageChunks()
            turn_over_at = monotonic() + LOOP_SHARE_S
            async for chunk in stream:
                for piece in reader.read(chunk, tap):
                    yield piece
                if monotonic() > turn_over_at:
                    # One read of the socket holds hundreds of chunks at 0.4 ms each: keys are due in between.
                    await asyncio.sleep(0)
                    turn_over_at = monotonic() + LOOP_SHARE_S
            for piece in reader.ending(stream, tap):
                yield piece
        except ProviderError:
            raise
        except Exception as error:  # the lane's border: providers raise what they like
            raise error_of(
                error, owner, key=key, has_begun=reader.has_begun, base_url=self._base_url
            ) from error
        finally:
            if stream is not None:
                await hang_up(stream)

    def arguments(self, request: ModelRequest, key: str, litellm: Any) -> dict[str, Any]:
        """Return the keyword arguments of `acompletion`."""
        cache = ANTHROPIC_MODELS().search(request.model) is not None
        arguments: dict[str, Any] = {
            "model": self._model(request.model, litellm),
            "messages": litellm_messages.messages(request, cache=cache),
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_retries": 0,
            "num_retries": 0,
            "timeout": self._timeout_s,
            **self._options,
        }
        optional = {
            "tools": litellm_messages.tools(request.tools),
            "api_key": key,
            "api_base": self._base_url,
        }
        arguments.update({name: value for name, value in optional.items() if value})
        sampling = {
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "reasoning_effort": request.effort,
        }
        arguments.update({name: value for name, value in sampling.items() if value is not None})
        if self._api == "responses":
            # Nothing is stored at the provider, so its reasoning has to travel with the conversation.
            arguments.update(include=["reasoning.encrypted_content"], store=False)
        return arguments

    def _model(self, name: str, litellm: Any) -> str:
        """Return litellm's name of the model. With a base url, an unknown first part is the user's own name:
        the server speaks OpenAI's protocol and gets the part after the slash."""
        provider, slash, rest = name.partition("/")
        known = {str(getattr(one, "value", one)) for one in litellm.provider_list}
        if self._base_url and (not slash or provider not in known):
            name = f"openai/{rest if slash else name}"
            provider, _, rest = name.partition("/")
        if self._api == "responses" and not rest.startswith("responses/"):
            return f"{provider}/responses/{rest}" if slash else f"responses/{name}"
        return name


def provider_of(model: str) -> str:
    """Return the provider's name for error sentences."""
    return model.partition("/")[0] if "/" in model else "the provider"


def error_of(
    error: Exception, provider: str, *, key: str, has_begun: bool, base_url: str = ""
) -> ProviderError:
    """Translate a litellm exception by its HTTP status, which is reliable, then by its text; its class only
    tells whether there was an answer at all. `has_begun`: part of the answer had arrived."""
    # In the middle of a stream the real one is wrapped.
    error = getattr(error, "original_exception", None) or error
    causes = _causes(error)
    host = host_of(base_url) if base_url else provider
    for cause in causes:
        if isinstance(cause, RedirectError):
            return redirect_error(redact(cause.location, key)[:200], host, cause.status)
        if isinstance(cause, HttpError):
            return unusable_answer(cause, host)
        if isinstance(cause, ProviderError):
            return cause  # of the HTTP engine, which knows best
    if TRANSPORT_ERRORS & {type(one).__name__ for one in causes}:
        if has_begun:
            return broken_answer(error, host)
        return unreachable(error, host, address=target_of(base_url).address if base_url else "")
    if isinstance(causes[-1], ImportError):
        missing = str(causes[-1]).rstrip(".")
        return ProviderError(
            "bad_request",
            f"litellm can't import what {provider} needs ({missing}): install that, or buddy again",
        )
    text = _text(error)
    if any(type(one).__name__ in NO_AWS_CREDENTIALS for one in causes):
        return ProviderError("auth", AWS_ADVICE)
    if NO_SUCH_PROVIDER in text:
        return ProviderError(
            "not_found",
            f"no provider is called {provider!r}: expected provider/model, or a base_url; "
            "`buddy models` lists the known ones",
        )
    if NO_TERMINAL_EVENT in text:
        return broken_answer(error, provider)
    return classify(_status(causes), _headers(causes), _body(error, text), provider, key=key)


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        current = current.__cause__ or current.__context__
    return found


def _status(causes: list[BaseException]) -> int:
    """Return the answer's HTTP status, 0 without one: as the innermost cause has it, litellm rounds some."""
    stated = (getattr(cause, "status_code", None) for cause in reversed(causes))
    return next((status for status in stated if isinstance(status, int) and status >= 400), 0)


def _headers(causes: list[BaseException]) -> dict[str, str]:
    """Return the answer's headers: litellm drops them from some of its exceptions, the causes keep them."""
    found: dict[str, str] = {}
    for cause in reversed(causes):
        response = getattr(cause, "response", None)
        for holder in (getattr(response, "headers", None), getattr(cause, "headers", None)):
            found.update({str(name).lower(): str(value) for name, value in dict(holder or {}).items()})
    return found


def _body(error: Exception, text: str) -> object:
    """Return the server's error body: as kept by litellm, else the JSON in the exception's text, else the
    text."""
    body = getattr(error, "body", None)
    if body:
        return cast("object", body)
    written = BYTES().search(text)
    if written:
        text = ast.literal_eval(written[0]).decode("utf-8", "replace")
    start = text.find("{")
    if start < 0:
        return text
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, start)[0]
    except ValueError:
        return text


def _text(error: Exception) -> str:
    told = NOISE().sub("", str(getattr(error, "message", "") or error)[:MAX_ERROR_BYTES].rstrip())
    return PREFIXES().sub("", told).strip()
