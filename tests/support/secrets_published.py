"""Made-up secrets in the forms their makers publish, put together at run time. Written from the makers' pages
on tokens and from the secret scanning lists of code hosts, without a look at the table they are to be found
with.
"""

from __future__ import annotations

import base64
import random
import string

DIGITS, LOWER, UPPER = string.digits, string.ascii_lowercase, string.ascii_uppercase
ALNUM, HEX = string.ascii_letters + DIGITS, "0123456789abcdef"
URL64 = ALNUM + "-_"
STD64 = ALNUM + "+/"


def made(length: int, signs: str = ALNUM, seed: int = 11) -> str:
    """Random signs, the same in every run."""
    return "".join(random.Random(f"{seed}/{length}/{signs}").choices(signs, k=length))


def token_json(text: str) -> str:
    """A part of a web token."""
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def uuid(seed: int = 3) -> str:
    """A random one in the usual form."""
    return "-".join(made(size, HEX, seed) for size in (8, 4, 4, 4, 12))


def pem(kind: str, seed: int) -> str:
    """A key in armour, as openssl writes it."""
    body = "\n".join(made(64, STD64, seed + row) for row in range(5))
    return f"-----BEGIN {kind}-----\n{body}\n{made(20, STD64, seed)}==\n-----END {kind}-----"


