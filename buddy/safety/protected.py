"""Names that are dangerous to write and names that are dangerous to read, whatever the mode."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from buddy.agent.lazy_regex import pattern


def _each(names: str, reason: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


_GIT = "git's own data: hooks and settings there run commands"
OWN = "buddy's own settings and sessions"
_SHELL = "read by shells when they start"
_EDITOR = "editor or agent settings: they can run commands"
_SYSTEM = "belongs to the system"
_PERSONAL = "the person's own settings"
_CREDENTIALS = "credentials"

PROTECTED_ANYWHERE: dict[str, str] = {
    ".git": _GIT,
    ".husky": _GIT,
    ".gitconfig": _GIT,
    ".buddyx": OWN,
    "buddy.toml": OWN,
    ".mcp.json": "starts tool servers",
    ".ssh": _CREDENTIALS,
    ".gnupg": _CREDENTIALS,
    ".aws": _CREDENTIALS,
    ".netrc": _CREDENTIALS,
    ".git-credentials": _CREDENTIALS,
    ".pam_environment": _SHELL,
    **_each(
        """.bashrc .bash_profile .bash_login .bash_logout .bash_aliases .bash_completion .profile .zshrc
        .zshenv .zprofile .zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc
        .xinitrc .xprofile .xsession .xsessionrc .xserverrc .bash_history .zsh_history .sh_history
        .histfile .fish_history .hushlogin .envrc .screenrc .tmux.conf .xonshrc
        .autoenv .autoenv.zsh .autoenv_leave.zsh""",
        _SHELL,
    ),
    **_each(
        """.vscode .idea .cursor .claude .claude.json .codex .gemini .opencode .crush .continue .windsurf
        .zed .fleet .roo .cline .clinerules .qwen .kimi .amazonq .junie .trae .augment .devcontainer
        .devcontainer.json .aider.conf.yml .vimrc .gvimrc .exrc .nvimrc .nvim.lua .vim .emacs .emacs.d
        .dir-locals.el .dir-locals-2.el .nanorc .gdbinit .lldbinit .helix .run .ycm_extra_conf.py
        opencode.json opencode.jsonc crush.json .crush.json .kiro .factory .vs .nova .theia
        .externaltoolbuilders .lite_project.lua .kilocode .agents .lvimrc .local.vimrc .lazy.lua
        .cursorrules .windsurfrules .roorules .roomodes .kilocodemodes .goosehints""",
        _EDITOR,
    ),
    **_each(
        """.pre-commit-config.yaml .pre-commit-config.yml lefthook.yml lefthook.yaml lefthook.toml
        lefthook.json .lefthook.yml .lefthook.yaml .lefthook.toml .lefthook.json lefthook-local.yml
        .lefthook-local.yml .overcommit.yml .simple-git-hooks.json""",
        "names what git's hooks run",
    ),
    **_each(
        """.rprofile .irbrc .pryrc .ghci .sqliterc .psqlrc .pdbrc .pythonstartup .iex.exs .erlang
        .renviron .octaverc .ocamlinit""",
        "run when an interpreter starts",
    ),
    **_each(
        """mise.toml .mise.toml mise.local.toml .mise.local.toml .mise .rtx.toml .tool-versions rust-toolchain
        rust-toolchain.toml .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .cargo
        .bazelrc .bazeliskrc .bazelversion .buckconfig .buckconfig.local .pants.rc .pants.bootstrap .mvn
        .arcconfig .p4config""",
        "decides which programs a tool chain runs",
    ),
}
"""A component with this name, anywhere in the path."""

PROTECTED_IN: dict[str, tuple[str, ...]] = {
    "hgrc": ("/.hg",),
    "hgrc-not-shared": ("/.hg",),
    "sharedpath": ("/.hg",),
    "config": ("/.sl", "/.pijul"),
    "config.toml": ("/.jj/repo", "/mise"),
    "config.local.toml": ("/mise",),
    "conf.d": ("/mise", "/fish"),
    "config.fish": ("/fish",),
    "workspace-config.toml": ("/.jj",),
    "defaults": ("/_darcs/prefs",),
    "releases": ("/.yarn",),
    "plugins": ("/.yarn",),
}
"""A name in a folder whose path ends so. The rest of these folders is what their programs write."""
IN_REASON = "its program reads it at every start, and it names commands to run"

PROJECT_ENDINGS = (".code-workspace", ".sublime-project")
"""Ends of names of files with an editor's settings."""

