"""The readable text of a page: HTML as Markdown, other text as it is.

Imported late, because markdownify and its parser take 200 ms. Runs in a thread: a megabyte of HTML takes
seconds.
"""

from __future__ import annotations

import codecs
import re
from email.message import Message
from urllib.parse import urljoin

from bs4 import BeautifulSoup, Tag
from bs4.dammit import EncodingDetector
from bs4.element import Comment, PreformattedString
from markdownify import MarkdownConverter

MAX_HTML_CHARS = 1_000_000
_NEVER_READ = [
    "script",
    "style",
    "noscript",
    "template",
    "svg",
    "math",
    "canvas",
    "iframe",
    "object",
    "embed",
    "applet",
    "form",
    "input",
    "button",
    "select",
    "textarea",
    "audio",
    "video",
    "source",
    "track",
    "link",
    "meta",
    "base",
    "dialog",
    "nav",
]
_HIDDEN_STYLE = re.compile(
    r"(?i)display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0(?:\.0*)?\s*(?:;|$|!)"
    r"|font-size\s*:\s*0|(?:text-indent|left|top)\s*:\s*-\d{3,}|clip\s*:\s*rect\(\s*0"
    r"|(?:width|height)\s*:\s*0(?:px)?\s*(?:;|$|!)"
)
_KNOWN_CHARSET = re.compile(
    r"(?i)utf[-_]?(?:8|16|32)(?:[-_]?[bl]e)?|(?:us-?)?ascii|iso[-_]?8859[-_]?\d{1,2}|latin[-_]?\d{1,2}"
    r"|(?:windows|cp)[-_]?\d{3,4}|gb(?:k|2312|18030)|big5(?:-?hkscs)?|euc[-_](?:jp|kr)|shift[-_]?jis|sjis|iso-2022-jp|koi8-[ru]|tis-620|mac-?roman"
)
_EMPTY_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")
_MARKUP = re.compile(r"(?i)\s*(?:<!--.{0,2000}?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.DOTALL)


def is_binary(body: bytes) -> bool:
    """Tell whether bytes without a content type are binary."""
    return b"\0" in body[:8192] and not body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def page_text(body: bytes, content_type: str, url: str) -> str:
    """Return the text of a page, Markdown where it was HTML."""
    text = _decode_page(body, content_type)
    kind = content_type.partition(";")[0].strip().lower()
    if kind in {"text/html", "application/xhtml+xml"} or (not kind and _MARKUP.match(text)):
        return html_to_markdown(text, url)
    return text


def _decode_page(body: bytes, content_type: str) -> str:
    """Return the text, by its byte order mark, the header, what the page declares, or as UTF-8. A name that
    is no character set of pages (`unicode_escape`) does not count."""
    data, marked = EncodingDetector.strip_byte_order_mark(body)
    header = Message()
    header["content-type"] = content_type
    name = (
        marked
        or header.get_content_charset()
        or EncodingDetector.find_declared_encoding(data, is_html=True)
        or "utf-8"
    )
    try:
        return data.decode(name if _KNOWN_CHARSET.fullmatch(name) else "utf-8", "replace")
    except LookupError:
        return data.decode("utf-8", "replace")


def html_to_markdown(text: str, url: str) -> str:
    """Convert HTML to Markdown without what a reader would not see: scripts, hidden elements, comments."""
    soup = BeautifulSoup(text[:MAX_HTML_CHARS], "html.parser")
    for unseen in [*soup.find_all(_NEVER_READ), *soup.find_all(_is_hidden)]:
        unseen.decompose()
    for note in soup.find_all(string=lambda string: isinstance(string, PreformattedString | Comment)):
        note.extract()
    for element in soup.find_all(["a", "img"]):
        _resolve(element, url)
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for head in soup.find_all(["title", "head"]):
        head.decompose()
    try:
        body = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(soup)
    except RecursionError:  # elements nested a thousand deep
        body = soup.get_text("\n")
    body = _EMPTY_LINES.sub("\n\n", body).strip()
    return f"# {title}\n\n{body}" if title and not body.startswith(f"# {title}") else body


def _is_hidden(element: Tag) -> bool:
    if element.has_attr("hidden") or str(element.get("aria-hidden", "")).lower() == "true":
        return True
    return _HIDDEN_STYLE.search(str(element.get("style", ""))) is not None


def _resolve(element: Tag, url: str) -> None:
    """Make addresses absolute; those that run or hold something, not at all."""
    name = "href" if element.name == "a" else "src"
    try:
        address = urljoin(url, str(element.get(name, "")))
    except ValueError:
        address = ""
    if element.name == "img":
        element.replace_with(str(element.get("alt", "")))
    elif address.startswith(("http://", "https://")):
        element[name] = address
    else:
        element.unwrap()
