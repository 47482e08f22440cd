"""Made-up secrets of every known shape, built at run time so that no scanner takes this file for a leak."""

from __future__ import annotations

import base64
import random
import string

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def _made(length: int, signs: str = LETTERS, seed: int = 7) -> str:
    return "".join(random.Random(f"{length}{signs}{seed}").choices(signs, k=length))


def _token_json(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


_UUID = f"{_made(8, HEX)}-{_made(4, HEX)}-{_made(4, HEX)}-{_made(4, HEX)}-{_made(12, HEX)}"
_HEAD, _BODY = '{"alg":"HS256","typ":"JWT"}', '{"sub":"1234567890","n":1}'
_WEB_TOKEN = f"{_token_json(_HEAD)}.{_token_json(_BODY)}.{_made(43)}"
_PEM = "\n".join(_made(64, LETTERS + "+/", seed) for seed in range(6)) + "\n" + _made(24) + "=="

SHAPED: dict[str, str] = {
    "OpenAI": "sk-" + _made(48),
    "OpenAI project": "sk-proj-" + _made(74) + "_" + _made(40),
    "OpenAI service account": "sk-svcacct-" + _made(60),
    "Anthropic": "sk-ant-api03-" + _made(93, LETTERS + "-_") + "AA",
    "OpenRouter": "sk-or-v1-" + _made(64, HEX),
    "Langfuse": "sk-lf-" + _UUID,
    "DeepSeek": "sk-" + _made(32, HEX),
    "Google": "AIza" + _made(35, LETTERS + "-_"),
    "Google OAuth": "GOCSPX-" + _made(28),
    "Google access": "ya29." + _made(80, LETTERS + "-_"),
    "Google refresh": "1//0" + _made(60, LETTERS + "-_"),
    "AWS access key": "AKIA" + _made(16, string.ascii_uppercase + "234567"),
    "AWS session key": "ASIA" + _made(16, string.ascii_uppercase + "234567"),
    "GitHub": "ghp_" + _made(36),
    "GitHub server": "ghs_" + _made(36),
    "GitHub fine": "github_pat_" + _made(22) + "_" + _made(59),
    "GitLab": "glpat-" + _made(20),
    "GitLab routable": "glpat-" + _made(27) + ".01." + _made(9),
    "Slack bot": "xoxb-123456789012-1234567890123-" + _made(24),
    "Slack app": "xapp-1-A0" + _made(9) + "-123456-" + _made(64, HEX),
    "Slack webhook": "https://hooks.slack.com/services/T0" + _made(8) + "/B0" + _made(8) + "/" + _made(24),
    "Stripe": "sk_live_" + _made(24),
    "Stripe restricted": "rk_test_" + _made(24),
    "Stripe webhook": "whsec_" + _made(32),
    "Hugging Face": "hf_" + _made(34),
    "npm": "npm_" + _made(36),
    "PyPI": "pypi-AgEIcHlwaS5vcmc" + _made(80),
    "web token": _WEB_TOKEN,
    "Azure storage": "AccountKey=" + _made(86, LETTERS + "+/") + "==",
    "Azure client": _made(3) + "8Q~" + _made(34),
    "Azure signature": "https://x.blob.core.windows.net/c?sv=2022-11-02&sig=" + _made(43) + "%3D",
    "Twilio": "SK" + _made(32, HEX),
    "SendGrid": "SG." + _made(22) + "." + _made(43),
    "DigitalOcean": "dop_v1_" + _made(64, HEX),
    "Telegram": "123456789:AA" + _made(33, LETTERS + "-_"),
    "Discord": "MT" + _made(24) + "." + _made(6) + "." + _made(38),
    "Discord webhook": "https://discord.com/api/webhooks/123456789012345678/" + _made(68),
    "age": "AGE-SECRET-KEY-1" + _made(58, string.ascii_uppercase + string.digits),
    "Groq": "gsk_" + _made(52),
    "xAI": "xai-" + _made(80),
    "Perplexity": "pplx-" + _made(48),
    "Replicate": "r8_" + _made(37),
    "Fireworks": "fw_" + _made(24),
    "NVIDIA": "nvapi-" + _made(64, LETTERS + "-_"),
    "Databricks": "dapi" + _made(32, HEX),
    "Docker": "dckr_pat_" + _made(27),
    "Vault": "hvs." + _made(90),
    "Mailgun": "key-" + _made(32, HEX),
    "Mailchimp": _made(32, HEX) + "-us12",
    "Airtable": "pat" + _made(14) + "." + _made(64, HEX),
    "Terraform": _made(14) + ".atlasv1." + _made(67),
    "Linear": "lin_api_" + _made(40),
    "Notion": "ntn_" + _made(46),
    "Figma": "figd_" + _made(40),
    "Grafana": "glsa_" + _made(32) + "_" + _made(8, HEX),
    "Sentry": "sntrys_" + _made(60),
    "Supabase": "sbp_" + _made(40, HEX),
    "Shopify": "shpat_" + _made(32, HEX),
    "Atlassian": "ATATT3xFfGF0" + _made(170),
    "Cloudflare": "v1.0-" + _made(24, HEX) + "-" + _made(146, HEX),
    "PlanetScale": "pscale_tkn_" + _made(43),
    "Postman": "PMAK-" + _made(24, HEX) + "-" + _made(34, HEX),
    "Plaid": "access-production-" + _UUID,
    "1Password": "ops_eyJ" + _made(200),
    "bcrypt": "$2b$12$" + _made(53),
    "crypt": "$6$" + _made(16) + "$" + _made(86),
    "kube key": "LS0tLS1CRUdJTi" + _made(200),
}
"""Secrets that are recognised wherever they stand."""

PLACED: dict[str, tuple[str, str]] = {
    "environment key": ("OPENAI_API_KEY=%s", _made(32)),
    "environment password": ("DB_PASSWORD=%s", "hunter2"),
    "environment, quoted": ('export ADMIN_PASSWORD="%s"', "correct horse battery"),
    "environment token": ("DEPLOY_TOKEN='%s'", _made(20, string.ascii_lowercase)),
    "environment vendor": ("MISTRAL_KEY=%s", _made(32)),
    "framework": ("SECRET_KEY_BASE=%s", _made(128, HEX)),
    "AWS secret": ("aws_secret_access_key = %s", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    "with equals signs": ("API_SECRET=%s", _made(42) + "=="),
    "YAML": ("  password: %s", "s3cr3t-Pa55"),
    "JSON": ('{"client_secret": "%s"}', _made(40)),
    "JSON in JSON": ('{\\"api_key\\": \\"%s\\"}', _made(32)),
    "TOML": ('api_key = "%s"', _made(32)),
    "quote that is not closed": ('api_key = "%s\n"', _made(32)),
    "Python": ("token='%s'", _made(24)),
    "query": ("https://x.example/?api_key=%s&b=1", _made(24)),
    "address": ("postgres://app:%s@db.internal:5432/x", "hunter2!"),
    "address, no user": ("redis://:%s@cache:6379", "9bX-redis-pw"),
    "address token": ("https://%s@github.com/o/r.git", _made(40, HEX)),
    "bearer": ("Authorization: Bearer %s", _made(40)),
    "basic": ("authorization: Basic %s", base64.b64encode(b"user:pass").decode()),
    "bearer in a request": ("curl -H 'Authorization: token %s'", _made(20)),
    "bearer alone": ("used Bearer %s for it", _made(32)),
    "header": ("x-api-key: %s", _made(20)),
    "header in JSON": ('"X-Goog-Api-Key": "%s"', _made(20)),
    "header, words": ("PRIVATE-TOKEN: %s", "abc1-def2-ghi3"),
    "cookie": ("Cookie: %s", f"session={_made(32)}; theme=dark"),
    "curl user": ("curl -u admin:%s https://x", "hunter2!"),
    "option": ("deploy --api-token %s now", _made(24)),
    "option, equals": ("mysql --password=%s", "hunter2pw"),
    "netrc": ("machine x login ann password %s", "plainword"),
    "session": ("AWS_SESSION_TOKEN=%s", _made(300, LETTERS + "+/")),
}
"""Templates and the secret in them: recognised by where it stands."""

PRIVATE_KEYS: dict[str, str] = {
    "RSA": f"-----BEGIN RSA PRIVATE KEY-----\n{_PEM}\n-----END RSA PRIVATE KEY-----",
    "PKCS8": f"-----BEGIN PRIVATE KEY-----\n{_PEM}\n-----END PRIVATE KEY-----",
    "OpenSSH": f"-----BEGIN OPENSSH PRIVATE KEY-----\r\n{_PEM}\r\n-----END OPENSSH PRIVATE KEY-----",
    "PGP": f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{_PEM}\n-----END PGP PRIVATE KEY BLOCK-----",
    "encrypted": f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{_PEM}\n-----END ENCRYPTED PRIVATE KEY-----",
    "in JSON": "-----BEGIN PRIVATE KEY-----\\n"
    + _PEM.replace("\n", "\\n")
    + "\\n-----END PRIVATE KEY-----\\n",
    "cut at the end": f"-----BEGIN EC PRIVATE KEY-----\n{_PEM}",
    "cut at the start": f"{_PEM}\n-----END EC PRIVATE KEY-----",
    "PuTTY": f"Private-Lines: 6\n{_PEM}",
}
PEM_LINES: tuple[str, ...] = tuple(_PEM.split("\n"))[:-1]

HARMLESS: tuple[str, ...] = (
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    f"id: {_UUID}",
    f"sha256: {_made(64, HEX)}",
    f"integrity sha512-{_made(86, LETTERS + '+/')}==",
    f"data:image/png;base64,{base64.b64encode(random.Random(1).randbytes(3000)).decode()}",
    f"pip install x --hash=sha256:{_made(64, HEX)}",
    "API_KEY=your-api-key-here",
    "API_KEY=${API_KEY}",
    "OPENAI_API_KEY=sk-...",
    "password: <password>",
    "PASSWORD=changeme",
    'api_key = os.environ["OPENAI_API_KEY"]',
    "token = request.headers.get('Authorization')",
    "secret = settings.secret_key",
    'headers = {"Authorization": f"Bearer {token}"}',
    "Authorization: Bearer <token>",
    "the bearer authentication scheme",
    "PWD=/home/ann/projects/buddy-2",
    "OLDPWD=/srv/app_v2/releases/20261123",
    'export PWD="/home/ann/projects/x7"',
    "MAX_TOKENS=8192",
    "IMAGE_TOKENS = 1_500",
    "max_tokens: 200000",
    "password = getpass.getpass()",
    "def tokenize(text: str, tokenizer: Tokenizer) -> list[Token]:",
    'key = "user-profile-page-2"',
    "cache_key: 1234567890abcdef1234567890abcdef",
    "primary_key=True, foreign_key=users.id",
    f"PUBLIC_KEY={_made(32)}",
    "https://user@example.org/path",
    "https://user:password@example.org/path",
    "git@github.com:owner/repo.git",
    "http://localhost:8080/a@b",
    "ssh://git@host/x",
    "author: Ann",
    "passing: 12 tests, failing: 0",
    "Cookie: the thing that browsers keep",
    "task-1 sk-1 SK12 key-1 hf_x eyJ",
    "risk-analysis-of-the-components-in-detail-2024-edition",
    "disk-usage-0123456789abcdefghij-report",
    "1//0 is not a token",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----",
    "--password-file /run/secrets/x",
    "curl -u user:password https://x",
    "secret: config/secrets/prod1.yaml",
    "login as ann; the password is on paper",
    "docker run -u 1000:1000 x",
    "",
)
"""Looks like a secret to a careless eye."""