PIPELINE = "a build server runs it once it is pushed, with the project's keys"
PIPELINES = _each(
    """.gitlab-ci.yml .circleci .buildkite .travis.yml azure-pipelines.yml azure-pipelines.yaml
    .azure-pipelines jenkinsfile .drone.yml .woodpecker.yml .woodpecker.yaml .woodpecker
    bitbucket-pipelines.yml appveyor.yml .appveyor.yml .cirrus.yml .semaphore .teamcity .tekton
    cloudbuild.yaml cloudbuild.yml .gitpod.yml .builds .build.yml buildspec.yml buildspec.yaml""",
    PIPELINE,
)
"""A component with this name: the person's normal work, which starts nothing on this machine."""
_MADE = _each(".pnp.cjs .pnp.loader.mjs", "yarn makes it, and every program that yarn starts runs it")
"""Files that commands make and hardly anybody edits."""
PIPELINES_IN = {
    "workflows": ("/.github", "/.gitea", "/.forgejo"),
    "actions": ("/.github", "/.gitea", "/.forgejo"),
}

PROTECTED_AT_HOME: tuple[tuple[str, str], ...] = (
    ("/.config", _PERSONAL),
    ("/.local/bin", "programs on the person's PATH"),
    ("/bin", "programs on the person's PATH"),
    ("/.local/share/buddy", OWN),
    ("/.local/state/buddy", OWN),
    ("/.cache/buddy", OWN),
    ("/.local/share/systemd", "starts programs"),
    ("/.local/share/applications", "starts programs"),
    ("/.local/share/autostart", "starts programs"),
    ("/.local/share/fish", _SHELL),
    ("/.local/share/keyrings", _CREDENTIALS),
    ("/.agents", _EDITOR),
    ("/.npmrc", _PERSONAL),
    ("/.yarnrc", _PERSONAL),
    ("/.yarnrc.yml", _PERSONAL),
    ("/.pypirc", _CREDENTIALS),
    ("/.pip", _PERSONAL),
    ("/.cargo", _PERSONAL),
    ("/.rustup", _PERSONAL),
    ("/.gem", _PERSONAL),
    ("/.m2", _PERSONAL),
    ("/.gradle", _PERSONAL),
    ("/.docker", _PERSONAL),
    ("/.kube", _CREDENTIALS),
    ("/.azure", _CREDENTIALS),
    ("/.pdbrc", _PERSONAL),
    ("/.ipython", _PERSONAL),
    ("/.jupyter", _PERSONAL),
    ("/.curlrc", _PERSONAL),
    ("/.wgetrc", _PERSONAL),
    ("/.condarc", _PERSONAL),
    ("/.mozilla", _PERSONAL),
    ("/.thunderbird", _PERSONAL),
    ("/library/launchagents", "starts programs"),
    ("/library/application support", _PERSONAL),
    ("/library/preferences", _PERSONAL),
    ("/library/keychains", _CREDENTIALS),
)

