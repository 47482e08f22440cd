"""`read_file`: a file by lines, a picture, the pages of a PDF, the cells of a notebook, a folder's
entries."""

from __future__ import annotations

import json
import os
import stat
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta

from buddy.agent.display import Picture as PictureShown
from buddy.agent.display import PictureFile, Plain
from buddy.agent.formatting import format_count
from buddy.agent.tool import ToolContext, ToolError, ToolResult, reads_path, tool
from buddy.safety.paths import Boundary, Located
from buddy.safety.sanitise import visible
from buddy.tools.files.change import locate_checked
from buddy.tools.files.listing import list_folder, list_folder_there
from buddy.tools.files.read_pictures import picture
from buddy.tools.files.read_text import (
    MAX_LINE_CHARS,
    MAX_LINES,
    MAX_WHOLE_BYTES,
    FilePage,
    number_lines,
    page_of_file,
    page_of_text,
    position,
)
from buddy.tools.files.rejections import missing
from buddy.tools.task_model import TaskModel
from buddy.workspace.elsewhere import TargetFiles, target_files
from buddy.workspace.files.access import DiskFiles
from buddy.workspace.files.content import BINARY_PROBE_BYTES, UTF_16_BOMS, Content, decode, is_binary
from buddy.workspace.files.editor_buffers import EditorBuffers, EditorFiles, editor_buffers
from buddy.workspace.files.locks import in_thread
from buddy.workspace.files.picture_header import media_type_of, picture_size
from buddy.workspace.files.read_tracking import FileViews, ShownLines, View
from buddy.workspace.files.store import LoadedFile, explain_errors, open_to_read, stamp_of, status_of

Kind = Literal["text", "image", "pdf", "notebook", "office", "archive", "program", "binary"]
MAX_OUTPUT_CHARS = 4000
_OTHER_IMAGES = (b"BM", b"II*\0", b"MM\0*", b"\0\0\1\0")
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ARCHIVES = (b"PK\x03\x04", b"\x1f\x8b", b"\xfd7zXZ\0", b"7z\xbc\xaf\x27\x1c", b"\x28\xb5\x2f\xfd")
_MAX_MARK_BYTES = 12
"""What a picture begins with; one that ends there was cut short."""
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")
_UTF8_BOM = b"\xef\xbb\xbf"
_PROGRAMS = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\0asm")
_OFFICE_PARTS = (b"word/", b"xl/", b"ppt/", b"mimetypeapplication/vnd.oasis")


class NotANotebook(Exception):
    """A file named like a notebook is none. The message says why."""


def kind_of(head: bytes, name: str) -> Kind:
    """Classify a file by its first bytes; only notebooks are recognised by name. Where the signature of a
    picture or an archive may also begin a text (`GIF89a`, `BZh`), the bytes after it decide."""
    with_nul = b"\0" in head
    if media_type_of(head) and not (head.isascii() and not with_nul and len(head) > _MAX_MARK_BYTES):
        return "image"
    if head.startswith(_OTHER_IMAGES) and with_nul:
        return "image"
    if head.startswith(b"%PDF-"):
        return "pdf"
    if head.startswith(OLE) or (
        head.startswith(b"PK\x03\x04") and any(part in head for part in _OFFICE_PARTS)
    ):
        return "office"
    if head.startswith(_ARCHIVES) or (head.startswith(b"BZh") and head[4:10] in _BZIP2_BLOCKS):
        return "archive"
    if head.startswith(_PROGRAMS) and with_nul:
        return "program"
    if name.endswith(".ipynb") and head.removeprefix(_UTF8_BOM).lstrip().startswith(b"{"):
        return "notebook"
    return "text"


def never_whole(data: bytes, name: str) -> str:
    """Return the reason no reading of a file shows the whole of it, "" where one does."""
    kind = kind_of(data[:BINARY_PROBE_BYTES], name)
    content = decode(data)
    if kind == "notebook":
        try:
            notebook_text(data)
        except NotANotebook:
            kind = "text"  # and is read as that
    if kind == "notebook":
        return "it is a notebook"
    if kind != "text" or content is None:
        return "it is not text"
    if len(data) > MAX_WHOLE_BYTES:
        return "it is too large"
    if any(len(line) > MAX_LINE_CHARS for line in content.text.split("\n")):
        return f"it has lines of more than {MAX_LINE_CHARS:,} characters"
    return ""


