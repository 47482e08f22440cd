"""The tables behind `protected`: names that are dangerous to write, names that are dangerous to read.

All in lower case: the comparison ignores letter case.
"""

from __future__ import annotations


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
        .externaltoolbuilders .lite_project.lua""",
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
        """mise.toml .mise.toml mise.local.toml .mise.local.toml .mise .tool-versions rust-toolchain
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
    "config.toml": ("/.jj/repo",),
    "workspace-config.toml": ("/.jj",),
    "defaults": ("/_darcs/prefs",),
    "releases": ("/.yarn",),
    "plugins": ("/.yarn",),
}
"""A name in a folder whose path ends so. The rest of these folders is what their programs write."""
IN_REASON = "its program reads it at every start, and it names commands to run"

PIPELINE = "a build server runs it once it is pushed, with the project's keys"
PIPELINES = _each(
    """.gitlab-ci.yml .circleci .buildkite .travis.yml azure-pipelines.yml azure-pipelines.yaml
    .azure-pipelines jenkinsfile .drone.yml .woodpecker.yml .woodpecker.yaml .woodpecker
    bitbucket-pipelines.yml appveyor.yml .appveyor.yml .cirrus.yml .semaphore .teamcity .tekton
    cloudbuild.yaml cloudbuild.yml .gitpod.yml .builds .build.yml""",
    PIPELINE,
)
"""A component with this name: the person's normal work, which starts nothing on this machine."""
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
        .rclone.conf rclone.conf htpasswd""",
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
