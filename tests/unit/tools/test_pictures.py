"""`generate_image` and `remove_background`, against a fake image API over real HTTP."""

from __future__ import annotations

import asyncio
import errno
import re
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import pytest

from buddy.agent.display import Picture, PictureFile, Plain
from buddy.agent.tool import ToolContext, ToolError
from buddy.llm.catalog import PicturePrices
from buddy.llm.direct.lane import Endpoint
from buddy.llm.direct.pictures import OpenAIPictures
from buddy.llm.keyed_provider import ProfileKey
from buddy.llm.keys import KeyResolver, KeySource
from buddy.llm.pictures import PictureService
from buddy.tools.pictures import Pictures, generate_image, keep_pictures, picture_paths, remove_background
from buddy.tools.task_model import TaskModel
from buddy.workspace.files.atomic_replace import DISK, Disk
from buddy.workspace.files.store import digest_of
from tests.fake_llm.pictures import PictureAnswer, form_of, made, png, refused
from tests.fake_llm.server import FakeLLM
from tests.support.lanes import connect
from tests.support.tool_project import ToolProject

PICTURE, OTHER = png(), png(8, 5)
CLEAR = png(alpha=True)
PRICES = PicturePrices(picture=0.25, text=5, image=10, output=40)


class PictureProject(ToolProject):
    """A project with a picture service and a purse."""

    def __init__(self, root: Path, service: PictureService, disk: Disk | None = None) -> None:
        super().__init__(root) if disk is None else super().__init__(root, disk=disk)
        self.service = service
        self.charged: list[float | None] = []
        self.budget = ""
        self.kept_in = str(self.root.parent / "output")

    def services(self, task_id: int = 1) -> dict[type, object]:
        model = TaskModel(
            lambda: "m", lambda: True, lambda _usd: nullcontext(self.budget), self.charged.append
        )
        return {
            **super().services(task_id),
            Pictures: Pictures(lambda: self.service, self.kept_in),
            TaskModel: model,
        }


@asynccontextmanager
async def studio(
    folder: Path, *answers: PictureAnswer, prices: PicturePrices | None = PRICES, key: str = "sk-test-key"
) -> AsyncIterator[tuple[PictureProject, FakeLLM]]:
    async with FakeLLM([], pictures=answers) as server:
        profile_key = ProfileKey(
            KeyResolver(
                KeySource("openai", literal=key), environment={}, credentials="/nonexistent", warn=print
            )
        )
        endpoint = Endpoint(f"{server.url}/v1", lambda: profile_key.value)
        lane = OpenAIPictures(endpoint, connect, total_s=30)
        service = PictureService("gpt-image-1", lane, profile_key, lambda: [key], prices)
        try:
            folder.mkdir(exist_ok=True)
            yield PictureProject(folder, service), server
        finally:
            await lane.aclose()


async def test_a_picture_is_made_checked_written_counted_and_taken_back(tmp_path: Path) -> None:
    usage = {
        "input_tokens": 100,
        "output_tokens": 1000,
        "input_tokens_details": {"text_tokens": 100, "image_tokens": 0},
    }
    async with studio(tmp_path, made(PICTURE, usage=usage)) as (project, server):
        result = await project.call(generate_image, prompt="a cat", path="art/cat.png")
        assert project.bytes("art/cat.png") == PICTURE
        assert result.text == f"art/cat.png: 4 × 3, image/png, {len(PICTURE)} bytes\ncost: $0.0405"
        file = PictureFile(str(project.root / "art/cat.png"), digest_of(PICTURE))
        assert isinstance(result.display, Picture)
        assert result.display.files == (file,)
        assert project.charged == [pytest.approx(0.0405)]
        assert project.progress == ["asking gpt-image-1 for 1 picture\n"]
        assert server.orders[0].json["output_format"] == "png"
        project.undo.undo(project.locks)
        assert not (project.root / "art/cat.png").exists()


async def test_several_pictures_get_numbers_and_missing_ones_are_told(tmp_path: Path) -> None:
    assert picture_paths("a/b.c.png", 2) == ("a/b.c-1.png", "a/b.c-2.png")
    async with studio(tmp_path, made(PICTURE, OTHER)) as (project, _):
        result = await project.call(generate_image, prompt="a cat", path="cat.png", count=3)
        assert (project.bytes("cat-1.png"), project.bytes("cat-2.png")) == (PICTURE, OTHER)
        assert "The service made 2 of 3 pictures." in result.text
        assert project.charged == [0.5]  # the service counted no tokens: the dearest picture, twice
        assert not (project.root / "cat-3.png").exists()