def notebook_text(data: bytes) -> str:
    """Return a notebook's cells and their text output, pictures and other blobs by size only. Raises
    `NotANotebook`."""
    try:
        book = json.loads(data)
        cells = cast(list[dict[str, Any]], book["cells"])
        pieces = [_cell(number, cell) for number, cell in enumerate(cells, 1)]
    except ValueError as error:
        raise NotANotebook(f"it is not JSON, {error}") from error
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotANotebook("it has no cells as notebooks of format 4 have them") from error
    return "\n".join(pieces)


def _cell(number: int, cell: dict[str, Any]) -> str:
    head = f"--- cell {number} ({cell['cell_type']}) ---"
    outputs = [_output(output) for output in cell.get("outputs") or ()]
    return "\n".join([head, _join(cell.get("source", "")), *(output for output in outputs if output)])


def _output(output: dict[str, Any]) -> str:
    if "text" in output:
        return _cap(_join(output["text"]))
    if output.get("output_type") == "error":
        return f"[error] {output.get('ename')}: {output.get('evalue')}"
    shown: list[str] = []
    for media, value in cast(dict[str, Any], output.get("data", {})).items():
        text = _join(value)
        shown.append(
            _cap(text) if media == "text/plain" else f"[{media}, {format_count(len(text), 'character')}]"
        )
    return "\n".join(shown)


def _cap(text: str) -> str:
    kept = (
        text
        if len(text) <= MAX_OUTPUT_CHARS
        else f"{text[:MAX_OUTPUT_CHARS]}… ({format_count(len(text), 'character')})"
    )
    return "[output] " + kept.rstrip("\n")


def _join(value: object) -> str:
    if isinstance(value, list):
        return "".join(str(piece) for piece in cast(list[object], value))
    return value if isinstance(value, str) else json.dumps(value)


MAX_PARSED_BYTES = 50_000_000


# No cache: equal reads are answered from what this task has seen, which a cache shared by tasks would not
# record.
@tool(
    anywhere=True,
    risk="low",
    core=True,
    category="files",
    access=reads_path,
    aliases=("read", "view", "view_file", "view_image", "cat", "open_file"),
    argument_aliases={
        "file_path": "path",
        "filename": "path",
        "filePath": "path",
        "absolute_path": "path",
        "image_path": "path",
        "start_line": "offset",
        "line_offset": "offset",
        "n_lines": "limit",
    },
)
async def read_file(
    ctx: ToolContext,
    path: str,
    offset: Annotated[int, Meta(description="First line; negative: from the end")] = 1,
    limit: int = MAX_LINES,
) -> ToolResult:
    """Read a file. Lines come with their number and a tab, which are not part of the file; the end says how
    many there are and which offset comes next. Also reads pictures, PDFs (by pages), notebooks and folders.
    """
    if limit < 1:
        raise ToolError(f"limit is {limit}; expected how many lines to read, at least 1")
    return await in_thread(lambda: _read(ctx, path, offset or 1, min(limit, MAX_LINES)))


def _read(ctx: ToolContext, path: str, offset: int, limit: int) -> ToolResult:
    target = locate_checked(ctx, path)
    there = target_files(ctx)
    if there is not None:
        return _read_there(ctx, there, target, offset, limit)
    status = status_of(target.real)
    buffers = editor_buffers(ctx)
    if status is None and buffers is not None and buffers.covers(target.real):
        return _read_in_editor(ctx, buffers, target, offset, limit)
    if status is None:
        raise ToolError(missing(target, ctx.service(Boundary)))
    if stat.S_ISDIR(status.st_mode):
        return list_folder(ctx, target)
    if buffers is not None and buffers.asks_for(target.real, status.st_size):
        return _read_in_editor(ctx, buffers, target, offset, limit)
    with explain_errors(f"read {target.shown}"):
        # Not by aiofiles, pictures too: what is judged and what is read is one descriptor, in one thread.
        descriptor = open_to_read(target.real, target.shown)
        with os.fdopen(descriptor, "rb") as file:
            head = file.read(BINARY_PROBE_BYTES)
            file.seek(0)
            status = os.fstat(file.fileno())
            kind = kind_of(head, target.path)
            if kind == "text":
                if is_binary(head):
                    raise _binary(target, status.st_size)
                if status.st_size > MAX_WHOLE_BYTES and not head.startswith(UTF_16_BOMS):
                    page = page_of_file(file, status.st_size, offset, limit)
                    return _answer(page, target, offset, "")
            # Asked for its size and not for the limit: that much memory would be set aside first.
            data = _whole(file.read(min(status.st_size + BINARY_PROBE_BYTES, MAX_PARSED_BYTES + 1)), target)
    loaded = LoadedFile(data, stat.S_IMODE(status.st_mode), stamp_of(status), status.st_nlink)
    return _of_kind(ctx, target, loaded, kind, offset, limit)


