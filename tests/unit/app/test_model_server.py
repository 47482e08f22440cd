"""A server of the person's own: a typo is refused by its list, and its context is used."""

from __future__ import annotations

import asyncio
from pathlib import Path

from buddy.app.launch import find_launch
from buddy.app.options import Options
from buddy.app.providers import Models
from buddy.config.settings import Profile, Settings
from tests.fake_llm.server import FakeLLM


def models_of(folder: Path, url: str, context: int = 0) -> Models:
    environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "KEY": "sk-test"}
    api = Profile(model="openai/mock-model", base_url=f"{url}/v1", api_key_env="KEY", context_limit=context)
    return Models(Settings(api=api), find_launch(Options(), environment))


async def test_RU_B15_a_typo_is_refused_by_the_servers_own_list(tmp_path: Path) -> None:
    async with FakeLLM([], models=("mock-model", "other")) as server:
        models = models_of(tmp_path, server.url)
        assert await models.problem("othr") == "127.0.0.1 has no model 'othr'; did you mean other?"
        assert await models.problem("zzz") == "127.0.0.1 has no model 'zzz'; it has mock-model, other"
        assert await models.problem("other") == await models.problem("openai/mock-model") == ""
        assert models.list_served("") == ("mock-model", "other")
        assert len(server.listings) == 1
        await models.aclose()


async def test_RU_B15_a_server_that_lists_nothing_refuses_nothing(tmp_path: Path) -> None:
    async with FakeLLM([], models=()) as server:
        models = models_of(tmp_path, server.url)
        assert await models.problem("anything") == ""
        await models.aclose()


async def test_RU_B14_the_context_the_server_has_replaces_the_guess(tmp_path: Path) -> None:
    async with FakeLLM([], models=("mock-model",), context=4321) as server:
        models = models_of(tmp_path, server.url)
        window = models.access("").window
        assert window.guessed
        await models.prepare("", offers_models=False)
        async with asyncio.timeout(20):
            while window.guessed:
                await asyncio.sleep(0.01)
        assert window.limit == 4321
        await models.aclose()


async def test_a_run_without_a_person_with_a_configured_context_asks_for_no_models(
    tmp_path: Path,
) -> None:
    async with FakeLLM([], models=("mock-model",)) as server:
        models = models_of(tmp_path, server.url, context=4321)
        for offers_models in (False, True):
            await models.prepare("", offers_models=offers_models)
            await asyncio.sleep(0)
            assert models.own_servers()[0].is_unasked is not offers_models
        await models.aclose()


async def test_RU_A12_another_model_or_account_has_a_governor_of_its_own(tmp_path: Path) -> None:
    api = Profile(model="openai/one", base_url="http://127.0.0.1:9/v1", api_key_env="KEY")
    work = Profile(model="openai/one", base_url="http://127.0.0.1:9/v1", api_key_env="OTHER")
    settings = Settings(api=api, models={"same": api, "work": work})
    models = Models(settings, find_launch(Options(), {"HOME": str(tmp_path), "KEY": "a", "OTHER": "b"}))
    governor = models.access("").governor
    assert models.access("same").governor is governor
    assert models.access("work").governor is not governor
    assert models.access("openai/two").governor is not governor
    await models.aclose()
