"""`generate_image` and `remove_background`: pictures made by the image API of a provider.

Both ask each time: they cost money and send words or a file to a stranger. What comes back is checked like
any file of a stranger, by its bytes, and written like an edit: judged path by path, taken back by one undo.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from msgspec import Meta

from buddy.agent.budget import plain_dollars
from buddy.agent.display import Picture, PictureFile, Plain
from buddy.agent.formatting import format_count
from buddy.agent.lazy_regex import pattern
from buddy.agent.provider import ProviderError
from buddy.agent.tool import Access, ToolContext, ToolError, ToolResult, tool
from buddy.llm.pictures import MadePictures, PictureOrder, PictureService
from buddy.safety.paths import Boundary, Located, locate
from buddy.safety.sanitise import visible
from buddy.tools.files.change import ChangePlan, FileChange, Loader, change_files, locate_checked
from buddy.tools.task_model import TaskModel
from buddy.workspace.files.access import DiskFiles
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.files.locks import in_thread
from buddy.workspace.files.picture_header import may_be_transparent, media_type_of, picture_size
from buddy.workspace.files.store import digest_of

MAX_COUNT = 4
MAX_PROMPT_CHARS = 32_000
MAX_SOURCE_BYTES = 25_000_000
MAX_SOURCE_PIXELS = 64_000_000
SIGN_OF_LIFE_S = 5.0
"""A service makes a picture in silence, often for a minute: the elapsed time is shown this often."""
_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}
_SIZE = pattern(r"[1-9]\d{1,4}x[1-9]\d{1,4}")
CUT_OUT = "Remove the background completely. Keep the subject exactly as it is, with clean edges."
_ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif"}
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Pictures:
    """The picture service of a session, found when the first picture is ordered. `service` raises
    `ToolError` that says what to set. `kept_in` is the folder for those that cannot be written where they
    belong."""

    def __init__(self, service: Callable[[], PictureService], kept_in: str) -> None:
        self.service = service
        self.kept_in = kept_in


def picture_paths(path: str, count: int) -> tuple[str, ...]:
    """Return the paths of so many pictures: `logo.png`, or `logo-1.png`, `logo-2.png` …"""
    if count == 1:
        return (path,)
    stem, ending = os.path.splitext(path)
    return tuple(f"{stem}-{number}{ending}" for number in range(1, count + 1))


def _media_type(path: str, *, transparent: bool = False) -> str:
    """Return the kind of picture that a name asks for. Raises `ToolError`."""
    ending = os.path.splitext(path)[1].lower()
    media_type = _TYPES.get(ending, "")
    if not media_type or (transparent and media_type == "image/jpeg"):
        expected = ".png or .webp, which can be transparent" if transparent else ".png, .jpg or .webp"
        raise ToolError(f"{visible(path)} is no name for the picture: expected one that ends in {expected}")
    return media_type


def _check_size(size: str) -> str:
    if size == "auto":
        return ""
    if not _SIZE().fullmatch(size):
        raise ToolError(f"size is {size[:40]!r}; expected WIDTHxHEIGHT in pixels (1024x1024) or auto")
    return size


class _PicturesPlanner:
    """Plans the new files. A file that is there is replaced only where the person was shown that."""

    def __init__(self, pictures: Sequence[bytes], approved: Callable[[str], bool]) -> None:
        self._pictures = pictures
        self._approved = approved

    def __call__(self, ctx: ToolContext, targets: Sequence[Located], loader: Loader) -> ChangePlan:
        changes: list[FileChange] = []
        for data, target in zip(self._pictures, targets, strict=False):
            before = loader(target)
            if before is not None and not self._approved(target.given):
                raise ToolError(
                    f"{target.shown} exists and nobody was asked whether it may be replaced. Nothing was "
                    "written; choose another path"
                )
            changes.append(FileChange(target, before, data, whole=True))
        return ChangePlan(tuple(changes), "")


def _was_shown(ctx: ToolContext) -> Callable[[str], bool]:
    """Return a test for the files whose replacement the approval of this call showed."""
    approved = ctx.service(Approved)
    return lambda path: approved.is_version_known(ctx.call_id, path)


def _preview(ctx: ToolContext, paths: Sequence[str], title: str, lines: Sequence[str]) -> Plain:
    """Return what an approval shows, and remember the files that would be replaced. Raises `ToolError`."""
    replaced: list[str] = []
    for path in paths:
        target = locate(ctx.service(Boundary), path)
        before = DiskFiles().load(target)
        digest = "" if before is None else before.digest
        ctx.service(Approved).remember(ctx.call_id, path, target.real, digest)
        if before is not None:
            replaced.append(f"Replaces {target.shown} ({format_count(len(before.data), 'byte')}).")
    return Plain(title, "\n".join([*lines, *replaced]))


def _price_line(service: PictureService, count: int) -> str:
    worst = service.worst_cost(count)
    known = "an unknown price" if worst is None else f"at most about {plain_dollars(worst, significant=2)}"
    return f"{visible(service.model)}, {known}"


async def _order(ctx: ToolContext, service: PictureService, order: PictureOrder) -> MadePictures:
    """Order pictures within the budget and count their cost. Raises `ToolError`."""
    model = ctx.find(TaskModel)
    if model is None:
        return await _make(ctx, service, order)
    async with model.expense(service.worst_cost(order.count) or 0.0) as reason:
        if reason:
            raise ToolError(f"no picture was ordered: {reason}")
        made = await _make(ctx, service, order)
        model.charge(service.cost(made))
    return made


async def _make(ctx: ToolContext, service: PictureService, order: PictureOrder) -> MadePictures:
    """Order pictures and show that something goes on. Raises `ToolError`."""
    ctx.progress(f"asking {visible(service.model)} for {format_count(order.count, 'picture')}\n")
    received = 0

    def heard(size: int) -> None:
        nonlocal received
        received = size

    async def show_life() -> None:
        since = time.monotonic()
        while True:
            await asyncio.sleep(SIGN_OF_LIFE_S)
            got = f", {format_count(received, 'byte')} received" if received else ""
            ctx.progress(f"{time.monotonic() - since:.0f} s{got}\n")

    life = asyncio.create_task(show_life())
    try:
        return await service.make(order, heard)
    except ProviderError as error:
        raise ToolError(f"{visible(service.model)} made no picture: {error.message}") from error
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)


def _checked(made: MadePictures, most: int) -> tuple[bytes, ...]:
    """Return the pictures, each known by its bytes. Raises `ToolError`."""
    for data in made.pictures:
        if not media_type_of(data) or picture_size(data) is None:
            raise ToolError(
                f"the service sent {format_count(len(data), 'byte')} that are no PNG, JPEG, GIF or WebP. "
                "Nothing was written"
            )
    return made.pictures[:most]


async def _write(
    ctx: ToolContext, name: str, pictures: Sequence[bytes], paths: Sequence[str], cost: float | None
) -> ToolResult:
    used = paths[: len(pictures)]
    planner = _PicturesPlanner(pictures, _was_shown(ctx))
    price = "cost: unknown" if cost is None else f"cost: {plain_dollars(cost)}"
    try:
        await change_files(ctx, name, used, planner)
    except ToolError as error:
        folder = ctx.service(Pictures).kept_in
        place = await in_thread(lambda: keep_pictures(folder, pictures, price))
        raise ToolError(f"{error}\n{place}") from error
    lines: list[str] = []
    files: list[PictureFile] = []
    for path, data in zip(used, pictures, strict=True):
        target, media_type = locate(ctx.service(Boundary), path), media_type_of(data)
        width, height = picture_size(data) or (0, 0)
        line = f"{target.shown}: {width} × {height}, {media_type}, {format_count(len(data), 'byte')}"
        if media_type != _TYPES.get(os.path.splitext(path)[1].lower()):
            line += f"; Note: the service sent {media_type}, whatever the name says"
        lines.append(line)
        files.append(PictureFile(target.real, digest_of(data)))
    if len(pictures) < len(paths):
        lines.append(f"The service made {len(pictures)} of {len(paths)} pictures.")
    lines.append(price)
    shown = Picture(", ".join(map(visible, used)), "; ".join(lines), tuple(files))
    return ToolResult("\n".join(lines), shown)


def _access_new(arguments: Any) -> Access:
    return Access(writes=picture_paths(arguments.path, arguments.count))


def _preview_new(ctx: ToolContext, arguments: Any) -> Plain:
    _media_type(arguments.path)
    _check_size(arguments.size)
    paths = picture_paths(arguments.path, arguments.count)
    service = ctx.service(Pictures).service()
    title = f"generate {', '.join(map(visible, paths))}"
    return _preview(ctx, paths, title, [arguments.prompt, _price_line(service, arguments.count)])


@tool(
    risk="high",
    category="files",
    access=_access_new,
    preview=_preview_new,
    keeps_undo=True,
    effect="it sends the prompt to an image service, which costs money",
    query=lambda arguments: arguments.prompt,
    subject=lambda arguments: arguments.path,
    aliases=("image_generation", "image_gen"),
    argument_aliases={"n": "count", "file_path": "path", "output": "path", "description": "prompt"},
)
async def generate_image(
    ctx: ToolContext,
    prompt: Annotated[str, Meta(min_length=1, max_length=MAX_PROMPT_CHARS)],
    path: Annotated[str, Meta(description="The new file, .png, .jpg or .webp; several get -1, -2 … added")],
    size: Annotated[str, Meta(description="WIDTHxHEIGHT in pixels, or auto")] = "auto",
    count: Annotated[int, Meta(ge=1, le=MAX_COUNT)] = 1,
) -> ToolResult:
    """Generate pictures (icons, illustrations, photos) from a description and save them. Each costs money.
    Look at them with read_file."""
    service = ctx.service(Pictures).service()
    order = PictureOrder(prompt, count, _check_size(size), _media_type(path))
    paths = picture_paths(path, count)
    await in_thread(lambda: _refuse_unapproved(ctx, paths))
    made = await _order(ctx, service, order)
    return await _write(ctx, "generate_image", _checked(made, count), paths, service.cost(made))


def _refuse_unapproved(ctx: ToolContext, paths: Sequence[str]) -> None:
    """Refuse before money is spent what would be refused when it is written. Raises `ToolError`."""
    targets = [locate_checked(ctx, path) for path in paths]
    _PicturesPlanner([b""] * len(paths), _was_shown(ctx))(ctx, targets, DiskFiles().load)


def _access_cut(arguments: Any) -> Access:
    return Access(reads=(arguments.path,), writes=(arguments.to,))


def _preview_cut(ctx: ToolContext, arguments: Any) -> Plain:
    _media_type(arguments.to, transparent=True)
    source = locate(ctx.service(Boundary), arguments.path)
    data = _load_source(source)
    ctx.service(Approved).remember(ctx.call_id, arguments.path, source.real, digest_of(data))
    service = ctx.service(Pictures).service()
    title = f"remove the background of {source.shown}, as {visible(arguments.to)}"
    sent = f"Sends {source.shown} ({format_count(len(data), 'byte')}) to {_price_line(service, 1)}."
    return _preview(ctx, (arguments.to,), title, [sent])


def _load_source(source: Located) -> bytes:
    """Return the bytes of a picture that may be sent. Raises `ToolError`."""
    loaded = DiskFiles().load(source)
    if loaded is None:
        raise ToolError(f"there is no file {source.shown}")
    data = loaded.data
    media_type, size = media_type_of(data), picture_size(data)
    if media_type not in _TYPES.values() or size is None:
        raise ToolError(f"{source.shown} is no PNG, JPEG or WebP; convert it with a shell command")
    if len(data) > MAX_SOURCE_BYTES or size[0] * size[1] > MAX_SOURCE_PIXELS:
        raise ToolError(
            f"{source.shown} has {len(data):,} bytes and {size[0]:,} × {size[1]:,} pixels; at most "
            f"{MAX_SOURCE_BYTES:,} bytes and {MAX_SOURCE_PIXELS:,} pixels are sent. Make it smaller first"
        )
    return data


@tool(
    risk="high",
    category="files",
    access=_access_cut,
    preview=_preview_cut,
    keeps_undo=True,
    effect="it sends the picture to an image service, which costs money",
    subject=lambda arguments: arguments.path,
    aliases=("cut_out", "background_removal"),
    argument_aliases={"input": "path", "output": "to", "target": "to", "destination": "to"},
)
async def remove_background(
    ctx: ToolContext,
    path: str,
    to: Annotated[str, Meta(description="The new file with a transparent background, .png or .webp")],
) -> ToolResult:
    """Cut the subject of a picture out: a copy of the picture with a transparent background. Costs money."""
    service = ctx.service(Pictures).service()
    media_type = _media_type(to, transparent=True)

    def source() -> bytes:
        _refuse_unapproved(ctx, (to,))
        located = locate_checked(ctx, path)
        data = _load_source(located)
        ctx.service(Approved).check_content(ctx.call_id, path, digest_of(data))
        return data

    data = await in_thread(source)
    order = PictureOrder(CUT_OUT, media_type=media_type, source=data, transparent=True)
    made = await _order(ctx, service, order)
    pictures = _checked(made, 1)
    result = await _write(ctx, "remove_background", pictures, (to,), service.cost(made))
    if may_be_transparent(pictures[0]):
        return result
    note = "\nNote: the service sent a picture without transparency."
    return ToolResult(result.text + note, result.display)


def keep_pictures(session_folder: str, pictures: Sequence[bytes], cost: str) -> str:
    """Write pictures into the session's folder, or a temporary one where that cannot be written. Return a
    sentence about where they are and that they are paid for (`cost`). Blocks."""
    paid = f"{format_count(len(pictures), 'picture')} already paid for ({cost})"
    kept = _write_all(session_folder, pictures)
    if not kept:
        import tempfile  # needed for such pictures only

        with contextlib.suppress(OSError):
            kept = _write_all(tempfile.mkdtemp(prefix="buddy-pictures-"), pictures)
    if not kept:
        return f"{paid} could not be kept anywhere: make room on the disk before you order again"
    return f"{paid}, kept as {', '.join(map(visible, kept))}: move from there instead of ordering again"


def _write_all(folder: str, pictures: Sequence[bytes]) -> list[str]:
    """Return the paths of the written pictures; none where not all of them could be written."""
    written: list[str] = []
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        for data in pictures:
            path = _unused_path(folder, data)
            descriptor = os.open(path, _NEW, 0o600)
            written.append(path)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
    except OSError:
        for path in written:
            with contextlib.suppress(OSError):
                os.unlink(path)
        return []
    return written


def _unused_path(folder: str, data: bytes) -> str:
    stem = os.path.join(folder, f"picture-{digest_of(data)[:12]}")
    ending = _ENDINGS.get(media_type_of(data), "")
    path, number = f"{stem}{ending}", 1
    while os.path.lexists(path):
        number += 1
        path = f"{stem}-{number}{ending}"
    return path
