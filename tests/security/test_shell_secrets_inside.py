"""Secrets in the workspace, in notes of git and in logs of the machine; folders after a failed cd."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from buddy.safety.protected import (
    SECRET_ANYWHERE,
    SECRET_AT_HOME,
    ProtectedPlaces,
    is_plain_name,
    secret_reason,
)
from buddy.safety.shell.result import READ_ONLY_ENVIRONMENT
from tests.support.shell_project import lines_of, shell_project


def _names(text: str) -> list[str]:
    return text.split()


NOWHERE = ProtectedPlaces("/nonexistent")
SECRETS = _names(
    """credentials .credentials credentials.toml CREDENTIALS.csv deploy/credentials .secrets .secret
secrets.txt passwords.txt password.csv .vault_pass vault-password.txt .docker/config.json .DOCKER/Config.json
home/.docker/config.json .kube/config sub/.kube/config .kube/cache/x .authinfo .terraformrc .smbcredentials
.msmtprc .fetchmailrc .databrickscfg .dockerconfigjson rclone.conf htpasswd .config/gh/hosts.yml
dotfiles/.config/gcloud/x.db .m2/settings.xml .codex/auth.json .cargo/credentials.toml .gem/credentials
.subversion/auth/svn.simple/1 .local/share/python_keyring/x .pgpass .my.cnf .s3cfg
.dev.vars worker/.DEV.vars .dev.vars.staging local.settings.json functions/Local.Settings.json net.tfstate
terraform.tfstate.backup live/terraform.tfstate.1700000000.backup .env_prod sftp-config.json .ftpconfig"""
)
ORDINARY = _names(
    """src/credentials.py docs/credentials.md credentials.ts credentials_test.go src/credentials/service.py