SYSTEM_ROOTS: tuple[tuple[str, str], ...] = (
    ("/etc", _SYSTEM),
    ("/private/etc", _SYSTEM),
    ("/usr", _SYSTEM),
    ("/bin", _SYSTEM),
    ("/sbin", _SYSTEM),
    ("/lib", _SYSTEM),
    ("/lib32", _SYSTEM),
    ("/lib64", _SYSTEM),
    ("/boot", _SYSTEM),
    ("/dev", _SYSTEM),
    ("/proc", _SYSTEM),
    ("/sys", _SYSTEM),
    ("/run", _SYSTEM),
    ("/var/run", _SYSTEM),
    ("/var/spool", "cron and mail: starts programs"),
    ("/var/lib", _SYSTEM),
    ("/var/at", "cron: starts programs"),
    ("/private/var/at", "cron: starts programs"),
    ("/system", _SYSTEM),
    ("/library", _SYSTEM),
)

SECRET_ANYWHERE: dict[str, str] = {
    **_each(
        """.ssh .gnupg .aws .azure .netrc _netrc .npmrc .pgpass .my.cnf .pypirc .git-credentials .htpasswd
        .dockercfg .vault-token .password-store .s3cfg .boto credentials.json terraform.tfstate
        .credentials.json oauth_creds.json application_default_credentials.json kubeconfig .kube .claude.json
        .authinfo .terraformrc .smbcredentials .msmtprc .fetchmailrc .databrickscfg .dockerconfigjson
        .rclone.conf rclone.conf htpasswd .dev.vars local.settings.json sftp-config.json .ftpconfig""",
        "holds credentials",
    ),
    **_each(
        """.bash_history .zsh_history .sh_history .histfile .fish_history .python_history
        .node_repl_history .psql_history .mysql_history .sqlite_history .rediscli_history""",
        "history of what was typed",
    ),
    **_each(
        """.mozilla .thunderbird google-chrome chromium bravesoftware microsoft-edge vivaldi keyrings
        keychains""",
        "browser profile or key ring",
    ),
}

SECRET_AT_HOME: tuple[tuple[str, str], ...] = tuple(
    (name, "holds credentials")
    for name in (
        "/.npmrc",
        "/.yarnrc.yml",
        "/.kube",
        "/.docker/config.json",
        "/.config/gcloud",
        "/.claude/.credentials.json",
        "/.gemini/oauth_creds.json",
        "/.config/git/credentials",
        "/.config/containers/auth.json",
        "/.config/composer/auth.json",
        "/.composer/auth.json",
        "/.config/doctl",
        "/.config/heroku",
        "/.config/github-copilot",
        "/.config/sops",
        "/.config/stripe",
        "/.config/solana",
        "/.config/ngrok",
        "/.config/netlify",
        "/.config/goose/secrets.yaml",
        "/.config/filezilla",
        "/.config/bitwarden",
        "/.config/1password",
        "/.config/fish/fish_variables",
        "/.local/share/fish/fish_history",
        "/.local/share/python_keyring",
        "/.local/share/com.vercel.cli",
        "/.age",
        "/.ansible/vault",
        "/.bitcoin",
        "/.bunfig.toml",
        "/.cloudflared",
        "/.databricks",
        "/.databrickscfg",
        "/.electrum",
        "/.fly",
        "/.kaggle",
        "/.lesshst",
        "/.lftp",
        "/.minikube",
        "/.ngrok2",
        "/.oci",
        "/.ssh2",
        "/.subversion/auth",
        "/.supabase",
        "/.vercel",
        "/.viminfo",
        "/.wakatime.cfg",
        "/.xauthority",
        "/.config/gh",
        "/.config/hub",
        "/.config/glab-cli",
        "/.config/op",
        "/.config/rclone",
        "/.cargo/credentials",
        "/.cargo/credentials.toml",
        "/.gem/credentials",
        "/.m2/settings.xml",
        "/.gradle/gradle.properties",
        "/.terraform.d",
        "/.codex/auth.json",
        "/.local/share/opencode/auth.json",
        "/.local/share/buddy",
        "/.huggingface",
        "/.cache/huggingface/token",
        "/.config/buddy/buddy.toml",
        "/library/application support/google/chrome",
        "/library/application support/firefox",
        "/library/cookies",
    )
)

