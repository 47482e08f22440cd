"""Names that ask in every mode, written in any way, whether the file is there or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.safety.paths import Boundary, locate
from buddy.safety.protected import (
    SECRET_ANYWHERE,
    ProtectedPlaces,
    is_plain_name,
    pipeline_reason,
    protected_reason,
    secret_reason,
)

HOME = "/home/ann"
BOUNDARY = Boundary("/home/ann/repo", "/home/ann/repo", HOME)


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".git/config",
        ".git",
        ".GIT/hooks/x",
        ".Git/config",
        "vendor/lib/.git/config",
        ".git/modules/lib/hooks/post-checkout",
        ".git/worktrees/w/config.worktree",
        ".git/info/attributes",
        ".git./config",
        ".git /config",
        ".g\u200cit/config",
        *(
            f".g{sign}it/config"
            for sign in "\u00ad\u034f\u061c\u180b\u180e\u2065\ufe0f\uffa0\U000e0001\U000e0100"
        ),
        "\uff0egit/config",
        ".gıt/../.git/config",
        ".husky/pre-push",
    ],
)
def test_SEC_053_git_hooks_and_settings_ask(path: str) -> None:
    assert locate(BOUNDARY, path).protected == "git's own data: hooks and settings there run commands"


@pytest.mark.parametrize(
    "path",
    [
        ".vscode/settings.json",
        ".idea/workspace.xml",
        ".cursor/rules",
        ".claude/settings.json",
        ".mcp.json",
        ".buddyx/sessions/1/journal",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".opencode/agent.md",
        "sub/.vscode/tasks.json",
        ".devcontainer/devcontainer.json",
        ".emacs.d/init.el",
        ".exrc",
        "buddy.toml",
        "sub/buddy.toml",
    ],
)
def test_SEC_054_settings_of_editors_and_agents_ask(path: str) -> None:
    assert locate(BOUNDARY, path).protected
    assert locate(BOUNDARY, path.upper()).protected


RUNS_UNASKED = (
    *(".hg/hgrc", "sub/.hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath", ".sl/config", ".pijul/config"),
    *(".jj/repo/config.toml", ".jj/workspace-config.toml", "_darcs/prefs/defaults", ".p4config"),
    *(".bazelrc", "sub/.bazelrc", ".bazeliskrc", ".bazelversion", ".buckconfig", ".pants.rc", ".arcconfig"),
    *(".mvn/extensions.xml", ".mvn/jvm.config", ".yarn/releases/yarn-4.cjs", ".yarn/plugins/x.cjs"),
    *(".envrc", ".mise.toml", ".autoenv", ".vscode/tasks.json", ".idea/runConfigurations/x.xml"),
    *(".vs/tasks.vs.json", ".nova/Tasks/x.json", ".theia/tasks.json", ".externalToolBuilders/x.launch"),
    *(".lite_project.lua", ".kiro/hooks/x", ".factory/settings.json", ".Renviron", ".octaverc", ".ocamlinit"),
)
"""A program reads them when it starts, for whatever the person starts it, and they name what it runs."""
RUNS_WHEN_ASKED = (
    *(".hg/store/data", ".hg/dirstate", ".jj/repo/store/git", ".jj/working_copy/checkout", ".sl/store"),
    *("config.toml", "src/config", "defaults", "tools/bazel/rules.bzl", "releases/x", "docs/hgrc"),
    *(".svn/hooks/pre-commit", ".svn/wc.db", ".yarn/cache/x.zip", ".python-version", ".nvmrc"),
    *("build.gradle", "gradlew", "BUILD.bazel", "justfile", ".rspec", ".editorconfig", ".clangd"),
)
"""What their programs write themselves, and what runs only when the person asks for just that."""
PIPELINE_FILES = (
    *(".github/workflows/ci.yml", ".GitHub/Workflows/ci.yml", ".github/actions/x/action.yml"),
    *(".gitea/workflows/x.yml", ".gitlab-ci.yml", ".circleci/config.yml", ".buildkite/pipeline.yml"),
    *("Jenkinsfile", "azure-pipelines.yml", ".travis.yml", "bitbucket-pipelines.yml", ".builds/x.yml"),
)
ADDED_NAMES = (
    *(
        ".kilocode/mcp.json",
        ".agents/skills/x.md",
        ".lvimrc",
        ".local.vimrc",
        "x.sublime-project",
        ".lazy.lua",
    ),
    *(".config/mise/config.toml", "mise/config.toml", ".config/mise/conf.d/a.toml", "mise/config.local.toml"),
    *(".rtx.toml", ".cursorrules", ".windsurfrules", ".roorules", ".roomodes", ".goosehints", ".hg/hgrc"),
    *(".kiro/settings/mcp.json", ".factory/mcp.json", ".vs/tasks.vs.json", ".theia/settings.json"),
    *(".jj/repo/config.toml", ".sl/config", ".mvn/extensions.xml", ".yarn/releases/yarn.cjs", ".Renviron"),
    *("sub/.kilocode/x", "sub/.cursorrules", "a/b.sublime-project"),
)
NO_PIPELINE_FILES = (".github/CODEOWNERS", "workflows/x.py", "src/actions/x.ts", ".github/ISSUE_TEMPLATE.md")


@pytest.mark.parametrize("path", [*RUNS_UNASKED, *ADDED_NAMES])
def test_what_starts_programs_unasked_is_protected(path: str) -> None:
    assert locate(BOUNDARY, path).protected
    assert locate(BOUNDARY, path.upper()).protected


@pytest.mark.parametrize("path", [*RUNS_WHEN_ASKED, *PIPELINE_FILES, *NO_PIPELINE_FILES])
def test_what_starts_nothing_by_itself_is_an_ordinary_file(path: str) -> None:
    assert locate(BOUNDARY, path).protected == ""


@pytest.mark.parametrize(
    "path", ["mise.md", "config/config.toml", "sublime-project", "agents/x", "lvimrc.md"]
)
def test_names_like_those_are_ordinary(path: str) -> None:
    assert locate(BOUNDARY, path).protected == ""


@pytest.mark.parametrize("path", [".pnp.cjs", "sub/.pnp.loader.mjs"])
def test_what_yarn_makes_asks_before_an_edit_alone(path: str) -> None:
    assert (locate(BOUNDARY, path).protected, bool(pipeline_reason(f"/w/{path}"))) == ("", True)


def test_files_of_build_servers_are_known() -> None:
    known = [path for path in (*PIPELINE_FILES, *NO_PIPELINE_FILES) if pipeline_reason(f"/w/{path}")]
    assert known == list(PIPELINE_FILES)


@pytest.mark.parametrize("path", ["AGENTS.md", "Makefile", "src/git/config.py", ".github/workflows/ci.yml"])
def test_SEC_054_instructions_and_makefiles_are_ordinary_edits(path: str) -> None:
    assert locate(BOUNDARY, path).protected == ""


@pytest.mark.parametrize(
    "path",
    [
        "~/.bashrc",
        "~/.zshenv",
        "~/.profile",
        "~/.config/fish/config.fish",
        "~/.ssh/authorized_keys",
        "~/.ssh",
        "~/.config/systemd/user/x.service",
        "~/.config/autostart/x.desktop",
        "~/.local/share/systemd/user/x.service",
        "~/.bash_history",
        "~/.gitconfig",
        "~/.config/git/config",
        "~/.config/nvim/init.lua",
        "~/.config/Code/User/settings.json",
        "~/.vimrc",
        "~/.tmux.conf",
        "~/.local/bin/ls",
        "~/bin/ls",
        "~/.npmrc",
        "~/.cargo/config.toml",
        "~/.docker/config.json",
        "~/.config/buddy/buddy.toml",
        "~/.local/state/buddy/trust.json",
        "~/.local/share/buddy/credentials",
        "~/Library/LaunchAgents/x.plist",
        "~/.claude.json",
        "/etc/cron.d/x",
        "/etc/passwd",
        "/var/spool/cron/crontabs/ann",
        "/etc/systemd/system/x.service",
        "/usr/bin/ls",
        "/proc/sys/kernel/core_pattern",
        "/dev/sda",
        "/var/run/docker.sock",
    ],
)
def test_SEC_055_places_that_start_programs_ask(path: str) -> None:
    assert locate(BOUNDARY, path).protected
    assert locate(BOUNDARY, path.upper().replace("/HOME/ANN", HOME)).protected


@pytest.mark.parametrize("path", ["BUDDY.TOML", "Buddy.Toml", "ｂuddy.toml", "buddy.toml.", "buddy.toml "])
def test_SEC_056_letter_case_and_look_alikes_do_not_matter(path: str) -> None:
    assert locate(BOUNDARY, path).protected == "buddy's own settings and sessions"


def test_a_link_with_a_harmless_name_is_protected_by_its_target(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / ".git").mkdir()
    (root / "notes").symlink_to(".git")
    (root / "buddy.toml").symlink_to("notes.toml")
    (root / "key").symlink_to(".env")
    boundary = Boundary(str(root), str(root), HOME)
    assert locate(boundary, "notes/config").protected.startswith("git's own data")
    assert locate(boundary, "buddy.toml").protected == "buddy's own settings and sessions"
    assert locate(boundary, "key").secret == "its name says that it holds secrets"


def test_a_dotfiles_workspace_still_asks() -> None:
    boundary = Boundary("/home/ann", "/home/ann", HOME)
    assert locate(boundary, ".bashrc").protected == "read by shells when they start"
    assert locate(boundary, ".config/x").protected == "the person's own settings"


def test_directories_that_the_environment_moved_are_protected() -> None:
    boundary = Boundary("/srv/repo", "/srv/repo", HOME, own=("/srv/State",))
    assert locate(boundary, "/srv/state/trust.json").protected == "buddy's own settings and sessions"
    assert locate(boundary, "/srv/state-of-affairs").protected == ""


def test_a_workspace_in_a_system_folder_is_a_workspace() -> None:
    boundary = Boundary("/usr/src/app", "/usr/src/app", "/root", extra=("/var/lib/jobs",))
    assert locate(boundary, "main.py").protected == ""
    assert locate(boundary, "/var/lib/jobs/x").protected == ""
    assert locate(boundary, "/usr/src/other").protected == "belongs to the system"


@pytest.mark.parametrize(
    "path",
    ["lib/python3/site-packages/evil.pth", "x/site-packages/usercustomize.py", "sitecustomize.py"],
)
def test_files_python_runs_by_itself_ask(path: str) -> None:
    assert locate(BOUNDARY, path).protected == "run whenever Python starts"


@pytest.mark.parametrize(
    "path", ["~/binary/x", "~/.local/binary", "~/.npmrc-notes", "/usrlocal/x", "/etcetera"]
)
def test_a_longer_name_with_a_protected_beginning_is_not_protected(path: str) -> None:
    assert locate(BOUNDARY, path).protected == ""


@pytest.mark.parametrize("path", ["~/.kube-notes", "~/.npmrc-notes", "/etc/shadow-notes", "/run/secretsanta"])
def test_a_longer_name_with_a_secret_beginning_is_not_secret(path: str) -> None:
    assert locate(BOUNDARY, path).secret == ""


def test_a_model_checkpoint_named_pth_is_an_ordinary_file() -> None:
    assert locate(BOUNDARY, "models/best.pth").protected == ""


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        ".env.local",
        ".env.production",
        ".ENV",
        ".envrc",
        "prod.env",
        "server.pem",
        "tls.key",
        "store.p12",
        "id_rsa",
        "id_ed25519",
        "deploy/id_ecdsa.bak",
        "id_rsa.old",
        "id_ed25519_sk",
        "id_rsa2",
        ".netrc",
        ".npmrc",
        "terraform.tfstate",
        "terraform.tfstate.backup",
        "terraform.tfstate.1700000000.backup",
        "network.tfstate",
        "prod.tfvars",
        ".env_prod",
        ".env_",
        ".ENV_Local",
        ".dev.vars",
        ".dev.vars.production",
        "worker/.DEV.VARS",
        "local.settings.json",
        "functions/Local.Settings.json",
        "sftp-config.json",
        ".ftpconfig",
        "service-account-prod.json",
        "client_secret_1.json",
        "secrets.yaml",
        ".git-credentials",
        ".htpasswd",
        "~/.aws/credentials",
        "~/.gnupg/private-keys-v1.d/x",
        "~/.ssh/config",
        "~/.kube/config",
        "~/.npmrc",
        "~/.docker/config.json",
        "~/.config/gcloud/x",
        "~/.config/gh/hosts.yml",
        "~/.mozilla/firefox/p/logins.json",
        "~/.config/google-chrome/Default/Login Data",
        "~/Library/Keychains/login.keychain-db",
        "~/.local/share/keyrings/x",
        "~/.local/share/buddy/credentials",
        "~/.codex/auth.json",
        "~/.claude/.credentials.json",
        "~/.bash_history",
        "/etc/shadow",
        "/etc/sudoers.d/x",
        "/proc/1/environ",
        "/proc/self/mem",
        "/proc/12/task/13/environ",
        "/run/secrets/token",
    ],
)
def test_files_that_hold_secrets_ask_to_be_read(path: str) -> None:
    assert locate(BOUNDARY, path).secret


@pytest.mark.parametrize(
    "path",
    [
        ".env.example",
        ".env.sample",
        ".env.production.template",
        ".env-dist",
        "example.env",
        "id_rsa.pub",
        "id_utils",
        "src/id_generator",
        "id_rsacrypt",
        "~/.ssh/id_ed25519.pub",
        "environment.py",
        ".environment",
        ".env_example",
        ".environ",
        ".env2html",
        ".dev.varsity",
        "dev.vars.md",
        "settings.json",
        "local.settings.json.md",
        "tfstate.py",
        "notes.tfstate.md",
        "database.backup",
        "sftp.json",
        "keys.py",
        "identity.go",
        "id_map.py",
        "token.ts",
        "README.md",
        "/etc/hosts",
        "package.json",
        "secrets.py",
    ],
)
def test_examples_public_keys_and_ordinary_files_do_not(path: str) -> None:
    assert locate(BOUNDARY, path).secret == ""


@pytest.mark.parametrize(
    "name", [*SECRET_ANYWHERE, ".env", "a.ENV", "x.pem ", "ID_rsa", "client_secret.json"]
)
def test_no_secret_name_passes_as_plain(name: str) -> None:
    assert not is_plain_name(name)
    assert secret_reason(f"/w/{name}", ProtectedPlaces("/nonexistent"))


@settings(max_examples=500, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            (
                *(".", "env", "id_", "rsa", "pem", "key", "x", "secret", "s", "service", "-account", "json"),
                *("yml", "client_", "credentials", "tfvars", "K", "PUB", "example", "\u212a", "_", "a", " "),
            )
        ),
        min_size=1,
        max_size=6,
    ).map("".join)
)
def test_a_name_that_is_plain_never_looks_secret(name: str) -> None:
    if is_plain_name(name):
        assert not secret_reason(f"/w/{name}", ProtectedPlaces("/nonexistent"))


@pytest.mark.parametrize(
    "name",
    [
        *(
            ".pre-commit-config.yaml",
            "lefthook.yml",
            "x.code-workspace",
            ".helix/languages.toml",
            ".Rprofile",
        ),
        *(".irbrc", ".ghci", ".ycm_extra_conf.py", "mise.toml", ".tool-versions", ".npmrc", ".yarnrc.yml"),
        *(".cargo/config.toml", "opencode.json", "crush.json", ".run/Test.run.xml", "sub/deep/.npmrc"),
        *("rust-toolchain.toml", "X.CODE-WORKSPACE", "Lefthook.yml"),
    ],
)
def test_RU_L8_names_that_run_something_are_protected(name: str) -> None:
    assert protected_reason(f"/project/{name}", ProtectedPlaces("/home/u", workspace=("/project",)))


@pytest.mark.parametrize(
    "name",
    ["cargo.toml", "npmrc", "run", "mise", "code-workspace", "helix/x", "docs/lefthook.md", "tool-versions"],
)
def test_RU_L8_names_that_only_look_like_them_are_not(name: str) -> None:
    assert protected_reason(f"/project/{name}", ProtectedPlaces("/home/u", workspace=("/project",))) == ""


@pytest.mark.parametrize(
    "path",
    [
        "GIT~1/hooks/x",
        "git~1/config",
        ".git::$INDEX_ALLOCATION/hooks/x",
        ".git:x/hooks/x",
        ".GIT. ::$INDEX_ALLOCATION/config",
        ".bashrc::$DATA",
        "BASHRC~1",
        "VSCODE~1/tasks.json",
        "sub/CLAUDE~2/settings.json",
        "BASH_P~1",
        "ENVRC~1",
        "BUDDY~1.TOM",
        "SSH~1/config",
    ],
)
def test_RU_L3_names_that_ntfs_takes_for_protected_ones_are_protected(path: str) -> None:
    assert protected_reason(f"/project/{path}", ProtectedPlaces("/home/u"))


@pytest.mark.parametrize("path", ["a~1", "src/main.py:12", "notes:x", "git~x", "legit~1", "x~12/y"])
def test_RU_L3_ordinary_names_with_those_signs_are_not(path: str) -> None:
    assert not protected_reason(f"/project/{path}", ProtectedPlaces("/home/u"))


@pytest.mark.parametrize("path", ["SSH~1/id", ".ssh::$INDEX_ALLOCATION/x", ".netrc::$DATA", "NETRC~1"])
def test_RU_L3_secrets_by_their_ntfs_names_are_secret(path: str) -> None:
    assert secret_reason(f"/project/{path}", ProtectedPlaces("/home/u"))


@pytest.mark.parametrize(
    "path",
    [
        ".bash\u00adrc",
        ".env\ufe0frc",
        ".e\U000e0041nvrc",
        "dotfiles/.config/fish/config.fish",
        ".config/fish/conf.d/x.fish",
        ".Config/Fish/Config.Fish",
    ],
)
def test_ATTACK_9_shell_start_files_ask_with_signs_that_file_systems_ignore(path: str) -> None:
    assert locate(BOUNDARY, path).protected


@pytest.mark.parametrize(
    "path", [".e\u00adnv", ".env\ufe0f", "id_\u034frsa", "server\u180b.pem", ".net\U000e0001rc"]
)
def test_ATTACK_9_secret_files_ask_with_signs_that_file_systems_ignore(path: str) -> None:
    assert locate(BOUNDARY, path).secret
