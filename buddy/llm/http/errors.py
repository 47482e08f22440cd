"""Failures below HTTP, as one sentence each: what was tried, what happened, what to do.

The kind of failure is found in the chain of causes, because every library wraps it differently.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator
from typing import cast

from buddy.agent.provider import ProviderError


def unreachable(
    error: BaseException, host: str, *, address: str = "", proxy: str = "", setting: str = "base_url"
) -> ProviderError:
    """Build the error for no answer: the request could not be sent, or nothing came back. `address` is the
    host with its port, if known; `setting` the name of the setting that holds it."""
    if proxy:
        return _behind_proxy(error, host, proxy)
    for cause in _causes(error):
        match cause:
            case ssl.SSLCertVerificationError():
                return _server_error(
                    f"the certificate of {host} is not trusted ({cause.verify_message}); "
                    "check the clock, the network's sign-in page, or SSL_CERT_FILE",
                    retryable=False,
                )
            case ssl.SSLError():
                return _server_error(
                    f"no TLS connection to {host} ({_reason(cause)}); check the address and port"
                )
            case socket.gaierror():
                return _server_error(
                    f"the name of {host} could not be resolved; check the network and {setting}"
                )
            case ConnectionRefusedError():
                return _connection_refusal(address or host, setting)
            case TimeoutError():
                return _server_error(f"{host} could not be reached in time; check the network")
            case ConnectionResetError() | BrokenPipeError():
                return ProviderError("cut", f"{host} closed the connection before answering")
            case OSError() if f"Errno {errno.ECONNREFUSED}" in str(cause):  # several addresses, all refused
                return _connection_refusal(address or host, setting)
            case _:
                pass
    names = {type(cause).__name__ for cause in _causes(error)}
    if names & {"ConnectTimeout", "PoolTimeout"}:
        return _server_error(f"{host} could not be reached in time; check the network")
    if names & {"UnsupportedProtocol", "InvalidURL", "LocalProtocolError"}:
        return ProviderError("bad_request", f"no request can be sent to {host}: check its {setting}")
    if names & {"RemoteProtocolError", "ReadError", "WriteError", "IncompleteReadError"}:
        return ProviderError("cut", f"{host} closed the connection before answering")
    return _server_error(f"{host} could not be reached ({_reason(error)}); check the network")


def _behind_proxy(error: BaseException, host: str, proxy: str) -> ProviderError:
    """Build the error for a failure behind a proxy, which is the proxy's only when its name or port is at
    fault."""
    reasons = {type(cause).__name__: cause for cause in _causes(error)}
    certificate = reasons.get("SSLCertVerificationError")
    if certificate is not None:
        return _server_error(
            f"the certificate of {host} is not trusted behind the proxy {proxy}; "
            "if the proxy opens TLS, name its certificates in SSL_CERT_FILE",
            retryable=False,
        )
    why = _reason(error)
    return _server_error(
        f"no connection to {host} through the proxy {proxy} ({why}); check the proxy settings"
    )


def broken_answer(error: BaseException, host: str) -> ProviderError:
    """Build the error for an answer that broke off."""
    return ProviderError("cut", f"the connection to {host} broke while the answer arrived ({_reason(error)})")


def unusable_answer(error: BaseException, host: str) -> ProviderError:
    """Build the error for bytes that are no answer of a model server; a repetition would not help."""
    return ProviderError("server", f"{host} gave an unusable answer: {error}", retryable=False)


def redirect_error(location: str, host: str, status: int) -> ProviderError:
    """Build the error for a redirect, which is never followed: it would take the key and the conversation to
    another address."""
    return ProviderError(
        "not_found",
        f"{host} redirects to {location}: expected an answer; "
        "check the profile's base_url, or sign in to the network",
        status=status,
    )


def _connection_refusal(address: str, setting: str) -> ProviderError:
    return _server_error(f"{address} refuses connections; is the server up, is {setting} right?")


def _server_error(sentence: str, *, retryable: bool = True) -> ProviderError:
    return ProviderError("server", sentence, retryable=retryable)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and everything it came from, groups opened."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        cause = waiting.pop(0)
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        if isinstance(cause, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", cause).exceptions
        waiting += [cause.__cause__, cause.__context__]


def _reason(error: BaseException) -> str:
    """Return the shortest true words for it."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    text = " ".join(str(error).split())
    return text[:120] if text else type(error).__name__