SECRET_ROOTS: tuple[tuple[str, str], ...] = tuple(
    (name, "holds credentials of the system")
    for name in (
        "/etc/shadow",
        "/etc/shadow-",
        "/etc/gshadow",
        "/etc/gshadow-",
        "/etc/sudoers",
        "/etc/sudoers.d",
        "/etc/ssl/private",
        "/etc/krb5.keytab",
        "/run/secrets",
        "/var/run/secrets",
        "/proc/kcore",
    )
)


_SECRET_NAME = pattern(
    r"""(?x)
      \.env(?![^\W_]).*          # .env, .env.local, .env-prod, .env_prod
    | \.envrc | .+\.env | \.dev\.vars\..+
    | .*\.tfstate(?:\.(?:\d+\.)?backup)?
    | .*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|keytab|tfvars|agekey)
    | id_(?:rsa|dsa|ecdsa|ed25519|xmss)\d*(?:[_.\-].*)?  # as ssh-keygen names them: id_ed25519_sk, id_rsa.old
    | service[-_]?account.*\.json
    | secrets?\.(?:ya?ml|json|toml|ini|env|properties|txt) | \.secrets?
    | \.?credentials?(?:\.(?:ya?ml|json|toml|ini|env|properties|txt|csv|xml|db))?
    | passwords?\.(?:txt|csv) | \.?vault[-_]pass(?:word)?(?:\.txt)?
    | client_secret.*\.json
    """
)
# What everything `_SECRET_NAME` matches begins or ends with; blanks and dots at the end do not count.
_SECRET_BEGINNINGS = (
    *(".env", ".dev.vars", "id_", "service", "secret", "client_secret"),
    *(".secret", "credential", ".credential", "password", "vault", ".vault"),
)
_SECRET_ENDS = (
    *(" ", ".", ".env", ".pem", ".key", ".p12", ".pfx", ".jks"),
    *(".keystore", ".kdbx", ".ppk", ".keytab", ".tfvars", ".agekey", ".tfstate", ".backup"),
)
_SECRET_PATHS = tuple(
    f"{name}/"
    for name, _ in SECRET_AT_HOME
    if name.startswith("/.") and name.count("/") > 1 and name != "/.local/share/buddy"
)
"""Places of a home folder that hold secrets in a copy of it, too. buddy's own holds worktrees."""
_SECRET_LAST = frozenset(path.split("/")[-2] for path in _SECRET_PATHS)
_EXAMPLE = pattern(
    r"\.env.*[._\-](?:example|sample|template|tmpl|dist|defaults?|schema)|example\.env|.*\.pub"
)
_PROCESS_SECRETS = pattern(r"/proc/[^/]+/(?:task/[^/]+/)?(?:environ|mem|auxv|maps|fd)(?:/.*)?")
_RECORDS = pattern(r"/\.buddyx(?:/(?:trash|exports)(?:/.*)?|/sessions(?:/(?![^/]+/output(?:/|\Z)).*)?)?\Z")
"""What was said, deleted and exported, whatever it was named before. Long outputs are read back by their
path."""
_RUN_BY_PYTHON = pattern(r".*/site-packages/(?:.*/)?(?:[^/]*\.pth|usercustomize\.py)|.*/sitecustomize\.py")
_SHORT_NAME = pattern(r"([a-z0-9_-]{1,6})~[0-9]{1,3}(?:\.[a-z0-9]{1,3})?")
_IGNORED_BY_SOME_FILE_SYSTEMS = pattern(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters without a shape: HFS+ ignores some of them in names, ext4 and f2fs with case folding all."""


class ProtectedPlaces(msgspec.Struct, frozen=True):
    """Folders a judgement depends on besides the path: the home folder, buddy's own directories where the
    environment moved them, and the workspace's folders."""

    home: str
    own: tuple[str, ...] = ()
    workspace: tuple[str, ...] = ()


def protected_reason(path: str, places: ProtectedPlaces) -> str:
    """Why writing this absolute path asks in every mode; "" when nothing speaks against it."""
    text = _folded(path)
    parts = text.split("/")
    for part in parts:
        reason = PROTECTED_ANYWHERE.get(part) or _by_windows_name(part, PROTECTED_ANYWHERE)
        if reason:
            return reason
    if lies_in(parts, PROTECTED_IN):
        return IN_REASON
    if parts[-1].endswith(PROJECT_ENDINGS):
        return "editor settings: they can run commands"
    if _RUN_BY_PYTHON().fullmatch(text):
        return "run whenever Python starts"
    for directory in places.own:
        if _beneath(text, _folded(directory)):
            return OWN
    return _listed(text, PROTECTED_AT_HOME, places.home) or _system(text, places.workspace)


def pipeline_reason(path: str) -> str:
    """Why an edit of this absolute path asks, although commands may change it; "" for most."""
    parts = _folded(path).split("/")
    named = next((PIPELINES[part] for part in parts if part in PIPELINES), "") or _MADE.get(parts[-1], "")
    return named or (PIPELINE if lies_in(parts, PIPELINES_IN) else "")


def lies_in(parts: Sequence[str], names: Mapping[str, Sequence[str]]) -> bool:
    """Tell whether one of a path's parts, in lower case, has one of the names and lies in a folder that goes
    with it."""
    return any(
        part in names and f"/{'/'.join(parts[:at])}".endswith(tuple(names[part]))
        for at, part in enumerate(parts)
    )


def secret_reason(path: str, places: ProtectedPlaces) -> str:
    """Why reading this absolute path asks; "" when it looks like any other file."""
    text = _folded(path)
    parts = text.split("/")
    name = parts[-1]
    if "/.buddyx" in text and _RECORDS().search(text):
        return "buddy's own records of sessions, which may hold what was allowed once"
    if _EXAMPLE().fullmatch(name):
        return ""
    for part in parts:
        reason = SECRET_ANYWHERE.get(part) or _by_windows_name(part, SECRET_ANYWHERE)
        if reason:
            return reason
    if _SECRET_NAME().fullmatch(name):
        return "its name says that it holds secrets"
    if "/." in text and any(place in f"{text}/" for place in _SECRET_PATHS):
        return "holds credentials"
    if _PROCESS_SECRETS().fullmatch(text):
        return "memory or environment of a process"
    return _listed(text, SECRET_AT_HOME, places.home) or _listed(text, SECRET_ROOTS, "")


def _by_windows_name(part: str, names: dict[str, str]) -> str:
    """Return the reason for what NTFS, which WSL shows as a folder, also takes for one of the names: a stream
    of it (`.git::$INDEX_ALLOCATION`), and its short name (`GIT~1`)."""
    if ":" not in part and "~" not in part:
        return ""
    whole = part.partition(":")[0].rstrip(" .")
    reason = names.get(whole, "")
    short = _SHORT_NAME().fullmatch(whole)
    if reason or short is None:
        return reason
    return next((why for name, why in names.items() if _short_stem(name) == short[1]), "")


def _short_stem(name: str) -> str:
    """Return the stem of a name's short (8.3) form: the first six letters, without dots and ending."""
    stem, _, ending = name.lstrip(".").rpartition(".")
    return re.sub(r"[^a-z0-9_-]", "", stem or ending)[:6]


def is_plain_name(name: str) -> bool:
    """Tell whether a file's name by itself cannot look secret: a fast test for listings of thousands. False
    is not a verdict; `secret_reason` decides then. The folders it lies in are not judged."""
    text = name.lower()
    return (
        text.isascii()
        and ":" not in text
        and "~" not in text
        and not text.startswith(_SECRET_BEGINNINGS)
        and not text.endswith(_SECRET_ENDS)
        and text not in SECRET_ANYWHERE
        and text not in _SECRET_LAST
    )


def _listed(text: str, names: Sequence[tuple[str, str]], base: str) -> str:
    """Return the reason of the first of the names, relative to `base`, that the path is or lies in."""
    base = _folded(base).rstrip("/")
    if not text.startswith(base + "/"):
        return ""
    tail = text[len(base) :]
    for name, reason in names:
        if tail.startswith(name) and _beneath(tail, name):
            return reason
    return ""


def _system(text: str, workspace: Sequence[str]) -> str:
    """Do the same as `_listed`, but a workspace inside a system folder (/usr/src/app in a container) counts
    as a workspace."""
    for name, reason in SYSTEM_ROOTS:
        if text.startswith(name) and _beneath(text, name):
            homes = [root for root in map(_folded, workspace) if _beneath(root, name)]
            return "" if any(_beneath(text, root) for root in homes) else reason
    return ""


def _beneath(text: str, directory: str) -> bool:
    return text == directory or text.startswith(directory.rstrip("/") + "/")


def _folded(path: str) -> str:
    """Return the path as the most forgiving file system would compare it: case, compatibility forms,
    ignorable characters, and blanks or dots after a name."""
    if path.isascii():
        text = path.lower()
    else:
        visible = _IGNORED_BY_SOME_FILE_SYSTEMS().sub("", path)
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible).casefold())
    if ". " in text or "./" in text or " /" in text or text.endswith((" ", ".")):
        text = "/".join(part.rstrip(" .") for part in text.split("/"))
    return text


