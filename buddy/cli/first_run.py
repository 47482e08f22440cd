"""What somebody without a key reads first: one screen, with what was found on this machine."""

from __future__ import annotations

from collections.abc import Mapping

from buddy.llm.catalog import Catalogue
from buddy.llm.local_servers import find_local_servers


async def first_run_text(problem: str, known: Catalogue, environment: Mapping[str, str]) -> str:
    """What to set, which keys and local servers there are, and the demo."""
    found = sorted({p.key_env for p in known.providers.values() if p.key_env and environment.get(p.key_env)})
    servers = await find_local_servers()
    lines = ["Welcome to buddy. It needs a model before it can answer:", f"  {problem}", ""]
    if found:
        lines += [
            f"Keys in your environment: {', '.join(found)}.",
            "  Choose a model of theirs:  buddy -m PROVIDER/MODEL",
            "  or for good:               buddy init, then set [api] model",
        ]
    else:
        lines += [
            "With a key:",
            "  export OPENAI_API_KEY=…  (or ANTHROPIC_API_KEY, …), or: buddy login openai",
            "  then buddy init, and set [api] model; buddy models lists what there is",
        ]
    for server in servers:
        model = server.models[0] if server.models else "MODEL"
        lines += [
            f"Found {server.provider} on this machine at {server.base_url}: put into buddy.toml",
            f'  [api]  model = "{server.provider}/{model}"  base_url = "{server.base_url}"',
        ]
    if not servers:
        lines += ["Locally, without a key:", "  start Ollama, LM Studio, llama.cpp or vLLM: buddy finds it"]
    lines += ["Just look:", "  buddy demo  runs the whole program with a scripted model"]
    return "\n".join(lines)