async def test_a_price_that_is_not_known_is_told_and_counted_as_unknown(tmp_path: Path) -> None:
    async with studio(tmp_path, made(PICTURE), prices=None) as (project, _):
        assert "cost: unknown" in await project.ask(generate_image, prompt="a cat", path="cat.png")
        assert project.charged == [None]


async def test_a_file_that_is_there_is_replaced_only_when_that_was_shown(tmp_path: Path) -> None:
    async with studio(tmp_path, made(PICTURE)) as (project, server):
        project.put("cat.png", b"mine")
        told = await project.ask(generate_image, prompt="a cat", path="cat.png")
        assert told.startswith("refused: cat.png exists and nobody was asked")
        assert (server.orders, project.charged) == ([], [])  # and nothing was paid for

        shown = project.preview(generate_image, "c1", prompt="a cat", path="cat.png")
        assert shown == Plain(
            "generate cat.png",
            "a cat\ngpt-image-1, at most about $0.25\nReplaces cat.png (4 bytes).",
        )
        await project.call(generate_image, call_id="c1", prompt="a cat", path="cat.png")
        assert project.bytes("cat.png") == PICTURE
        project.undo.undo(project.locks)
        assert project.bytes("cat.png") == b"mine"


async def test_a_file_that_changed_after_it_was_shown_is_not_replaced(tmp_path: Path) -> None:
    async with studio(tmp_path, made(PICTURE)) as (project, _):
        project.put("cat.png", b"mine")
        project.preview(generate_image, "c1", prompt="a cat", path="cat.png")
        project.put("cat.png", b"mine, changed")
        with pytest.raises(ToolError, match="changed on disk after this change was shown"):
            await project.call(generate_image, call_id="c1", prompt="a cat", path="cat.png")
        assert project.bytes("cat.png") == b"mine, changed"


async def test_a_file_that_appears_while_the_picture_is_made_is_not_replaced(tmp_path: Path) -> None:
    async with studio(tmp_path, made(PICTURE)) as (project, _):
        service = project.service
        make = service.make

        async def slow(order: object, heard: Callable[[int], None]) -> object:
            answer = await make(order, heard)  # type: ignore[arg-type]
            project.put("cat.png", b"mine")
            return answer

        project.service = Appearing(service, slow)  # type: ignore[assignment]
        context = ToolContext(1, "late", project.progress.append, project.cancelled, project.services())
        with pytest.raises(ToolError, match=r"exists and nobody was asked(.|\n)*kept as"):
            await generate_image.run(context, generate_image.decode('{"prompt": "a cat", "path": "cat.png"}'))
        assert project.bytes("cat.png") == b"mine"


class Appearing:
    """A service that lets something happen before it answers."""

    def __init__(self, inner: PictureService, make: object) -> None:
        self.model, self.worst_cost, self.cost, self.make = inner.model, inner.worst_cost, inner.cost, make


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (refused(403, "Your organization must be verified"), "Your organization must be verified"),
        (refused(429, "Rate limit reached for images"), "Rate limit reached"),
        (refused(500, "The server had an error"), "The server had an error"),
        (made(b"#!/bin/sh\necho hello\n"), "21 bytes that are no PNG, JPEG, GIF or WebP"),
        (made(b"<svg xmlns='http://www.w3.org/2000/svg' onload='x()'/>"), "that are no PNG"),
        (made(PICTURE[:15]), "that are no PNG"),
        (PictureAnswer(b"oops"), "not what an image API sends"),
        (PictureAnswer(b'{"data": "' + b"A" * 1_000_000, times=100), "has more than 64,000,000 bytes"),
    ],
)
async def test_a_bad_answer_writes_nothing(tmp_path: Path, answer: PictureAnswer, said: str) -> None:
    async with studio(tmp_path, answer) as (project, _):
        told = await project.ask(generate_image, prompt="a cat", path="cat.png")
        assert told.startswith("refused: ")
        assert said in told
        assert not (project.root / "cat.png").exists()
        assert project.undo.entries() == ()