WHOLE: dict[str, str] = {
    "GitHub classic": "ghp_" + made(36),
    "GitHub OAuth": "gho_" + made(36),
    "GitHub app user": "ghu_" + made(36),
    "GitHub refresh": "ghr_" + made(76),
    "GitHub fine-grained": "github_pat_11A" + made(19) + "_" + made(59),
    "GitLab personal": "glpat-" + made(20, URL64),
    "GitLab runner": "glrt-" + made(20, URL64),
    "GitLab pipeline trigger": "glptt-" + made(40, HEX),
    "GitLab CI job": "glcbt-64_" + made(20),
    "GitLab runner registration": "GR1348941" + made(20, URL64),
    "Slack bot": "xoxb-" + made(12, DIGITS) + "-" + made(13, DIGITS) + "-" + made(24),
    "Slack user": "xoxp-" + "-".join(made(12, DIGITS, seed) for seed in (1, 2, 3)) + "-" + made(32, HEX),
    "Slack app level": "xapp-1-A" + made(10, UPPER + DIGITS) + "-" + made(13, DIGITS) + "-" + made(64, HEX),
    "Slack webhook": f"https://hooks.slack.com/services/T{made(8, UPPER)}/B{made(10, UPPER)}/{made(24)}",
    "Stripe live": "sk_live_51" + made(97),
    "Stripe restricted": "rk_live_51" + made(97),
    "Stripe webhook": "whsec_" + made(32),
    "AWS id and secret": "AKIA" + made(16, UPPER + "234567") + "\n" + made(40, STD64),
    "Azure storage connection": "DefaultEndpointsProtocol=https;AccountName=x;AccountKey="
    + made(86, STD64)
    + "==",
    "Azure AD client secret": made(3) + "8Q~" + made(34, URL64),
    "Azure DevOps": made(76) + "AZDO" + made(4),
    "Azure SAS": "?sv=2023-11-03&ss=b&sig=" + made(43) + "%3D",
    "OpenAI project": "sk-proj-" + made(74, URL64) + "T3BlbkFJ" + made(74, URL64),
    "OpenAI service": "sk-svcacct-" + made(74, URL64) + "T3BlbkFJ" + made(74, URL64),
    "OpenAI classic": "sk-" + made(20) + "T3BlbkFJ" + made(20),
    "Anthropic API": "sk-ant-api03-" + made(93, URL64) + "AA",
    "Anthropic admin": "sk-ant-admin01-" + made(93, URL64) + "AA",
    "Hugging Face": "hf_" + made(34, string.ascii_letters),
    "npm": "npm_" + made(36),
    "PyPI": "pypi-AgEIcHlwaS5vcmcCJ" + made(150, URL64),
    "JWT": token_json('{"alg":"RS256"}') + "." + token_json('{"sub":"ann","exp":1}') + "." + made(342, URL64),
    "RSA key": pem("RSA PRIVATE KEY", 20),
    "EC key": pem("EC PRIVATE KEY", 30),
    "OpenSSH key": pem("OPENSSH PRIVATE KEY", 40),
    "PKCS8": pem("PRIVATE KEY", 50),
    "Twilio API key": "SK" + made(32, HEX),
    "SendGrid": "SG." + made(22, URL64) + "." + made(43, URL64),
    "Discord bot": "MTE" + made(23) + "." + "G" + made(5) + "." + made(38, URL64),
    "Discord webhook": f"https://discord.com/api/webhooks/{made(19, DIGITS)}/{made(68, URL64)}",
    "Telegram bot": made(10, DIGITS[1:]) + ":AA" + made(33, URL64),
    "DigitalOcean": "dop_v1_" + made(64, HEX),
    "DigitalOcean OAuth": "doo_v1_" + made(64, HEX),
    "Databricks": "dapi" + made(32, HEX) + "-3",
    "Google API": "AIzaSy" + made(33, URL64),
    "Google OAuth secret": "GOCSPX-" + made(28, URL64),
    "Google access": "ya29.a0" + made(120, URL64),
    "Heroku": "HRKU-AA" + made(58, URL64),
    "Shopify": "shpat_" + made(32, HEX),
    "Square": "EAAAE" + made(59, URL64),
    "Mailchimp": made(32, HEX) + "-us14",
    "Mailgun": "key-" + made(32, HEX),
    "Docker Hub": "dckr_pat_" + made(27, URL64),
    "Doppler": "dp.pt." + made(43),
    "Linear": "lin_api_" + made(40),
    "New Relic": "NRAK-" + made(27, UPPER + DIGITS),
    "Netlify": "nfp_" + made(36),
    "Pulumi": "pul-" + made(40, HEX),
    "Terraform Cloud": made(14) + ".atlasv1." + made(67, URL64),
    "HashiCorp Vault": "hvs.CAES" + made(90, URL64),
    "RubyGems": "rubygems_" + made(48, HEX),
    "Prefect": "pnu_" + made(36),
    "Readme": "rdme_" + made(70, LOWER + DIGITS),
    "Typeform": "tfp_" + made(44) + "_" + made(14),
    "EasyPost": "EZAK" + made(54),
    "Duffel": "duffel_live_" + made(43, URL64),
    "Dropbox short-lived": "sl.B" + made(136, URL64),
    "Frame.io": "fio-u-" + made(64, URL64),
    "Sendinblue": "xkeysib-" + made(64, HEX) + "-" + made(16),
    "Adafruit": "aio_" + made(28),
    "Flutterwave": "FLWSECK-" + made(32, HEX) + "-X",
    "Alibaba": "LTAI5t" + made(18),
    "age": "AGE-SECRET-KEY-1" + made(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"),
    "Vercel": "vcp_" + made(56),
    "Infracost": "ico-" + made(32),
    "Ionic": "ion_" + made(42),
    "Lob": "live_" + made(35, HEX),
    "Scalingo": "tk-us-" + made(48, URL64),
    "Yandex Cloud": "AQVN" + made(35, URL64),
    "Volcengine / Ark in Authorization": "Bearer " + uuid(9),
    "Cohere in a header": "Authorization: BEARER " + made(40),
    "Neon": "napi_" + made(60, LOWER + DIGITS),
    "Railway / Render": "rnd_" + made(28),
    "Resend": "re_" + made(8) + "_" + made(24),
    "Clerk": "sk_live_" + made(40),
    "Together": "tgp_v1_" + made(43, URL64),
    "E2B": "e2b_" + made(40, HEX),
    "LangSmith": "lsv2_pt_" + made(32, HEX) + "_" + made(10, HEX),
    "Mapbox": "sk." + token_json('{"u":"ann","a":"cl0"}') + "." + made(22, URL64),
    "Sourcegraph": "sgp_" + made(16, HEX) + "_" + made(40, HEX),
    "Cloudflare origin CA": "v1.0-" + made(24, HEX) + "-" + made(146, HEX),
}
"""Found wherever they stand, without a word around them."""

SERVICE_ACCOUNT = (
    '{"type": "service_account", "project_id": "p", "private_key_id": "'
    + made(40, HEX)
    + '", "private_key": "'
    + pem("PRIVATE KEY", 60).replace("\n", "\\n")
    + '\\n", "client_email": "a@p.iam.gserviceaccount.com"}'
)

IN_PLACE: dict[str, tuple[str, str]] = {
    "AWS credentials file": ("[default]\naws_secret_access_key = {}", made(40, STD64, 70)),
    "AWS session": ("export AWS_SESSION_TOKEN={}", "FwoGZXIvYXdz" + made(300, STD64)),
    "PostgreSQL": ("DATABASE_URL=postgresql://app:{}@db.example:5432/app?sslmode=require", "pw-" + made(14)),
    "MySQL": ("mysql://root:{}@127.0.0.1/x", "s3cr3t!" + made(6)),
    "MongoDB": ("mongodb+srv://app:{}@cluster0.mongodb.net/x", made(16)),
    "Redis": ("redis://default:{}@cache.example:6379/0", made(32)),
    "AMQP": ("amqps://app:{}@mq.example/vhost", made(20)),
    "SMTP": ("smtps://mailer%40example.org:{}@mail.example:465", made(18)),
    "basic authentication": ("https://ann:{}@git.example/o/r.git", made(22)),
    "ADO.NET": ("Server=db;Database=x;User Id=sa;Password={};", "Pw" + made(12) + "!"),
    "JDBC": ("jdbc:postgresql://db/x?user=app&password={}", made(16)),
    ".npmrc": ("//packages.example.com/:_authToken={}", uuid(4)),
    ".npmrc old": ("_auth={}", base64.b64encode(b"ann:" + made(16).encode()).decode()),
    ".pypirc": ("[pypi]\nusername = ann\npassword = {}", made(20)),
    ".netrc": ("machine api.example\n  login ann\n  password {}", made(20)),
    "Docker config": (
        '{{"auths": {{"ghcr.io": {{"auth": "{}"}}}}}}',
        base64.b64encode(b"ann:" + made(20).encode()).decode(),
    ),
    "kubeconfig": ("    token: {}", made(64, URL64)),
    "Django": ("SECRET_KEY = '{}'", "django-insecure-" + made(50, ALNUM + "!@#%^&*(-_=+)")),
    "Rails": ("secret_key_base: {}", made(128, HEX)),
    "Spring": ("spring.datasource.password={}", made(14)),
    "Datadog": ("DD_API_KEY={}", made(32, HEX)),
    "Twilio token": ("TWILIO_AUTH_TOKEN={}", made(32, HEX)),
    "Cloudflare": ("CLOUDFLARE_API_TOKEN={}", made(40, URL64)),
    "header": ("X-Api-Key: {}", made(36)),
    "bearer": ("authorization: Bearer {}", made(43, URL64)),
    "basic": ("Authorization: Basic {}", base64.b64encode(b"ann:" + made(14).encode()).decode()),
    "cookie": ("Set-Cookie: sessionid={}; HttpOnly", made(32)),
    "curl": ("curl -u ann:{} https://api.example", made(16)),
    "option": ("az login --service-principal -p {} --tenant x", made(34)),
    "WireGuard": ("[Interface]\nPrivateKey = {}", made(43, STD64) + "="),
    "YAML list": ("- name: API_TOKEN\n  value: {}", made(32)),
    "Terraform": ('  secret_key = "{}"', made(40, STD64, 71)),
    "Go": ('const apiKey = "{}"', made(32)),
    "JavaScript": ("  clientSecret: '{}',", made(40)),
    "query": ("GET /v1?access_token={}&x=1 HTTP/1.1", made(40)),
    "Ansible": ("ansible_become_password: {}", made(14)),
    "PHP": ("define('DB_PASSWORD', '{}');", made(18)),
    "Compose": ("      POSTGRES_PASSWORD: {}", made(18)),
    "OAuth answer": ('{{"access_token":"{}","token_type":"bearer","expires_in":3599}}', made(50, URL64)),
    "XML": ("<password>{}</password>", made(16)),
}
"""Recognised by what stands around them: a template, and the secret."""
