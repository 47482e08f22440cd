"""The words by which provider errors are recognised, as data. First match wins; order is part of the data.

A rule with `statuses` holds only there (0: an error inside a 200 stream). Patterns are text, compiled when an
error first needs them: compiling them at import would cost every start some 20 ms.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from buddy.agent.provider import ErrorKind


class ErrorRule(msgspec.Struct, frozen=True):
    """Words that mean a kind of error, and the statuses they mean it under (none: all)."""

    kind: ErrorKind
    pattern: str
    statuses: frozenset[int] = frozenset()


def _rule(kind: ErrorKind, *patterns: str, statuses: tuple[int, ...] = ()) -> ErrorRule:
    return ErrorRule(kind, "|".join(patterns), frozenset(statuses))


REFUSALS = (0, 200, 400, 413, 422, 429, 500, 503)
"""Statuses under which servers were seen to say that a prompt is too long."""

OVERFLOW = _rule(
    "context_overflow",
    r"context[ _-]?length[ _-]?(?:exceeded|error)|context_window_exceeded|exceed_context_size",
    r"(?:maximum|max|allowed|model'?s?|available) (?:allowed )?context (?:length|size|window)",
    r"(?:exceed\w*|beyond|over|(?:larg|long|great)er than)\b.{0,60}\bcontext (?:length|size|window|limit)",
    r"context (?:length|size|window|limit).{0,40}\b(?:exceed\w*|overflow\w*|too small|is too)",
    r"(?:loaded with|only has) (?:a )?context length of only|when context the overflows|context shift",
    r"(?:prompt|input|conversation) (?:is |are |was )?too (?:long|large)",
    r"(?:request|text|messages?) (?:is |are |was )?too long for",
    r"(?:input|prompt|request|messages?) (?:is |are )?longer than (?:the |this )?(?:model|context|maximum)",
    r"input tokens? exceed|input (?:token count|length|tokens?)\b.{0,60}\bexceeds?\b",
    r"(?:prompt|input|(?<!_)tokens?|token count).{0,60}\bexceeds? (?:the |its )?(?:maximum|max|limit|model)",
    r"exceed(?:s|ed)? (?:the )?(?:model(?:'s)? )?(?:maximum |max )?(?:input )?token (?:limit|count|length)",
    r"exceed(?:s|ed)? (?:the )?(?:maximum|max|limit)\b.{0,40}\btokens?|exceeded model token limit",
    r"maximum (?:prompt|input|sequence|allowed number of) (?:length|(?:input )?tokens?)",
    r"reduce (?:the )?(?:length|size|number)\b.{0,40}\b(?:messages|prompt|input|completion|either|tokens)",
    r"too many (?:input |prompt )?tokens.{0,40}(?:exceed|maximum|larger|greater)",
    r"max(?:imum)?[ _](?:total[ _])?(?:seq(?:uence)?_len|model_len|position embeddings|prompt tokens)",
    r"range of input length should be|tokens in request more than max tokens",
    r"tokens ?(?:\+|and) .{0,30}max_(?:new_)?tokens.{0,40}(?:must|should) be",
    r"request_too_large|request exceeds the maximum size|payload too large",
    r"string_above_max_length|too_many_prompt_tokens",
    r"too many tokens\b.{0,80}\bcannot exceed",
    statuses=REFUSALS,
)

QUOTA = _rule(
    "quota",
    r"insufficient[ _-](?:quota|balance|credits?|funds?)|not enough (?:credits?|balance|quota|funds)",
    r"(?:credit|account) balance (?:is )?(?:too low|insufficient|not enough)|no resource package",
    r"\b(?:out of|no (?:remaining|more)) credits?|(?:requires|add|purchase|buy) (?:more )?credits|top up",
    r"billing_(?:error|hard_limit|not_active)|billing (?:hard limit|details)|account is not active",
    r"exceeded_current_quota|arrearage|account (?:[\w-]{1,60} )?is (?:suspended|in arrears)",
    r"overdue[- ]payment|good standing",
    r"(?:monthly|spending|spend|usage|budget|key|hard) (?:included )?(?:credits?|limit|cap|budget)\b"
    r".{0,20}\b(?:exceeded|reached|exhausted)",
    r"(?:exceeded|reached|hit|exhausted)\b.{0,30}\b(?:monthly|spending|spend|usage|budget)\b"
    r".{0,20}\b(?:credits?|limit|cap|budget|quota)",
    r"used all (?:available|your) credits|usage_limit_reached|usage_not_included",
    r"extra usage is required|payment required|budget_exceeded|budget has been exceeded",
    r"欠费|余额不足|insufficient_user_quota",
    statuses=(0, 200, 400, 401, 402, 403, 412, 429, 500),
)
"""A request's own text may be quoted by a schema error (400 to 422 with a path): see `SCHEMA`."""

