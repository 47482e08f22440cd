"""The shapes of well-known keys and tokens, as data: a prefix and a pattern for the rest.

Most providers mark their keys with a prefix. It is searched first, because that costs almost nothing. Add new
shapes here and to the test's table.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from functools import cache

import msgspec

from buddy.agent.lazy_regex import pattern

_WORD = "[A-Za-z0-9_-]"
_ALNUM = "[A-Za-z0-9]"
_HEX = "[0-9a-f]"

_AFTER = "(?![A-Za-z0-9])"


MIN_SECRET_CHARS = 14
_WRITTEN_LINE_END = pattern(r"\\[nrt]")
GAP = r"(?:\s|\\[nrt]|(?<=[\sn])\d{1,6}(?=\t|\\t))"
"""White space, also as escaped by JSON, and the line numbers of a read file."""


class Shape(msgspec.Struct, frozen=True):
    """One kind of secret: found where `prefix` stands at the start of a word and `rest` matches what
    follows."""

    kind: str
    prefix: str
    rest: str


def _rows(kind: str, prefixes: str, rest: str) -> tuple[Shape, ...]:
    return tuple(Shape(kind, prefix, rest) for prefix in prefixes.split())


SHAPES: tuple[Shape, ...] = (
    # Models. "sk-" is last of its family: the first shape that matches names the kind.
    *_rows("Anthropic key", "sk-ant-", f"{_WORD}{{16,}}"),
    *_rows("OpenRouter key", "sk-or-", f"{_WORD}{{20,}}"),
    *_rows("OpenAI key", "sk-proj- sk-svcacct- sk-admin- sk-None-", f"{_WORD}{{20,}}"),
    *_rows("Langfuse key", "sk-lf-", f"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"),
    *_rows("API key", "sk-", f"(?:[a-z0-9]{{2,10}}-)?{_ALNUM}{{20,}}(?:-{_ALNUM}+)*"),
    *_rows("Google API key", "AIza", f"{_WORD}{{35}}"),
    *_rows("Google OAuth secret", "GOCSPX-", f"{_WORD}{{20,}}"),
    *_rows("Google access token", "ya29.", f"{_WORD}{{20,}}"),
    *_rows("Google refresh token", "1//0", f"{_WORD}{{30,}}"),
    *_rows("Hugging Face token", "hf_ api_org_", f"{_ALNUM}{{30,}}"),
    *_rows("Groq key", "gsk_", f"{_ALNUM}{{40,}}"),
    *_rows("xAI key", "xai-", f"{_ALNUM}{{40,}}"),
    *_rows("Perplexity key", "pplx-", f"{_ALNUM}{{40,}}"),
    *_rows("Replicate token", "r8_", f"{_ALNUM}{{37,40}}"),
    *_rows("Fireworks key", "fw_", f"{_ALNUM}{{22,}}"),
    *_rows("Cerebras key", "csk-", f"{_ALNUM}{{40,}}"),
    *_rows("NVIDIA key", "nvapi-", f"{_WORD}{{40,}}"),
    *_rows("Tavily key", "tvly-", f"{_WORD}{{20,}}"),
    *_rows("LangSmith key", "lsv2_pt_ lsv2_sk_", f"{_HEX}{{32}}_{_HEX}{{10}}"),
    *_rows("Jina key", "jina_", f"{_WORD}{{40,}}"),
    *_rows("Together key", "tgp_v1_", f"{_WORD}{{40,}}"),
    *_rows("Pinecone key", "pcsk_", f"{_ALNUM}{{4,8}}_{_ALNUM}{{50,}}"),
    *_rows("Voyage key", "pa-", f"{_WORD}{{43}}"),
    *_rows("E2B key", "e2b_", f"{_HEX}{{40}}"),
    # Clouds
    *_rows(
        "AWS key",
        "AKIA ASIA ABIA ACCA",
        r"[A-Z0-9]{16}(?:(?:[,:;\"']|" + GAP + r"){1,16}[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=]))?",
    ),
    *_rows("Alibaba access key", "LTAI", f"{_ALNUM}{{16,24}}"),
    *_rows("Azure storage key", "AccountKey= SharedAccessKey=", "[A-Za-z0-9+/]{40,}={0,2}"),
    *_rows("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", f"{_HEX}{{64}}"),
    *_rows("Cloudflare key", "v1.0-", f"{_HEX}{{24}}-{_HEX}{{100,}}"),
    *_rows("Heroku key", "HRKU-", f"{_WORD}{{36,}}"),
    *_rows("Fly token", "fm1_ fm1a_ fm1r_ fm2_ fo1_", "[A-Za-z0-9+/=_,-]{40,}"),
    *_rows("Netlify token", "nfp_", f"{_ALNUM}{{36,}}"),
    *_rows("Supabase key", "sbp_ sb_secret_", f"{_WORD}{{30,}}"),
    *_rows("PlanetScale secret", "pscale_tkn_ pscale_pw_ pscale_oauth_", "[A-Za-z0-9_.=-]{30,}"),
    *_rows("Databricks token", "dapi", f"{_HEX}{{32}}(?:-\\d)?"),
    *_rows("Tailscale key", "tskey-", f"{_WORD}{{20,}}"),
    *_rows("Vault token", "hvs. hvb. hvr.", f"{_WORD}{{24,}}"),
    *_rows("Doppler token", "dp.pt. dp.st. dp.sa. dp.ct.", "[A-Za-z0-9._-]{40,}"),
    *_rows("Pulumi token", "pul-", f"{_HEX}{{40}}"),
    *_rows("OpenShift token", "sha256~", f"{_WORD}{{43}}"),
    *_rows("Yandex Cloud key", "AQVN", f"{_WORD}{{35,}}"),
    *_rows("Vercel token", "vcp_ vci_ vca_ vcr_ vck_", f"{_ALNUM}{{24,}}"),
    *_rows("Neon key", "napi_", "[a-z0-9]{40,}"),
    *_rows("Render key", "rnd_", f"{_ALNUM}{{24,}}"),
    *_rows("Scalingo token", "tk-us-", f"{_WORD}{{48}}"),
    *_rows("Infracost key", "ico-", f"{_ALNUM}{{32}}"),
    *_rows("Prefect key", "pnu_ pnb_", f"{_ALNUM}{{36}}"),
    *_rows("Docker Swarm token", "SWMTKN-1-", "[a-z0-9]{40,60}-[a-z0-9]{20,30}"),
    # Code hosts and package registries
    *_rows("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", f"{_ALNUM}{{36,}}"),
    *_rows("GitHub token", "github_pat_", "[A-Za-z0-9_]{40,}"),
    *_rows(
        "GitLab token",
        "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glsoat- glimt- glagent- gloas- glffct-",
        "[A-Za-z0-9_.-]{20,}",
    ),
    *_rows("Atlassian token", "ATATT3x ATCTT3x", "[A-Za-z0-9_=-]{40,}"),
    *_rows("GitLab token", "GR1348941", f"{_WORD}{{20}}"),
    *_rows("Sourcegraph token", "sgp_", f"(?:{_HEX}{{16}}_|local_)?{_HEX}{{40}}"),
    *_rows("Trello token", "ATTA", "[0-9a-fA-F]{72}"),
    *_rows("Artifactory key", "AKCp cmVmdGtuOj", f"{_ALNUM}{{50,}}"),
    *_rows("Bitbucket password", "ATBB", f"{_ALNUM}{{32}}"),
    *_rows("npm token", "npm_", f"{_ALNUM}{{36}}"),
    *_rows("PyPI token", "pypi-AgEI", f"{_WORD}{{50,}}"),
    *_rows("RubyGems key", "rubygems_", f"{_HEX}{{48}}"),
    *_rows("Docker token", "dckr_pat_ dckr_oat_", f"{_WORD}{{20,}}"),
    *_rows("NuGet key", "oy2", "[a-z0-9]{43}"),
    *_rows("Clojars token", "CLOJARS_", "[a-z0-9]{60}"),
    *_rows("CircleCI token", "CCIPAT_ CCIPRJ_", "[A-Za-z0-9_]{40,}"),
    *_rows("Buildkite token", "bkua_", f"{_ALNUM}{{40}}"),
    *_rows("SonarQube token", "sqp_ squ_ sqa_", f"{_HEX}{{40}}"),
    # Messages and mail
    *_rows("Slack token", "xoxb- xoxp- xoxa- xoxo- xoxr- xoxs- xoxe- xoxc- xoxd-", "[A-Za-z0-9%-]{10,}"),
    *_rows("Slack token", "xoxe.xoxp- xoxe.xoxb- xapp-", f"{_WORD}{{20,}}"),
    *_rows("Slack webhook", "hooks.slack.com/", "(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}"),
    *_rows(
        "Discord webhook",
        "discord.com/api/webhooks/ discordapp.com/api/webhooks/",
        f"\\d{{15,22}}/{_WORD}{{40,}}",
    ),
    *_rows("SendGrid key", "SG.", f"{_WORD}{{16,24}}\\.{_WORD}{{40,46}}"),
    *_rows("Mailgun key", "key-", f"{_HEX}{{32}}"),
    *_rows("Twilio key", "SK", f"{_HEX}{{32}}"),
    *_rows("Brevo key", "xkeysib- xsmtpsib-", f"{_HEX}{{64}}-{_ALNUM}{{16}}"),
    *_rows("Resend key", "re_", f"{_ALNUM}{{8}}_{_ALNUM}{{24}}"),
    # Money and shops
    *_rows("Stripe key", "sk_live_ sk_test_ rk_live_ rk_test_ whsec_", f"{_ALNUM}{{16,}}"),
    *_rows("Square token", "sq0atp- sq0csp- EAAAE", f"{_WORD}{{22,}}"),
    *_rows("Shopify token", "shpat_ shpca_ shppa_ shpss_", "[0-9a-fA-F]{32}"),
    *_rows("Razorpay key", "rzp_live_ rzp_test_", f"{_ALNUM}{{14,}}"),
    *_rows("EasyPost key", "EZAK EZTK", f"{_ALNUM}{{54}}"),
    *_rows("Flutterwave key", "FLWSECK- FLWSECK_TEST-", f"{_HEX}{{32}}-X"),
    *_rows("Duffel token", "duffel_live_ duffel_test_", f"{_WORD}{{43}}"),
    *_rows("Shippo token", "shippo_live_ shippo_test_", f"{_HEX}{{40}}"),
    *_rows("Lob key", "live_ test_", f"{_HEX}{{35}}"),
    *_rows(
        "Plaid token",
        "access-production- access-sandbox- access-development-",
        f"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}",
    ),
    # Work
    *_rows("Linear key", "lin_api_ lin_oauth_", f"{_ALNUM}{{32,}}"),
    *_rows("Notion token", "ntn_ secret_", f"{_ALNUM}{{40,}}"),
    *_rows("Figma token", "figd_ figo_", f"{_WORD}{{30,}}"),
    *_rows("Postman key", "PMAK-", f"{_HEX}{{24}}-{_HEX}{{34}}"),
    *_rows("Grafana token", "glsa_ glc_", "[A-Za-z0-9+/=_]{32,}"),
    *_rows("New Relic key", "NRAK- NRJS- NRRA-", f"{_ALNUM}{{19,}}"),
    *_rows("Sentry token", "sntrys_ sntryu_", "[A-Za-z0-9+/=_]{40,}"),
    *_rows("Dynatrace token", "dt0c01.", "[A-Z0-9]{24}\\.[A-Z0-9]{64}"),
    *_rows("Contentful token", "CFPAT-", f"{_WORD}{{40,}}"),
    *_rows("ReadMe key", "rdme_", "[a-z0-9]{70}"),
    *_rows("Typeform token", "tfp_", f"{_WORD}{{40,}}"),
    *_rows("Dropbox token", "sl.", f"{_WORD}{{130,}}"),
    *_rows("Frame.io token", "fio-u-", f"{_WORD}{{64}}"),
    *_rows("Adafruit key", "aio_", f"{_ALNUM}{{28}}"),
    *_rows("Ionic token", "ion_", f"{_ALNUM}{{42}}"),
    *_rows("PostHog key", "phx_", f"{_ALNUM}{{40,}}"),
    *_rows("Facebook token", "EAA", f"{_ALNUM}{{100,}}"),
    *_rows("1Password token", "ops_eyJ", "[A-Za-z0-9_=-]{40,}"),
    *_rows("Mapbox token", "sk.eyJ", "[A-Za-z0-9_-]{20,}\\.[A-Za-z0-9_-]{20,}"),
    # Formats
    *_rows("JSON web token", "eyJ", r"[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"),
    *_rows("encrypted web token", "eyJ", r"[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]{10,}){4}"),
    *_rows("age key", "AGE-SECRET-KEY-1", "[A-Z0-9]{58}"),
    *_rows("private key", "LS0tLS1CRUdJTi", "[A-Za-z0-9+/=]{40,}"),
    *_rows("password hash", "$2a$ $2b$ $2y$", r"\d\d\$[./A-Za-z0-9]{53}"),
    *_rows("password hash", "$1$ $5$ $6$ $y$ $apr1$", r"[./A-Za-z0-9=,]{1,40}\$[./A-Za-z0-9$]{20,}"),
    *_rows("password hash", "$argon2id$ $argon2i$", r"[A-Za-z0-9+/=,$]{40,}"),
)

# Not in the middle of a word, but right after a line end that JSON writes as backslash and n.
_BEFORE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"

UNMARKED: tuple[tuple[str, str, str, str], ...] = tuple(
    (kind, needle, re.escape(needle) + after, f"{_BEFORE}{whole}{_AFTER}")
    for kind, needle, after, whole in (
        (
            "Discord token",
            ".",
            r"[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27}",
            r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}",
        ),
        ("Azure DevOps token", "AZDO", "", r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}"),
        ("Telegram token", ":AA", "", r"\d{8,10}:AA[A-Za-z0-9_-]{32,34}"),
        ("Mailchimp key", "-us", r"\d", r"[0-9a-f]{32}-us\d{1,2}"),
        ("Azure client secret", "Q~", r"[\w~.-]{31}", r"[\w~.-]{3}\dQ~[\w~.-]{31,34}"),
        ("Airtable token", "pat", r"[A-Za-z0-9]{14}\.", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
        ("Terraform token", ".atlasv1.", "", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}"),
        ("shared access signature", "sig=", "", r"(?<=[?&;]sig=)[A-Za-z0-9%+/=]{30,}"),
    )
)
"""Kind, what must occur, that with what follows it (to be found quickly, because it begins with plain signs),
pattern: secrets without a prefix."""

Span = tuple[int, int, str]
"""Start, end, kind."""

_SIGNS = string.ascii_letters + string.digits
_WORDS_ONLY = bytes(byte if chr(byte) in _SIGNS else ord(" ") for byte in range(256))
_LONGEST_OPENING = 4


def find_shapes(text: str) -> Iterator[Span]:
    """Yield the secrets of known shapes, in no order."""
    # Every shape is one long word: looking at the long words alone is five times quicker.
    long_words = "\n".join([word for word in text.split() if len(word) >= MIN_SECRET_CHARS])
    for shape in _possible_shapes(long_words):
        yield from _occurrences(text, shape)
    for kind, needle, hint, whole in UNMARKED:
        if needle in long_words and _compile(hint).search(long_words):
            for found in _compile(whole).finditer(text):
                yield found.start(), found.end(), kind


def _possible_shapes(text: str) -> Iterator[Shape]:
    """Yield the shapes whose prefix may stand at the start of a word."""
    # One look at the words instead of one for each of the prefixes: a fifth of the time.
    words = _words(text)
    if "\\" in text:
        words |= _words(_WRITTEN_LINE_END().sub(" ", text))
    begun = {word[:length] for word in words for length in range(2, _LONGEST_OPENING + 1)}
    for shape, head, is_whole in _heads():
        if (not head or head in (words if is_whole else begun)) and shape.prefix in text:
            yield shape


def _words(text: str) -> set[bytes]:
    return set(text.encode("ascii", "replace").translate(_WORDS_ONLY).split())


@cache
def _heads() -> tuple[tuple[Shape, bytes, bool], ...]:
    """Each shape, how the first word of its prefix begins (at most four signs; nothing: not told by words)
    and whether that is the whole word."""
    heads: list[tuple[Shape, bytes, bool]] = []
    for shape in SHAPES:
        word = re.split("[^A-Za-z0-9]", shape.prefix, maxsplit=1)[0]
        is_whole = word != shape.prefix
        head = word if is_whole else word[:_LONGEST_OPENING]
        heads.append((shape, head.encode() if len(head) > 1 else b"", is_whole))
    return tuple(heads)


def _occurrences(text: str, shape: Shape) -> Iterator[Span]:
    for found in _whole(shape).finditer(text, max(text.find(shape.prefix), 0)):
        yield found.start(), found.end(), shape.kind


@cache
def _whole(shape: Shape) -> re.Pattern[str]:
    """Return a shape where it may stand. What comes before is looked at behind the prefix: a pattern that
    begins with plain signs is found three times as fast."""
    prefix = re.escape(shape.prefix)
    before = rf"(?:(?<![A-Za-z0-9]{prefix})|(?<=\\[nrt]{prefix}))" if shape.prefix[0].isalnum() else ""
    return re.compile(f"{prefix}{before}(?:{shape.rest}){_AFTER}", re.ASCII)


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)