async def test_a_key_never_stands_in_a_refusal(tmp_path: Path) -> None:
    async with studio(tmp_path, refused(401, "Incorrect API key provided: sk-test-key")) as (project, _):
        told = await project.ask(generate_image, prompt="a cat", path="cat.png")
        assert "sk-test-key" not in told
        assert "api_key in buddy.toml" in told


async def test_a_cancelled_order_writes_and_costs_nothing(tmp_path: Path) -> None:
    async with studio(tmp_path, PictureAnswer(made(PICTURE).body, stalls=True)) as (project, server):
        call = asyncio.create_task(project.call(generate_image, prompt="a cat", path="cat.png"))
        await server.ordered(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await server.order_ended(1)).outcome == "aborted"
        assert (project.charged, (project.root / "cat.png").exists()) == ([], False)


async def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    def write(_descriptor: int, _data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    full = Disk(write, DISK.sync, DISK.rename, DISK.exchange)
    async with studio(tmp_path / "a", made(PICTURE)) as (first, _):
        project = PictureProject(first.root, first.service, full)
        project.put("cat.png", b"mine")
        project.preview(generate_image, "c1", prompt="a cat", path="cat.png")
        with pytest.raises(ToolError, match="the disk is full") as refused_call:
            await project.call(generate_image, call_id="c1", prompt="a cat", path="cat.png")
        assert project.bytes("cat.png") == b"mine"
        assert kept_by(str(refused_call.value)) == [PICTURE]
        assert project.charged == [0.25]
        assert [one.name for one in project.root.glob("**/*.tmp")] == []


def kept_by(words: str) -> list[bytes]:
    """Return the pictures that a refusal names, which say what they cost."""
    named = re.search(r"already paid for \(cost: \$0\.\d+\), kept as (.+): move from there", words)
    assert named is not None, words
    return [Path(path).read_bytes() for path in named[1].split(", ")]


async def test_paid_pictures_are_kept_where_their_folder_has_gone(tmp_path: Path) -> None:
    async with studio(tmp_path / "work", made(PICTURE, OTHER)) as (project, _):
        make = project.service.make

        async def slow(order: object, heard: Callable[[int], None]) -> object:
            answer = await make(order, heard)  # type: ignore[arg-type]
            project.put("art", b"a file now")
            return answer

        project.service = Appearing(project.service, slow)  # type: ignore[assignment]
        told = await project.ask(generate_image, prompt="a cat", path="art/cat.png", count=2)
        assert told.startswith("refused: ")
        assert kept_by(told) == [PICTURE, OTHER]
        assert {str(path.parent) for path in Path(project.kept_in).iterdir()} == {project.kept_in}
        assert "kept as " + project.kept_in in told


async def test_paid_pictures_are_kept_in_a_temporary_folder_where_the_session_has_no_room(
    tmp_path: Path,
) -> None:
    (tmp_path / "output").write_bytes(b"no folder")
    told = keep_pictures(str(tmp_path / "output"), [PICTURE, PICTURE], "cost: $0.5")
    assert kept_by(told) == [PICTURE, PICTURE]
    (folder,) = {Path(path).parent for path in re.findall(r"/\S+\.png", told)}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())
    shutil.rmtree(folder)


async def test_a_budget_that_is_used_up_orders_nothing(tmp_path: Path) -> None:
    async with studio(tmp_path, made(PICTURE)) as (project, server):
        project.budget = "the budget of $0.1 is used up"
        told = await project.ask(generate_image, prompt="a cat", path="cat.png")
        assert told == "refused: no picture was ordered: the budget of $0.1 is used up"
        assert server.orders == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": "cat.svg"}, "expected one that ends in .png, .jpg or .webp"),
        ({"path": "cat"}, "expected one that ends in .png, .jpg or .webp"),
        ({"path": "cat.png", "size": "big"}, "size is 'big'; expected WIDTHxHEIGHT"),
        ({"path": "cat.png", "size": "1024x0"}, "expected WIDTHxHEIGHT"),
        ({"path": "cat.png", "count": 0}, "count"),
        ({"path": "cat.png", "count": 99}, "count"),
        ({"path": "cat.png", "prompt": ""}, "prompt"),
        ({"path": "folder.png"}, "is a folder"),
        ({"path": "a\0b.png"}, ""),
    ],
)
async def test_a_call_that_cannot_work_is_refused_before_it_costs(
    tmp_path: Path, arguments: dict[str, object], said: str
) -> None:
    async with studio(tmp_path, made(PICTURE)) as (project, server):
        (project.root / "folder.png").mkdir()
        told = await project.ask(generate_image, **{"prompt": "a cat", **arguments})
        assert told.startswith("refused: ")
        assert said in told
        assert server.orders == []


