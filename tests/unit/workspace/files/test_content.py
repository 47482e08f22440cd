"""Files in legacy encodings are read, searched and edited as what they say; in doubt they are latin-1."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.workspace.files.content import decode, legacy_encoding
from tests.support.tool_project import CommandProject, tool_project

JAPANESE = "# 合計を計算する関数です。\nprint('こんにちは、世界')\n"
CHINESE = "# 这个函数计算总和，然后返回结果。\nprint('你好，世界')\n"
KOREAN = "# 이 함수는 합계를 계산하고 결과를 돌려줍니다.\nprint('안녕하세요')\n"
RUSSIAN = "# Эта функция считает сумму и возвращает результат.\nprint('Привет, мир')\n"
TEXTS = {
    "cp932": (JAPANESE, "世界", "皆さん"),
    "gb18030": (CHINESE, "世界", "朋友"),
    "cp949": (KOREAN, "안녕하세요", "여러분"),
    "cp1251": (RUSSIAN, "мир", "друг"),
}
WESTERN = (
    "grün\nold\n",
    "# Calcule la moyenne des éléments déjà traités à l'été\n",
    "/* © 2020 */ int x;\n",
    "ÄÖÜ ß © ® ° ± µ\n",
    "räksmörgås på bordet är färdig\n",
)


@pytest.fixture
async def project(tmp_path: Path) -> AsyncGenerator[CommandProject]:
    async with tool_project(tmp_path) as project:
        yield project


@pytest.mark.parametrize("encoding", TEXTS)
def test_text_in_a_legacy_encoding_is_readable_and_changes_only_where_it_is_edited(encoding: str) -> None:
    text, old, new = TEXTS[encoding]
    data = text.encode(encoding)

    content = decode(data)

    assert content is not None
    assert (content.encoding, content.raw) == (encoding, text)
    assert content.encode(content.raw.replace(old, new)) == text.replace(old, new).encode(encoding)


@pytest.mark.parametrize("encoding", TEXTS)
async def test_a_search_shows_and_finds_text_in_a_legacy_encoding(
    project: CommandProject, encoding: str
) -> None:
    text, word, _ = TEXTS[encoding]
    project.put("a.py", text.encode(encoding))

    assert await project.grep("print", context=0) == f"a.py\n2:{text.splitlines()[1]}\n[1 match in 1 file]"
    assert await project.grep(word, context=0) == f"a.py\n2:{text.splitlines()[1]}\n[1 match in 1 file]"


@pytest.mark.parametrize("text", WESTERN)
def test_western_text_stays_latin_1(text: str) -> None:
    assert legacy_encoding(text.encode("latin-1")) == "latin-1"


@pytest.mark.parametrize("text", [JAPANESE, CHINESE, KOREAN, RUSSIAN, "Hello wörld “quotes”\n"])
def test_utf_8_with_one_bad_byte_is_latin_1(text: str) -> None:
    assert legacy_encoding(text.encode() * 3 + b"\xff\n" + text.encode()) == "latin-1"


@pytest.mark.parametrize("text", ["# 中文\n", "# привет\nx = 1\n"])
def test_text_too_short_to_tell_is_latin_1(text: str) -> None:
    encoding = "gb18030" if "中" in text else "cp1251"

    assert legacy_encoding(text.encode(encoding)) == "latin-1"


@given(st.binary(max_size=300))
def test_any_bytes_come_back_unchanged(data: bytes) -> None:
    encoding = legacy_encoding(data)

    assert data.decode(encoding).encode(encoding) == data