def _read_there(ctx: ToolContext, there: TargetFiles, target: Located, offset: int, limit: int) -> ToolResult:
    """Read a file of another machine, or list a folder there."""
    status = there.status(target.real)
    if status is not None and stat.S_ISDIR(status.mode):
        return list_folder_there(there, target)
    loaded = there.load(target, max_bytes=MAX_PARSED_BYTES)
    if loaded is None:
        raise ToolError(f"{target.shown} does not exist on {there.name}")
    return _read_loaded(ctx, target, loaded, offset, limit)


def _read_in_editor(
    ctx: ToolContext, buffers: EditorBuffers, target: Located, offset: int, limit: int
) -> ToolResult:
    """Read a file as the editor has it; tell where that is not what is on the disk."""
    loaded = EditorFiles(buffers, DiskFiles()).load(target, max_bytes=MAX_PARSED_BYTES)
    if loaded is None:
        raise ToolError(missing(target, ctx.service(Boundary)))
    result = _read_loaded(ctx, target, loaded, offset, limit)
    if not buffers.is_unsaved(target.real):
        return result
    note = "\n[unsaved in the editor: commands and grep see the file on disk]"
    return msgspec.structs.replace(result, text=result.text + note)


def _read_loaded(
    ctx: ToolContext, target: Located, loaded: LoadedFile, offset: int, limit: int
) -> ToolResult:
    head = loaded.data[:BINARY_PROBE_BYTES]
    kind = kind_of(head, target.path)
    if kind == "text" and is_binary(head):
        raise _binary(target, len(loaded.data))
    return _of_kind(ctx, target, loaded, kind, offset, limit)


def _whole(data: bytes, target: Located) -> bytes:
    if len(data) > MAX_PARSED_BYTES:
        raise ToolError(
            f"{target.shown} is larger than {MAX_PARSED_BYTES:,} bytes and not plain text in UTF-8. "
            "Convert it, or look at a part of it, with a shell command."
        )
    return data


def _binary(target: Located, size: int) -> ToolError:
    return ToolError(
        f"{target.shown} is binary ({format_count(size, 'byte')}). "
        "Look at it with a shell command (file, xxd)."
    )


def _of_kind(
    ctx: ToolContext, target: Located, loaded: LoadedFile, kind: Kind, offset: int, limit: int
) -> ToolResult:
    match kind:
        case "text":
            return _text(ctx, target, loaded, offset, limit)
        case "image":
            _require_sight(ctx, target, loaded.data)
            found = picture(loaded.data, target.shown)
            file = PictureFile(target.real, loaded.digest)
            # The screen draws files of this machine only.
            files = (file,) if target_files(ctx) is None else ()
            shown = PictureShown(target.shown, found.summary, files)
            return ToolResult(found.summary, shown, images=(found.image,))
        case "pdf":
            return _pages(loaded, target, offset)
        case "notebook":
            return _notebook(ctx, target, loaded, offset, limit)
        case "office" if not loaded.data.startswith(OLE):
            from buddy.tools.files.read_documents import (
                office_text,  # archives and XML cost 8 ms at every start
            )

            page = page_of_text(office_text(loaded.data, target.shown), offset, limit)
            return _answer(page, target, offset, "\nThis is its text; the file itself is an Office document.")
        case "office" | "archive" | "program" | "binary":
            raise ToolError(
                f"{target.shown} is {_NAMED.get(kind, 'binary')} ({format_count(len(loaded.data), 'byte')}). "
                "Convert or unpack it with a shell command."
            )