SCHEMA = _rule(
    "bad_request",
    r"'loc'|\"loc\"|validation errors? for|extra inputs are not permitted|input should be",
    r"schema (?:validation|error)|invalid schema|invalid_request_schema|does not match the schema",
    statuses=(400, 422),
)

KEYS = _rule(
    "auth",
    r"(?:invalid|incorrect|missing|expired|wrong|unknown|bad|no)[ _-](?:x-)?api[ _-]?key|api_key_invalid",
    r"api[ _-]?key (?:is )?(?:not (?:valid|found|provided)|invalid|missing|expired|incorrect)",
    r"authentication[ _]error|authentication fails|unauthenticated|no auth credentials",
    r"(?:invalid|expired|missing) (?:bearer |access |auth(?:entication)? |security )?token(?: |$|\.|,)",
    r"security token included in the request is|expiredtoken|unrecognizedclient",
    r"invalid (?:credentials|authentication)|could not validate credentials",
    statuses=(0, 200, 400, 401, 403, 404, 422, 500),
)

FILTER = _rule(
    "content_filter",
    r"content[ _-]?(?:filter|policy|moderation|management policy)|responsibleaipolicy",
    r"safety (?:system|filter|policy)|data_?inspection_?failed|inappropriate content",
    r"(?:input|prompt|request|output|response|content) (?:was |is |has been )?"
    r"(?:flagged|blocked|moderated|filtered)",
    r"requires moderation|moderation (?:block|fail)|prohibited_(?:content|use)|usage policy violation",
    r"unsafe or sensitive content|violat\w+ (?:our |the )?(?:usage|content|safety) polic",
    r"safety_check|敏感内容|不安全或敏感",
    statuses=(0, 200, 400, 403, 422, 451, 500),
)

NOT_FOUND = _rule(
    "not_found",
    r"model[ _]not[ _]found|not_found_error|no such model|unknown[ _]model|model_not_available",
    r"model\b.{0,120}\b(?:do(?:es)? not exist|(?:is )?not found|doesn't exist|not exist)",
    r"model_not_supported|模型不存在",
    r"not a valid model|invalid model(?: name| id| identifier)?\b(?!.{0,10}(?:output|response))",
    r"model identifier is invalid|no endpoints found (?:for|matching)|deploymentnotfound",
    r"no models? (?:is |are )?(?:currently )?loaded|(?:not|no) have access to model",
    r"model .{0,80}(?:decommissioned|deprecated|been retired)",
    statuses=(0, 200, 400, 403, 404, 422),
)

OVERLOADED = _rule(
    "overloaded",
    r"overloaded|over capacity|capacity (?:exceeded|reached|constraints?)|service tier capacity",
    r"experiencing high (?:demand|load|traffic)|high demand|server (?:is )?(?:too )?busy",
    r"engine is currently|temporarily unavailable|unavailable_error|resource_?unavailable",
    r"loading model|model is (?:currently )?loading|model.{0,20}not ready",
    r"no (?:healthy|available) (?:upstream|server|instance|provider)s?",
    statuses=(0, 200, 400, 429, 498, 499, 500, 502, 503, 529),
)

