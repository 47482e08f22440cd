"""litellm's import: seconds of CPU, so it happens in a daemon thread, once, and only when a profile needs it.

This is the one place that imports litellm (and the only module that may). What must be set before the import
and after it stands here, with the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import logging
import os
import threading
import warnings
from collections.abc import Callable, MutableMapping
from concurrent.futures import Future
from typing import Any

from buddy.agent.interpreter import giving_way

BEFORE_IMPORT = {
    # Otherwise it loads a `.env` found upward of its install directory into the environment.
    "LITELLM_MODE": "PRODUCTION",
    # Otherwise the import fetches the price map over the network.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # It kills a stream after 100 identical chunks, which long runs of blanks or table rules reach.
    "REPEATED_STREAMING_CHUNK_LIMIT": "1000000000",
}

FIRST_CALL_MODULES = (
    # Imported by the first call that has tools: 1.3 s, on top of the person's own waiting.
    "litellm.responses.mcp.chat_completions_handler",
    # Imported by every first call, on the event loop: 0.2 s without an echo.
    "litellm.proxy.openai_files_endpoints.common_utils",
)
LATER_MODULES = (
    # For providers it reaches through the OpenAI client: 0.6 s, imported on the event loop otherwise.
    "openai.resources",
)

_log = logging.getLogger(__name__)
NOISY_MODULES = r"(?:litellm|pydantic|openai|mcp|httpx|aiohttp)(?:\..*)?$"
LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "litellm")


class LitellmUnavailableError(Exception):
    """litellm could not be imported; the message says why and what to do."""


HTTP_HANDLERS = "litellm.llms.custom_httpx.http_handler"


class LitellmLibrary:
    """The imported module, or the promise of it. One per process, made by whoever builds the providers."""

    name = "litellm"

    def __init__(
        self,
        environment: MutableMapping[str, str] = os.environ,
        importer: Callable[[str], Any] | None = None,
    ) -> None:
        self._environment = environment
        self._importer = importer or importlib.import_module
        self._future: Future[Any] | None = None
        self._transport: Any = None

    def start(self) -> None:
        """Begin the import in the background (after the first frame is drawn), once."""
        if self._future is not None:
            return
        self._future = Future()
        # A daemon: a person who leaves does not wait for an import.
        threading.Thread(target=self._run, args=(self._future,), name="import-litellm", daemon=True).start()

    @property
    def is_loaded(self) -> bool:
        """Tell whether the import has finished, successfully or not."""
        return self._future is not None and self._future.done()

    async def load(self) -> None:
        """Wait for the import. A failure is told by the request that needs it."""
        with contextlib.suppress(LitellmUnavailableError):
            await self.module()

    async def module(self) -> Any:
        """Return the module, waiting for its import. Raises `LitellmUnavailableError`."""
        self.start()
        assert self._future is not None
        # Shielded: a cancelled call must not cancel the import that the next one waits for.
        return await asyncio.shield(asyncio.wrap_future(self._future))

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        if self._transport is not None:
            await self._transport.aclose()

    def _run(self, future: Future[Any]) -> None:
        with giving_way():
            self._fulfil(future)

    def _fulfil(self, future: Future[Any]) -> None:
        try:
            module = self._import()
        except Exception as error:  # noqa: BLE001 - whatever an import raises belongs to whoever awaits it
            reason = f"litellm could not be imported ({type(error).__name__}: {error}); reinstall buddy-repl"
            unavailable = LitellmUnavailableError(reason)
            unavailable.__cause__ = error
            future.set_exception(unavailable)
            return
        future.set_result(module)
        for name in LATER_MODULES:
            self._preload(name)

    def _preload(self, name: str) -> None:
        """Import what some requests need. Where that fails, those meet the same error, and tell it."""
        try:
            self._importer(name)
        except Exception:  # noqa: BLE001 - as in `_fulfil`; here nobody awaits it
            _log.warning("%s could not be imported ahead", name, exc_info=True)

    def _import(self) -> Any:
        for name, value in BEFORE_IMPORT.items():
            self._environment.setdefault(name, value)
        # Their warnings, at import and with every reply, would be printed over the screen.
        warnings.filterwarnings("ignore", module=NOISY_MODULES)
        # Collections during the import stall the event loop; afterwards nothing of it is ever garbage.
        gc.disable()
        try:
            module = self._importer("litellm")
            for name in FIRST_CALL_MODULES:
                self._importer(name)
            configure(module)
            handlers = self._importer(HTTP_HANDLERS)
            disarm_destructor(handlers)
            from buddy.llm.litellm_lane.transport import take_over  # it imports httpx, as litellm has by now

            self._transport = take_over(module, handlers, self._environment)
        finally:
            gc.enable()
            gc.freeze()
        return module


def disarm_destructor(handlers: Any) -> None:
    """Disable the destructor of litellm's HTTP handlers. It imports a module, which at interpreter exit can
    deadlock on an import lock (seen in every other exit); the aiohttp session it would close is ruled out by
    `configure`."""
    handlers.AsyncHTTPHandler._dispose_wrapped_aiohttp_session = _dispose_of_nothing  # noqa: SLF001 - as above


def _dispose_of_nothing(_handler: Any) -> None:
    return


def configure(module: Any) -> None:
    """Set litellm up as a quiet library."""
    module.suppress_debug_info = True
    module.drop_params = True
    # httpx keeps one behaviour for proxies, certificates and closing; aiohttp leaves sessions open.
    module.disable_aiohttp_transport = True
    # It counts the tokens of the whole prompt before every reply and of the reply after it.
    module.disable_token_counter = True
    # It assembles every finished stream again for its own accounting: 300 ms of blocked loop, and it merges
    # parallel calls. Nothing here uses the result; its callers accept None.
    module.stream_chunk_builder = _no_accounting
    # Builds their validators: 60 ms inside the first reply otherwise.
    for record in ("ModelResponseStream", "ModelResponse"):
        getattr(module, record)()
    for name in LOGGERS:
        logger = logging.getLogger(name)
        for handler in list(logger.handlers):
            logger.removeHandler(handler)
        # Without any handler Python prints warnings to stderr; propagation takes them to our log file.
        logger.addHandler(logging.NullHandler())
        logger.setLevel(logging.WARNING)
        logger.propagate = True


def _no_accounting(*_args: Any, **_kwargs: Any) -> None:
    """Replace litellm's `stream_chunk_builder`."""