_NAMED: dict[Kind, str] = {"office": "an Office document", "archive": "an archive", "program": "a program"}


def _notebook(ctx: ToolContext, target: Located, loaded: LoadedFile, offset: int, limit: int) -> ToolResult:
    """Return the cells; of what is named like a notebook and is none the lines, so that it can be
    repaired."""
    try:
        cells = notebook_text(loaded.data)
    except NotANotebook as reason:
        remark = f"\nIt is named like a notebook but is not one: {reason}. These are the lines of the file."
        return _text(ctx, target, loaded, offset, limit, remark)
    if not cells:
        text = f"{target.shown} is a notebook without cells"
        return ToolResult(text, Plain(text))
    return _answer(
        page_of_text(cells, offset, limit),
        target,
        offset,
        "\nThese are the cells; the file itself is JSON, and edit_file changes that.",
    )


def _text(
    ctx: ToolContext, target: Located, loaded: LoadedFile, offset: int, limit: int, remark: str = ""
) -> ToolResult:
    content = decode(loaded.data)
    if content is None:
        raise _binary(target, len(loaded.data))
    page = page_of_text(content.text, offset, limit)
    views = ctx.service(FileViews)
    view = views.get(target.real)
    if view is not None and _was_seen(view, loaded, page):
        views.put(target.real, msgspec.structs.replace(view, answered=(page.first, page.last)))
        text = (
            f"{target.shown} is unchanged since you read it (lines {page.first}–{page.last} of {page.total})"
        )
        return ToolResult(text, Plain("unchanged"))
    _remember(views, target, loaded, content, page)
    return _answer(page, target, offset, _remark(content) + remark)


def _was_seen(view: View, loaded: LoadedFile, page: FilePage) -> bool:
    """Tell whether the model already has these lines. A second request for the same lines returns them
    anyway: the model may no longer find them."""
    if not page.lines or view.digest != loaded.digest or view.answered == (page.first, page.last):
        return False
    return any(first <= page.first and page.last <= last for first, last in view.shown)


def _remember(
    views: FileViews, target: Located, loaded: LoadedFile, content: Content, page: FilePage
) -> None:
    total = page.total or 0
    if page.lines or total == 0:
        last = page.last if page.lines else 0
        views.saw(target.real, loaded, content.text, ShownLines(page.first, last, total, cut=page.cut > 0))


def _require_sight(ctx: ToolContext, target: Located, data: bytes) -> None:
    """Raise `ToolError` where the model is known to take no pictures."""
    model = ctx.find(TaskModel)
    if model is not None and not model.sees():
        size = picture_size(data)
        about = f"{size[0]:,} × {size[1]:,} pixels" if size else format_count(len(data), "byte")
        raise ToolError(
            f"{target.shown} is a picture ({about}), and {visible(model.name())} takes none: expected a "
            "model that sees. The user can change it with /model, or set vision = true in its profile"
        )


def _remark(content: Content) -> str:
    odd: list[str] = []
    if content.encoding != "utf-8":
        odd.append(f"encoding {content.encoding}")
    if content.line_end != "\n":
        odd.append(f"line ends {content.line_end!r}")
    return f"\n[{', '.join(odd)}; kept when the file is edited]" if odd else ""


def _answer(page: FilePage, target: Located, offset: int, remark: str) -> ToolResult:
    where = position(page, target.shown, offset)
    body = number_lines(page)
    text = f"{body}\n{where}{remark}" if body else f"{where}{remark}"
    return ToolResult(text, Plain(where.strip("[]"), "\n".join(page.lines)))


def _pages(loaded: LoadedFile, target: Located, offset: int) -> ToolResult:
    from buddy.tools.files.read_documents import (
        pdf_pages,  # only needed where there is a PDF, and imports what costs
    )

    pages = pdf_pages(loaded.data, target.shown, offset)
    shown = [f"--- page {number} ---\n{text}" for number, text in enumerate(pages.texts, pages.start + 1)]
    more = f"; offset={pages.stop + 1} for more" if pages.stop < pages.total else ""
    where = f"[{target.shown}: pages {pages.start + 1}–{pages.stop} of {pages.total}{more}]"
    text = "\n".join([*shown, where])
    return ToolResult(text, Plain(where.strip("[]"), text))
