"""The welcome screen for users without a model, with the keys and local servers on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from buddy.llm.catalog import Catalogue
from buddy.llm.local_servers import LocalServer, find_local_servers

SHOWN_MODELS = 4


async def first_run_text(
    problem: str, catalogue: Catalogue, environment: Mapping[str, str], *, chosen: bool
) -> str:
    """Return the welcome text: what to set, the keys and local servers that exist, and the demo. `chosen`: a
    model is chosen, and the problem says what it lacks."""
    keys = sorted(
        {p.key_env for p in catalogue.providers.values() if p.key_env and environment.get(p.key_env)}
    )
    return welcome(problem, keys, await find_local_servers(), chosen=chosen)


def welcome(
    problem: str, keys: Sequence[str], servers: Sequence[LocalServer], *, chosen: bool = False
) -> str:
    """Return the screen for the key variables that are set and the servers that answer. Every command in it
    can be typed as shown."""
    lines = ["Welcome to buddy. It needs a model before it can answer:", f"  {problem}", ""]
    for server in servers:
        lines.append(f"Found a model server on this machine, at {server.base_url}:")
        if server.models:
            lines.append(f"  buddy -m {server.provider}/{server.models[0]}")
            lines += [f"  (or {_shorten(server.models[1:])})"] if len(server.models) > 1 else []
        else:
            lines.append(f"  it has no model yet; after adding one:  buddy -m {server.provider}/MODEL")
    if keys:
        lines += [
            f"Keys in your environment: {', '.join(keys)}.",
            "  Choose a model:  buddy -m PROVIDER/MODEL",
        ]
    else:
        lines += [
            "Another model, with a key:" if chosen else "With a key:",
            "  export OPENAI_API_KEY=…  (or ANTHROPIC_API_KEY, …), or: buddy login openai",
            "  then  buddy -m openai/MODEL; buddy models lists the models",
        ]
    if not servers:
        lines += ["Locally, without a key:", "  start Ollama, LM Studio, llama.cpp or vLLM; buddy detects it"]
    lines += [
        "Permanently:",
        "  set [api] model in your buddy.toml; buddy init writes one",
        "Try it:",
        "  buddy demo  runs the whole program with a scripted model",
    ]
    return "\n".join(lines)


def _shorten(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN_MODELS]) + (", …" if len(names) > SHOWN_MODELS else "")