.docker/Dockerfile .docker/nginx/default.conf config.json docker/config.json kube/config .github/config.json
.secrets.baseline secrets.py passwords.py password_reset.html vault.go vault/main.tf auth.json settings.xml
.config/nvim/init.lua gh/hosts.yml .mvn/settings.xml .cargo/config.toml tokens.txt credit.txt
dev.vars.md settings.json local.settings.md tfstate.go db.backup .env_example sftp.json .environment"""
)


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("command", ["cat NAME", "head -n 1 NAME", "wc -l < NAME", "diff NAME src/main.py"])
def test_secret_files_of_the_workspace_ask(tmp_path: Path, name: str, command: str) -> None:
    project = shell_project(tmp_path)
    file = project.root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x\n")
    assert not project.analyse(command.replace("NAME", name)).read_only


@pytest.mark.parametrize("command", ["cat NAME", "head -n 1 NAME", "wc -l < NAME"])
def test_files_with_similar_names_do_not(tmp_path: Path, command: str) -> None:
    project = shell_project(tmp_path)
    asked = [name for name in ORDINARY if project.reason(command.replace("NAME", name))]
    assert asked == []


@pytest.mark.parametrize("name", [*SECRETS, "server.pem", "deep/er/.boto"])
def test_searches_meet_every_secret_file(tmp_path: Path, name: str) -> None:
    project = shell_project(tmp_path)
    (project.root / ".env").unlink()
    assert project.reason("grep -rn colour .") == ""
    file = project.root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("colour\n")
    assert "it reads" in project.reason("grep -rn colour .")


def _shown_by_git(folder: Path, names: list[str]) -> list[str]:
    """The names whose diffs git would show in a command that only reads."""
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    told = subprocess.run(
        ["git", "check-attr", "-z", "--stdin", "diff"],
        cwd=folder,
        input="\0".join(names),
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), **READ_ONLY_ENVIRONMENT},
    ).stdout.split("\0")
    return [name for name, value in zip(told[::3], told[2::3], strict=False) if value != "unset"]


def test_git_shows_no_diff_of_secret_files(tmp_path: Path) -> None:
    copies = [name.removeprefix("/") for name, _ in SECRET_AT_HOME if name.count("/") > 1]
    names = [*SECRETS, *SECRET_ANYWHERE, *copies, *(f"{name}/x" for name in copies)]
    secret = [name for name in names if secret_reason(f"/w/{name}", NOWHERE)]
    assert len(secret) > 60
    assert _shown_by_git(tmp_path, secret) == []


def test_ATTACK10_git_shows_no_diff_of_copies_of_secret_files(tmp_path: Path) -> None:
    copies = [
        ".env copy",
        ".env (1)",
        "sub/.ENV 2",
        ".env@prod",
        ".env+x",
        ".env,v",
        ".env~~",
        ".env.realdist",
    ]
    examples = [".env.example", ".env-sample", ".env.local.dist", "example.env", ".environment", ".envoy"]
    assert [name for name in copies if not secret_reason(f"/w/{name}", NOWHERE)] == []
    assert _shown_by_git(tmp_path, [*copies, *examples]) == examples


@pytest.mark.parametrize("name", [*SECRETS, *SECRET_ANYWHERE])
def test_a_glance_at_the_names_of_a_path_misses_no_secret(name: str) -> None:
    assert not all(map(is_plain_name, name.split("/")))


OUTSIDE = """
cd src || cat ../b
cd src; cat ../a
cd src || head ../a
cd src ; wc -l < ../a
cd src; git diff -- ../a
cd src || true; cat ../a
cd src && ls || cat ../b
cd src && ls; cat ../b
cd src; ls | head; cat < ../a
cd src/sub; cat ../../a
cd src; ls ..
cd src || ls ..
cd src; grep x ../a
cd src; rg x ..
cd src; cat ../f.json | jq .
cd src; sort ../a ../b
cd src; du -sh ..
cd src; [ -f ../a ]
(cd src; cat ../a)
(cd src || cat ../a); ls
cd docs; cat *.md ../a
"""
INSIDE = """
cd src && cat ../a
cd src; cat main.py
cd src || ls
cd src || echo no
cd src; ls; git status
cd src && cat ../a && wc -l ../b
cd src && cat ../a | head
cd src && cat ../a || echo no
cd src; cat *.py
cd src; grep -n x main.py
cd src; ls sub
cd src || exit 1; cat main.py
"""


@pytest.mark.parametrize("command", lines_of(OUTSIDE))
def test_a_path_that_leads_outside_if_the_cd_fails_asks(tmp_path: Path, command: str) -> None:
    assert not shell_project(tmp_path).analyse(command).read_only


@pytest.mark.parametrize("command", lines_of(INSIDE))
def test_what_stays_inside_whether_the_cd_fails_or_not_does_not(tmp_path: Path, command: str) -> None:
    assert shell_project(tmp_path).reason(command) == ""


def test_a_secret_in_the_first_folder_asks_after_a_cd_that_may_fail(tmp_path: Path) -> None:
    project = shell_project(tmp_path)
    (project.root / "src/link").write_text("x")
    (project.root / "link").symlink_to(".env")
    assert project.reason("cd src && cat link") == ""
    assert project.reason("cd src; cat link").startswith("if the cd fails: it reads link")


GIT_AND_LOGS = """
git notes show
git notes show HEAD
git notes show HEAD~1
git notes --ref=x show
git notes list x y
git log --notes=x
git log -3 --notes=refs/notes/x
git show --notes=x
git shortlog --notes=x
git rev-list --notes=x a
git ls-files --exclude-per-directory=link
git ls-files -o --exclude-per-directory=link
git ls-files --exclude-per-directory link
git ls-files --exclude-per-directory=../x
git ls-files --exclude-per-directory=
git ls-files -oi --exclude-per-directory=.env
git ls-files -X link
git ls-files --exclude-from=link
journalctl
journalctl -n 5
journalctl -u nginx
journalctl -b -p err --no-pager
journalctl --list-boots
journalctl -k
dmesg
dmesg -T
dmesg | tail
dmesg | grep -i usb
/bin/dmesg
timeout 5 dmesg
command dmesg
cd src && dmesg
journalctl | grep foo
"""


@pytest.mark.parametrize("command", lines_of(GIT_AND_LOGS))
def test_notes_links_of_git_and_logs_of_the_machine_ask(tmp_path: Path, command: str) -> None:
    project = shell_project(tmp_path)
    (project.root / "link").symlink_to(project.home / "x")
    assert project.analyse(command).level == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git notes list",
        "git log --notes",
        "git ls-files -o --exclude-per-directory=.gitignore",
        "git show --no-notes",
    ],
)
def test_their_harmless_neighbours_do_not(tmp_path: Path, command: str) -> None:
    assert shell_project(tmp_path).reason(command) == ""