WORDS: tuple[ErrorRule, ...] = (
    # One request above the limit per minute: waiting never helps, a shorter conversation does.
    _rule(
        "context_overflow",
        r"request too large for [\s\S]{0,120}(?:tokens per min|\bTPM\b)|must be reduced in order to run",
        statuses=(0, 200, 400, 413, 429),
    ),
    # Gemini puts limits per minute under "exceeded your current quota", with a delay to wait for.
    _rule(
        "rate_limit", r"resource_exhausted[\s\S]*(?:retry in|retryinfo|per ?minute)", statuses=(0, 200, 429)
    ),
    _rule("rate_limit", r"quota exceeded for (?:quota )?metric|per[ _-]?minute", statuses=(429,)),
    SCHEMA,
    QUOTA,
    # "rate limit … reduce the prompt length" is a rate limit.
    _rule(
        "rate_limit",
        r"rate[ _-]?limit(?:ed|_exceeded|_error| reached| exceeded)|tokens per (?:min|day)",
        statuses=(0, 200, 429),
    ),
    OVERFLOW,
    FILTER,
    KEYS,
    NOT_FOUND,
    OVERLOADED,
)
"""Every rule, in the order they are tried."""

BY_STATUS: Mapping[int, ErrorKind] = {
    400: "bad_request",
    401: "auth",
    402: "quota",
    403: "auth",
    404: "not_found",
    405: "not_found",
    407: "auth",
    408: "server",
    409: "server",
    410: "not_found",
    413: "context_overflow",
    415: "bad_request",
    422: "bad_request",
    424: "server",
    425: "server",
    429: "rate_limit",
    451: "content_filter",
    498: "overloaded",
    499: "server",
    500: "server",
    501: "bad_request",
    502: "server",
    503: "overloaded",
    504: "server",
    505: "bad_request",
    511: "auth",
    529: "overloaded",
}

BY_TYPE: Mapping[str, ErrorKind] = {
    "authentication_error": "auth",
    "permission_error": "auth",
    "permission_denied": "auth",
    "PERMISSION_DENIED": "auth",
    "UNAUTHENTICATED": "auth",
    "AccessDeniedException": "auth",
    "billing_error": "quota",
    "insufficient_quota": "quota",
    "not_found_error": "not_found",
    "NOT_FOUND": "not_found",
    "ResourceNotFoundException": "not_found",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit": "rate_limit",
    "too_many_requests": "rate_limit",
    "RESOURCE_EXHAUSTED": "rate_limit",
    "ThrottlingException": "rate_limit",
    "overloaded_error": "overloaded",
    "overloaded": "overloaded",
    "UNAVAILABLE": "overloaded",
    "ServiceUnavailableException": "overloaded",
    "ModelNotReadyException": "overloaded",
    "server_error": "server",
    "api_error": "server",
    "internal_error": "server",
    "internal_server_error": "server",
    "INTERNAL": "server",
    "DEADLINE_EXCEEDED": "server",
    "timeout_error": "server",
    "upstream_error": "server",
    "InternalServerException": "server",
    "ModelErrorException": "server",
    "ModelTimeoutException": "server",
    "request_too_large": "context_overflow",
    "context_length_exceeded": "context_overflow",
    "exceed_context_size_error": "context_overflow",
    "content_filter": "content_filter",
    "content_policy_violation": "content_filter",
    # Numbers: Zhipu (1000 to 1302), MiniMax (1002 to 2049) where no word says it.
    "1113": "quota",
    "1008": "quota",
    "2049": "auth",
    "1004": "auth",
    "1211": "not_found",
    "1301": "content_filter",
    "1302": "rate_limit",
    "1002": "rate_limit",
    "budget_exceeded": "quota",
    "invalid_request_error": "bad_request",
    "INVALID_ARGUMENT": "bad_request",
    "FAILED_PRECONDITION": "bad_request",
    "ValidationException": "bad_request",
}
"""Machine words of bodies. They decide where there is no HTTP status, and refine 400, 429 and 500."""