async def test_a_picture_of_another_kind_than_its_name_is_told(tmp_path: Path) -> None:
    async with studio(tmp_path, made(PICTURE)) as (project, _):
        told = await project.ask(generate_image, prompt="a cat", path="cat.jpg")
        assert "Note: the service sent image/png, whatever the name says" in told


async def test_a_link_that_leads_out_of_the_workspace_is_judged_by_its_target(tmp_path: Path) -> None:
    async with studio(tmp_path / "work", made(PICTURE)) as (project, server):
        outside = tmp_path / "outside.png"
        outside.write_bytes(b"theirs")
        (project.root / "cat.png").symlink_to(outside)
        told = await project.ask(generate_image, prompt="a cat", path="cat.png")
        assert "exists and nobody was asked" in told
        assert (outside.read_bytes(), server.orders) == (b"theirs", [])


async def test_a_background_is_removed(tmp_path: Path) -> None:
    async with studio(tmp_path, made(CLEAR)) as (project, server):
        project.put("cat.png", PICTURE)
        result = await project.call(remove_background, path="cat.png", to="cut.png")
        sent = form_of(server.orders[0])
        assert (sent["image"], sent["background"], sent["output_format"]) == (
            PICTURE,
            b"transparent",
            b"png",
        )
        assert (project.bytes("cut.png"), project.bytes("cat.png")) == (CLEAR, PICTURE)
        assert "Note" not in result.text


async def test_an_answer_without_transparency_is_told(tmp_path: Path) -> None:
    async with studio(tmp_path, made(OTHER)) as (project, _):
        project.put("cat.png", PICTURE)
        told = await project.ask(remove_background, path="cat.png", to="cut.png")
        assert told.endswith("Note: the service sent a picture without transparency.")


@pytest.mark.parametrize(
    ("content", "to", "said"),
    [
        (PICTURE, "cut.jpg", "expected one that ends in .png or .webp, which can be transparent"),
        (PICTURE, "cat.png", "cat.png exists and nobody was asked"),
        (b"-----BEGIN PRIVATE KEY-----", "cut.png", "cat.png is no PNG, JPEG or WebP"),
        (png(2)[:16] + b"\0\1\0\0" * 2 + png(2)[24:], "cut.png", "65,536 × 65,536 pixels"),
        (None, "cut.png", "there is no file cat.png"),
    ],
)
async def test_only_a_picture_of_reasonable_size_is_sent(
    tmp_path: Path, content: bytes | None, to: str, said: str
) -> None:
    async with studio(tmp_path, made(CLEAR)) as (project, server):
        if content is not None:
            project.put("cat.png", content)
        assert said in await project.ask(remove_background, path="cat.png", to=to)
        assert server.orders == []


async def test_a_picture_that_was_exchanged_after_the_approval_is_not_sent(tmp_path: Path) -> None:
    async with studio(tmp_path, made(CLEAR)) as (project, server):
        project.put("cat.png", PICTURE)
        shown = project.preview(remove_background, "c1", path="cat.png", to="cut.png")
        assert isinstance(shown, Plain)
        assert "Sends cat.png" in shown.body
        project.put("cat.png", OTHER)
        with pytest.raises(ToolError, match="changed on disk after"):
            await project.call(remove_background, call_id="c1", path="cat.png", to="cut.png")
        assert server.orders == []


async def test_what_is_missing_is_said_where_no_model_is_set(tmp_path: Path) -> None:
    async with studio(tmp_path, made(PICTURE)) as (project, _):

        def none() -> PictureService:
            raise ToolError("no model for pictures is set")

        context = ToolContext(
            1,
            "c",
            project.progress.append,
            asyncio.Event(),
            {**project.services(), Pictures: Pictures(none, "")},
        )
        with pytest.raises(ToolError, match="no model for pictures is set"):
            await generate_image.run(context, generate_image.decode('{"prompt": "a cat", "path": "c.png"}'))
