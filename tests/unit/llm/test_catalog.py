"""The model catalogue: what a name means, how many tokens fit, what a reply costs; the file that ships."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.agent.messages import Usage
from buddy.llm.catalog import (
    BOUNDARIES,
    CatalogMatch,
    CatalogProvider,
    Catalogue,
    ContextLimit,
    ModelInfo,
    PicturePrices,
    Prices,
    Tier,
    context_limit,
    cost_usd,
    lookup,
    parse_catalogue,
    picture_prices,
    read_catalogue,
    read_price_file,
)

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = ROOT / "templates" / "models.toml"

SMALL = """
[providers.openai]
wire = "chat"
base_url = "https://api.openai.com/v1"
key_env = "OPENAI_API_KEY"

[providers.groq]
aliases = ["groqcloud"]
wire = "chat"
base_url = "https://api.groq.com/openai/v1"
key_env = "GROQ_API_KEY"

[models]
groq = '''
# model            api   context  output  in    out  read  write  capabilities  efforts  tiers  aliases
openai/gpt-oss     chat  131072   -       0.15  0.6  -     -      tools         -        -      gpt-oss
gpt-4              chat  1        -       -     -    -     -      -             -        -      -
'''
anthropic = '''
claude-sonnet-4-5  chat  200000  64000  3  15  0.3  3.75  tools,cache  low,high  -  claude-sonnet-4.5
'''
openai = '''
gpt-4              chat  8192     4096    30    60   -     -      tools         -        -      -
gpt-4o             chat  128000   16384   2.5   10   1.25  -      tools,vision  -        -      -
gpt-6              responses  922000  128000  2  10  0.2   2.5    tools         none,max  272000:4/15/0.4/5  -
'''
"""


@pytest.fixture(scope="module")
def small() -> Catalogue:
    return parse_catalogue(SMALL)


@pytest.fixture(scope="module")
def shipped() -> Catalogue:
    return read_catalogue(SHIPPED)


def found(catalogue: Catalogue, name: str) -> tuple[str, str] | None:
    match = lookup(catalogue, name)
    return None if match is None else (match.info.id, match.how)


def test_a_row_is_read_whole(small: Catalogue) -> None:
    assert lookup(small, "openai/gpt-6") == CatalogMatch(
        ModelInfo(
            id="openai/gpt-6",
            provider="openai",
            name="gpt-6",
            api="responses",
            context=922_000,
            max_output=128_000,
            prices=Prices(2, 10, 0.2, 2.5),
            capabilities=frozenset({"tools"}),
            efforts=("none", "max"),
            tiers=(Tier(272_000, Prices(4, 15, 0.4, 5)),),
            aliases=(),
        ),
        "exact",
        "openai/gpt-6",
    )
    assert small.providers["groqcloud"] == CatalogProvider(
        "groq", "chat", "https://api.groq.com/openai/v1", "GROQ_API_KEY", ("groqcloud",)
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai/gpt-4", ("openai/gpt-4", "exact")),
        ("groq/gpt-4", ("groq/gpt-4", "exact")),
        # A bare name means the maker's row.
        ("gpt-4", ("openai/gpt-4", "alias")),
        ("GPT-4o", ("openai/gpt-4o", "alias")),
        ("claude-sonnet-4.5", ("anthropic/claude-sonnet-4-5", "alias")),
        # Routes and variants fall away.
        ("openrouter/anthropic/claude-sonnet-4.5", ("anthropic/claude-sonnet-4-5", "alias")),
        ("openrouter/anthropic/claude-sonnet-4.5:free", ("anthropic/claude-sonnet-4-5", "alias")),
        # A prefix ends at a boundary: gpt-4 does not swallow gpt-4o, nor gpt-4.1.
        ("gpt-4-0613", ("openai/gpt-4", "prefix")),
        ("gpt-4o-2024-08-06", ("openai/gpt-4o", "prefix")),
        ("gpt-4omni", None),
        ("gpt-4.1", None),
        ("claude-sonnet-4-5@20250929", ("anthropic/claude-sonnet-4-5", "prefix")),
        ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", ("anthropic/claude-sonnet-4-5", "prefix")),
        # A substring starts and ends at one.
        ("azure/team-gpt-4o-eu", ("openai/gpt-4o", "substring")),
        ("my-gpt-4", ("openai/gpt-4", "substring")),
        ("mygpt-4", None),
        ("x-gpt-4-gpt-4o-y", ("openai/gpt-4o", "substring")),
        ("", None),
        ("nobody/knows", None),
    ],
)
def test_names_are_found_in_order(small: Catalogue, name: str, expected: tuple[str, str] | None) -> None:
    assert found(small, name) == expected


NAMES = st.text(alphabet="ab1-:@/", max_size=14)


def catalogue_of(names: set[str]) -> Catalogue:
    prices = Prices(None, None, None, None)
    models = {
        name: ModelInfo(name, "p", name, "chat", 1, 0, prices, frozenset(), (), (), ())
        for name in sorted(names)
    }
    return Catalogue(models, {name: name for name in models}, {}, frozenset())


def at_boundaries(part: str, name: str) -> bool:
    """Tell naively whether a part is in a name between boundaries."""
    places = [at for at in range(len(name) - len(part) + 1) if name.startswith(part, at)]
    return any(
        (at == 0 or name[at - 1] in BOUNDARIES)
        and (at + len(part) == len(name) or name[at + len(part)] in BOUNDARIES)
        for at in places
    )


@given(names=st.sets(NAMES.filter(bool), max_size=8), name=NAMES)
def test_whatever_is_found_stands_in_the_name_at_boundaries(names: set[str], name: str) -> None:
    match = lookup(catalogue_of(names), name)
    if name in names:
        assert match is not None
        assert (match.info.id, match.how) == (name, "exact")
    if match is None:
        assert not [one for one in names if at_boundaries(one, name)]
        return
    assert match.matched in names
    assert at_boundaries(match.matched, name)
    if match.how == "substring":
        assert not [
            one
            for one in names
            if name.startswith(one) and name[len(one) : len(one) + 1] in BOUNDARIES and len(one) < len(name)
        ]


@given(names=st.sets(NAMES.filter(bool), max_size=8), name=NAMES)
def test_of_the_prefixes_the_longest_wins(names: set[str], name: str) -> None:
    match = lookup(catalogue_of(names), name)
    prefixes = [
        one for one in names if name.startswith(one) and len(one) < len(name) and name[len(one)] in BOUNDARIES
    ]
    if match is not None and match.how == "prefix" and prefixes:
        assert match.matched == max(prefixes, key=len)


def test_the_context_window_is_looked_for_in_four_places(small: Catalogue, tmp_path: Path) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text(
        json.dumps(
            {
                "sample_spec": {"max_input_tokens": "the most it takes"},
                "amazon.nova-pro-v1:0": {"max_input_tokens": 300_000},
                "old/one": {"max_tokens": 4096},
            }
        )
    )
    assert context_limit(5000, small, "gpt-4", prices) == ContextLimit(5000, "configuration")
    assert context_limit(0, small, "gpt-4-turbo", prices) == ContextLimit(8192, "catalogue")
    assert context_limit(0, small, "bedrock/amazon.nova-pro-v1:0", prices) == ContextLimit(300_000, "litellm")
    assert context_limit(0, small, "old/one", prices) == ContextLimit(4096, "litellm")
    assert context_limit(0, small, "nobody/knows", prices) == ContextLimit(8192, "guess")
    assert context_limit(0, small, "nobody/knows", None) == ContextLimit(8192, "guess")
    assert read_price_file(tmp_path / "missing.json") == {}
    prices.write_text("{broken")
    assert read_price_file(prices) == {}


@pytest.mark.parametrize(
    ("name", "usage", "dollars"),
    [
        ("gpt-4o", Usage(1_000_000, 100_000, 0, 0, 0, estimated=False), 2.5 + 1),
        ("gpt-4o", Usage(1_000_000, 0, 400_000, 0, 0, estimated=False), 0.6 * 2.5 + 0.4 * 1.25),
        # No price for cached tokens: they cost what others cost.
        ("gpt-4", Usage(1_000_000, 0, 400_000, 100_000, 0, estimated=False), 30),
        ("claude-sonnet-4-5", Usage(100_000, 0, 0, 100_000, 0, estimated=False), 0.375),
        ("gpt-6", Usage(272_000, 0, 0, 0, 0, estimated=False), 0.544),
        ("gpt-6", Usage(272_001, 1_000_000, 0, 0, 0, estimated=False), 272_001 * 4 / 1e6 + 15),
        ("groq/gpt-4", Usage(10, 10, 0, 0, 0, estimated=False), None),
    ],
)
def test_a_reply_costs_what_its_row_says(
    small: Catalogue, name: str, usage: Usage, dollars: float | None
) -> None:
    match = lookup(small, name)
    assert match is not None
    assert cost_usd(match.info, usage) == (None if dollars is None else pytest.approx(dollars))


def test_a_malformed_row_is_named() -> None:
    with pytest.raises(ValueError, match=r"openai: expected 12 columns, found 'gpt-4 chat many'"):
        parse_catalogue("[models]\nopenai = '''\ngpt-4 chat many\n'''")


# --- the file that ships ---


def test_the_shipped_catalogue_is_of_the_right_size(shipped: Catalogue) -> None:
    assert 250 < len(shipped.models) < 400


def test_every_row_of_the_shipped_catalogue_makes_sense(shipped: Catalogue) -> None:
    for row in shipped.models.values():
        assert row.context >= 4096, row.id
        assert "tools" in row.capabilities, row.id
        assert row.provider in shipped.providers, row.id
        assert [tier.above_tokens for tier in row.tiers] == sorted({tier.above_tokens for tier in row.tiers})
        assert found(shipped, row.id) == (row.id, "exact")


def test_direct_lanes_have_an_address_and_say_where_their_key_is(shipped: Catalogue) -> None:
    direct = {provider.name: provider for provider in shipped.providers.values() if provider.wire}
    assert sorted(direct) == [
        *(
            "anthropic",
            "cerebras",
            "deepseek",
            "fireworks_ai",
            "groq",
            "hosted_vllm",
            "llama_cpp",
            "lm_studio",
        ),
        *("mistral", "ollama", "openai", "openrouter", "perplexity", "together_ai", "xai"),
    ]
    for provider in direct.values():
        local = provider.base_url.startswith("http://127.0.0.1:")
        assert local or provider.base_url.startswith("https://")
        assert bool(provider.key_env) != local


def test_the_shipped_catalogue_is_what_its_generator_writes() -> None:
    if find_spec("litellm") is None:
        pytest.fail("the generator reads the installed litellm")
    made = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "make_catalogue.py"), "--check"], capture_output=True, text=True
    )
    assert (made.returncode, made.stderr) == (0, "")


def test_looking_up_imports_neither_litellm_nor_httpx() -> None:
    code = (
        "import sys; from pathlib import Path; from buddy.llm import catalog, routing;"
        f"c = catalog.read_catalogue(Path({str(SHIPPED)!r})); routing.route(c, 'gemini/gemini-2.5-pro');"
        "print([m for m in ('litellm', 'httpx', 'pydantic') if m in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=dict(os.environ),
    )
    assert answer.stdout.strip() == "[]"


def test_a_picture_model_has_the_prices_of_its_row_or_of_its_undated_name() -> None:
    catalogue = read_catalogue(SHIPPED)
    exact = picture_prices(catalogue, "openai", "gpt-image-1.5")
    assert exact == PicturePrices(picture=0.2, text=5, image=8, output=32)
    assert picture_prices(catalogue, "openai", "gpt-image-1.5-2025-12-16") == exact
    assert picture_prices(catalogue, "openai", "gpt-image-1") != exact
    for unknown in ("gpt-image-1.7", "gpt-image", "dall-e-9", ""):
        assert picture_prices(catalogue, "openai", unknown) is None
    assert picture_prices(catalogue, "nobody", "gpt-image-1") is None