_PLACES = (
    *("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_CONFIG_DIR"),
    *("BOTO_CONFIG", "CLOUDSDK_CONFIG", "GH_CONFIG_DIR", "GNUPGHOME", "GOOGLE_APPLICATION_CREDENTIALS"),
    *("HF_TOKEN_PATH", "HISTFILE", "KRB5CCNAME", "KUBECONFIG", "NETRC", "NPM_CONFIG_USERCONFIG"),
    *("npm_config_userconfig", "PASSWORD_STORE_DIR", "PGPASSFILE", "SOPS_AGE_KEY_FILE", "TF_CLI_CONFIG_FILE"),
    *("XAUTHORITY",),
)
"""Variables whose value is a file or folder with credentials, or several of them with colons between."""

_FILES_IN: Mapping[str, tuple[str, ...]] = {
    "CARGO_HOME": ("credentials", "credentials.toml"),
    "CLAUDE_CONFIG_DIR": (".credentials.json", ".claude.json"),
    "CODEX_HOME": ("auth.json",),
    "DOCKER_CONFIG": ("config.json",),
    "GRADLE_USER_HOME": ("gradle.properties",),
    "HF_HOME": ("token",),
}
"""Variables whose value is a folder, and the files with credentials in it."""

_MOVED_FOLDERS = {
    "XDG_CONFIG_HOME": "/.config/",
    "XDG_DATA_HOME": "/.local/share/",
    "XDG_CACHE_HOME": "/.cache/",
}


def moved_secrets(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the absolute paths of credentials that variables name, whether they exist or not."""
    return tuple(path for path in dict.fromkeys(_named(environment)) if os.path.isabs(path))


def _named(environment: Mapping[str, str]) -> Iterator[str]:
    for variable in _PLACES:
        value = environment.get(variable, "").removeprefix("FILE:").removeprefix("DIR:")
        yield from value.split(":")
    for variable, names in _FILES_IN.items():
        yield from (os.path.join(environment.get(variable, ""), name) for name in names)
    for variable, usual in _MOVED_FOLDERS.items():
        folder = environment.get(variable, "")
        names = (name.removeprefix(usual) for name, _reason in SECRET_AT_HOME if name.startswith(usual))
        yield from (os.path.join(folder, name) for name in (*names, *SECRET_ANYWHERE))
