"""Secrets recognised by context: after a telling name, in a header, an option or an address.

The value must look random, or the name must be written as in environment files and headers. Placeholders,
code and references to variables are not secrets.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Iterator

from buddy.agent.lazy_regex import pattern
from buddy.safety.secrets.key_shapes import GAP, Span

MIN_BITS = 2.5
"""Shannon entropy per character: repeated and counted-up values stay below, random ones are above."""
MIN_RANDOM_CHARS = 12
MIN_PASSWORD_CHARS = 6

_KIND = "secret value"
_WORDS = ("key", "token", "secret", "pass", "pwd", "credential", "auth", "bearer", "cookie")
_TAIL = pattern(
    r"""(?xai)
    (?P<rest> (?:orization|w(?:or)?d|phrase|s)?
      (?:[_-]?(?:key|token|secret|base|value|data|string|prod|production|dev|staging|test|live|old|new|b64
        |base64|[0-9]{1,2}))? )
    (?P<between> \\{0,4}["']?[ \t]{0,8}(?:=>|:=|=|:)[ \t]{0,8}\\{0,4}["'`]? | [ \t]{1,8}["']? )
    (?P<scheme> (?:bearer|basic|token|bot|digest|apikey|key|negotiate)[ ]{1,3} )?
    (?P<value> [^\s"'`,;<>\\⟨⟩=&]{5,600} )
    """
)
_MORE_VALUE = pattern(r"""[^\s"'`,;<>\\⟨⟩&]{0,4000}""")
_COOKIES = pattern(
    r"""(?ai)s?\\{0,4}["']?[ ]{0,4}:[ ]{0,4}\\{0,4}["']?([^\s=;"'\\]{1,100}=[^\r\n"'\\⟨⟩]{6,4000})"""
)
_NAME_SIGNS = string.ascii_letters + string.digits + "_.-"
_ADDRESS = pattern(r"""://([^\s/:@"'<>⟨⟩]{0,200})(?::([^\s/@"'<>⟨⟩]{3,300}))?@""")
_CURL_USER = pattern(r"""(?a)(?<![\w-])-u ["']?[^\s:"']{1,60}:([^\s"'$<>⟨⟩]{5,300})""")
_BESIDE = pattern(
    rf"""(?xai) [\w-]{{0,20}}
    (?: >(?P<inside>[^\s<>\\⟨⟩]{{6,600}})</
      | \\?["'],[ ]{{0,8}}\\?["'](?P<argument>[^\s"'\\⟨⟩]{{6,600}})\\?["']
      | ["']?,?{GAP}{{1,80}}\\?["']?value\\?["']?[ ]{{0,8}}[:=][ ]{{0,8}}
        \\?["']?(?P<listed>[^\s"'\\⟨⟩]{{6,600}}) )
    """
)
"""What follows a telling name where the value does not stand after a sign: an element, the next argument
(`define('DB_PASSWORD', 'x')`), a name and a value in a list."""
_BEFORE_BESIDE = {"inside": pattern(r"<[\w.:-]*\Z"), "argument": pattern(r"[\"'][\w-]*\Z")}
_BEFORE_LISTED = pattern(r"""(?i)name["']?[ ]{0,8}[:=][ ]{0,8}["']?[\w-]*\Z""")
_LOGIN_OPTION = pattern(r"""(?a)(?:sshpass|\blogin\b[^\n]{0,120}?) -p ?\\?["']?([^\s"'\\⟨⟩]{6,600})""")
_ENVIRONMENT_NAME = pattern(r"[A-Z][A-Z0-9_]*")
_SECRET_KEY = pattern(
    r"""(?xi) .*(?:api|access|secret|private|auth|sign(?:ing)?|encrypt(?:ion)?|master|service|client|account
      |storage|app(?:lication)?|hmac|jwt|session|deploy|subscription|license|webhook
      |shared|cipher)[_.-]?key(?:[_-]?(?:base|value|data|b64|base64))? """
)
_WEAK_KEY = pattern(
    r"""(?xi) .*(?:public|primary|foreign|cache|partition|sort|index|idempotency|map|composite|row|hash
      |node|group|registry)_?key | --(?:recv|refresh|delete|list|export|fetch|sign|lsign|edit|check)-keys? """
)
_NETRC = pattern(
    rf"""(?xa)(?:(?:\b|(?<=\\[nrt]))machine{GAP}{{1,40}}\S{{1,200}}?|\bdefault){GAP}{{1,40}}
    login{GAP}{{1,40}}\S{{1,100}}?{GAP}{{1,40}}pass\Z"""
)
_HEADER = pattern(r"(?i)x-[a-z-]+|(?:proxy-)?authorization|api-key|private-token|ocp-apim-subscription-key")
_MIXED = pattern(r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9]).{20,}")
"""Long and of mixed characters: no placeholder, whatever word it contains."""
_PLACEHOLDER = pattern(
    r"""(?xi)
      [$%{\[(*&@].* | .*(?:\.\.\.|…|\*\*\*|\$\{|\{\{).* | (.)\1+ | [x*•.-]+
    | .*(?:your|example|placeholder|change[_-]?me|replace|insert|dummy|sample|redacted|xxxx|todo|fixme).*
    | (?:(?:my|the|a|some|test|fake|user|db|root|admin|default)[_-]?)?
      (?:password|passwd|secret|token|key|pass|pwd|api[_-]?key|credentials?)\d{0,3}
    | true | false | none | null | undefined | string | required | optional
    """
)
_CODE = pattern(
    r"""(?x)
      [A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+ | [A-Za-z_-]+ | [0-9]+(?:\.[0-9]+)* | .*[()\[\]{}|].*
    """
)
_IDENTIFIER = pattern(r"(?a)[A-Za-z_]\w*")
_FILE = pattern(r"[\w.-]*(?:/[\w.-]*)+")
_WORDS_ALONE = pattern(r"[a-z_-]+")
_NUMBER = pattern(r"[0-9][0-9_.]*")
_LOOK_BACK_CHARS = 64


def find_by_context(text: str) -> Iterator[Span]:
    """Yield the secret values recognisable by their place in the text, in no order."""
    yield from _in_addresses(text)
    if "-u " in text:
        for found in _CURL_USER().finditer(text):
            if not _is_placeholder(found[1]):
                yield found.start(1), found.end(1), _KIND
    if " -p" in text:
        for found in _LOGIN_OPTION().finditer(text):
            if _looks_random(found[1], MIN_PASSWORD_CHARS):
                yield found.start(1), found.end(1), _KIND
    folded = text.replace("İ", "i").lower()  # the one letter that lower() makes two of: positions must stay
    for word in _WORDS:
        at = folded.find(word)
        while at >= 0:
            span = _after_word(text, word, at, at + len(word))
            if span and span[2]:
                yield span
            at = folded.find(word, span[1] if span else at + len(word))


def _in_addresses(text: str) -> Iterator[Span]:
    if "://" not in text:
        return
    for found in _ADDRESS().finditer(text):
        user, password = found.groups()
        if password is None:
            if _looks_random(user, MIN_RANDOM_CHARS):
                yield found.start(1), found.end(1), _KIND
        elif not _is_placeholder(password):
            yield found.start(2), found.end(2), _KIND


def _after_word(text: str, word: str, start: int, end: int) -> Span | None:
    """Return the value that a telling word names: with a kind when it is a secret, without when it is
    none."""
    if word == "cookie":
        cookies = _COOKIES().match(text, end)
        return (cookies.start(1), cookies.end(1), "cookies") if cookies else None
    tail = _TAIL().match(text, end)
    if tail is None:
        return _beside(text, word, start, end)
    name = text[_start_of_name(text, start) : tail.end("rest")]
    value = tail["value"].rstrip(")]}.")
    first = tail.start("value")
    if not _is_secret(text, word, name, tail, value):
        return first, tail.end(), ""
    return first, _end_of_value(text, tail, first + len(value)), _KIND


def _beside(text: str, word: str, start: int, end: int) -> Span | None:
    found = _BESIDE().match(text, end)
    if found is None:
        return None
    group = str(found.lastgroup)
    before = _BEFORE_BESIDE.get(group, _BEFORE_LISTED)
    if not before().search(text, max(0, start - _LOOK_BACK_CHARS), start):
        return None
    value, name = found[group], text[_start_of_name(text, start) : end]
    secret = _looks_random(value, MIN_PASSWORD_CHARS) and (
        word not in {"key", "auth"} or _is_telling_key(name)
    )
    if group == "argument" and _IDENTIFIER().fullmatch(value) and not _ENVIRONMENT_NAME().fullmatch(name):
        secret = False  # a list of names
    return found.start(group), found.end(group), _KIND if secret else ""


def _start_of_name(text: str, start: int) -> int:
    before = text[max(0, start - _LOOK_BACK_CHARS) : start]
    first = start - len(before) + len(before.rstrip(_NAME_SIGNS))
    written_line_end = text[first - 1 : first] == "\\" and text[first] in "nrt"  # JSON inside a text
    return first + written_line_end


def _end_of_value(text: str, tail: re.Match[str], end: int) -> int:
    """Return the end of a value: a quoted one ends at its quote; one that reached "=" or the limit continues
    to its natural end."""
    quote = tail["between"][-1]
    if quote in "\"'`":
        closing = text.find(quote, end, end + 600)
        line_end = text.find("\n", end, end + 600)
        if closing >= 0 and not 0 <= line_end < closing:
            while text[closing - 1] == "\\":
                closing -= 1
            return closing
    more = _MORE_VALUE().match(text, end)
    return more.end() if more and end == tail.end() else end


def _is_secret(text: str, word: str, name: str, tail: re.Match[str], value: str) -> bool:
    quoted = tail["between"].strip("\"'`\\")
    between = quoted.strip(" \t\"'")
    if not between and word != "bearer" and name != "password" and not name.startswith("--"):
        return False  # before anything that costs more: words of prose follow each other so
    if _is_placeholder(value) or _is_variable(name, value):
        return False
    if name in {"PWD", "OLDPWD"} and value.startswith("/"):
        return False  # the shell's working directory
    if word == "bearer":
        return not between and _looks_random(value, MIN_RANDOM_CHARS)
    if not between:
        return _is_option_or_netrc(text, name, tail.start(), value)
    if tail["scheme"]:
        return not _WORDS_ALONE().fullmatch(value)
    if _HEADER().fullmatch(name) and between == ":":
        return not _CODE().fullmatch(value)
    if quoted == "=" and word not in {"key", "auth"} and _ENVIRONMENT_NAME().fullmatch(name):
        return _NUMBER().fullmatch(value) is None
    if word == "key" and not _is_telling_key(name):
        return False
    if tail["between"][-1] in "\"'`" and _MIXED().fullmatch(value):
        return True  # quoted: a bracket in it is no code
    return _looks_random(value, MIN_PASSWORD_CHARS if word in {"pass", "pwd"} else MIN_RANDOM_CHARS)


def _is_variable(name: str, value: str) -> bool:
    """`x(v1_token=v1_token)`, `v1_token = _fresh_v1_token`: the name of another variable, no value."""
    return _IDENTIFIER().fullmatch(value) is not None and (value in name or name.strip("_") in value)


def _is_telling_key(name: str) -> bool:
    if _SECRET_KEY().fullmatch(name):
        return True
    return name.isupper() and "_" in name and not _WEAK_KEY().fullmatch(name)


def _is_option_or_netrc(text: str, name: str, at: int, value: str) -> bool:
    """`--token VALUE`, or `login NAME password VALUE`."""
    if name.startswith("--") and not _WEAK_KEY().fullmatch(name):
        return _looks_random(value, MIN_PASSWORD_CHARS)
    return name == "password" and _NETRC().search(text, max(0, at - 400), at) is not None


def _looks_random(value: str, min_chars: int) -> bool:
    if len(value) < min_chars or _is_placeholder(value) or _CODE().fullmatch(value):
        return False
    if _FILE().fullmatch(value) and not _MIXED().fullmatch(value):
        return False
    mixed = any(sign.isdigit() for sign in value) and any(sign.isalpha() for sign in value)
    return mixed and bits(value) >= MIN_BITS


def _is_placeholder(value: str) -> bool:
    return _PLACEHOLDER().fullmatch(value) is not None and not _MIXED().fullmatch(value)


def bits(value: str) -> float:
    """Shannon entropy of a text, in bits per character; 0 for an empty one."""
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts)
