"""Failures below HTTP, as one sentence each: what was tried, what happened, what to do.

The kind of failure is found in the chain of causes, because every library wraps it differently.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

from buddy.agent.provider import ProviderError


def unreachable(error: BaseException, host: str, *, proxy: str = "") -> ProviderError:
    """No answer at all: the request could not be sent, or nothing came back."""
    target = f"{host} through the proxy {proxy}" if proxy else host
    for cause in _causes(error):
        match cause:
            case ssl.SSLCertVerificationError():
                return _told(
                    f"the certificate of {target} is not trusted ({cause.verify_message}); "
                    "check the clock, the network's sign-in page, or SSL_CERT_FILE",
                    retryable=False,
                )
            case ssl.SSLError():
                return _told(f"no TLS connection to {target} ({_reason(cause)}); check the address and port")
            case socket.gaierror():
                return _told(f"the name of {target} could not be resolved; check the network and base_url")
            case ConnectionRefusedError():
                return _told(f"{target} refused the connection; is the server running, is base_url right?")
            case TimeoutError():
                return _told(f"{target} could not be reached in time; check the network")
            case ConnectionResetError() | BrokenPipeError():
                return ProviderError("cut", f"{target} closed the connection before answering")
            case _:
                pass
    names = {type(cause).__name__ for cause in _causes(error)}
    if "ProxyError" in names:
        return _told(f"the proxy did not connect to {target} ({_reason(error)}); check the proxy settings")
    if names & {"ConnectTimeout", "PoolTimeout"}:
        return _told(f"{target} could not be reached in time; check the network")
    if names & {"UnsupportedProtocol", "InvalidURL", "LocalProtocolError"}:
        return ProviderError(
            "bad_request", f"no request can be sent to {target}: check the profile's base_url"
        )
    if names & {"RemoteProtocolError", "ReadError", "WriteError", "IncompleteReadError"}:
        return ProviderError("cut", f"{target} closed the connection before answering")
    return _told(f"{target} could not be reached ({_reason(error)}); check the network")


def broken_answer(error: BaseException, host: str) -> ProviderError:
    """The answer broke off after it had begun."""
    return ProviderError("cut", f"the connection to {host} broke while the answer arrived ({_reason(error)})")


def _told(sentence: str, *, retryable: bool = True) -> ProviderError:
    return ProviderError("server", sentence, retryable=retryable)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and everything it came from, groups opened."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        cause = waiting.pop(0)
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        if isinstance(cause, BaseExceptionGroup):
            waiting.extend(cause.exceptions)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        waiting += [cause.__cause__, cause.__context__]


def _reason(error: BaseException) -> str:
    """The shortest true words for it."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    text = " ".join(str(error).split())
    return text[:120] if text else type(error).__name__
