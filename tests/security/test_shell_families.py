"""Families of programs: names piped into xargs, links, secrets, tests, and the rest of the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.safety.shell import secret_search as walk
from buddy.safety.shell.context import expression_names_secret, glob_expression, pattern_names_secret
from tests.support.shell_project import ShellProject, lines_of, shell_project

READS = r"""
grep -V
rg -V
fd -V
fd x src | head
rg -L x src
grep -R x src
fd -L x src
find -L src -name x
ls -RL src
du -L src
tree -l src
diff -r src build
find . -regex '.*py' | xargs grep x
find . -name x -o -name y
find . -type f | grep -i py | xargs cat
find src -type f | grep -v node_modules | sort | uniq | head -3 | tail -2 | xargs cat
find . -print0 | xargs -0 -I{} grep x {}
find src | xargs -I % grep x %
find . | tr '\n' '\0' | xargs -0 ls
find . | xargs
find src -type f -print0 | xargs -0 sed -n 1p
find src -type f -exec sed -n 1p {} +
ls | xargs echo
echo a | xargs -n1 basename
fd -0 x src | xargs -0 cat
rg -l x src | xargs -d '\n' cat
ls -
cat - /dev/null
cat '~x'
head -c 4 /dev/urandom
strings -n 8 a
xxd -c 4 -l8 a
xxd -s +4 a
shuf -e a b c
shuf -n 1 a
printenv PATH HOME
set -euo pipefail; ls
set -x; set +x; set -o pipefail
exit 1
exit $?
ls || exit 1
[ a -nt b ]
test \( -f a \) -o -d src
test
test a
[ -f .env ]
test x '<' y
ps
ps -e -o pid=,args
ps -p 1 -o comm=
ps aux --sort=-rss --no-headers --forest
ps -ef --forest
ps -u root
date +%s
date -r a +%F
sleep 0.5s
env ls
nice ls
stdbuf -oL grep x a
builtin echo x
command -V ls
time -p ls
timeout -k 1 -s KILL 5s grep x a
sh -c 'ls | head'
/usr/bin/ls
/bin/cat a
/usr/bin/python3 --version
TZ=UTC date
LC_ALL=en_US.UTF-8 LANG= ls
cat <<< "$HOME"
ls 2>/dev/stdout
ls 3>&- 2>&1 </dev/null
cat a | tr a b
cat a | uniq -c
sort a | uniq
comm a b
grep foo src/*.py
echo "$LANG" $((1)) || true
cargo --version
du -sh src
grep -e x -e y a
grep -f a b
rg -e x
base64 -d a
"""
READS = READS.replace('echo "$LANG" $((1)) || true\n', "").replace("ls 3>&- 2>&1 </dev/null\n", "")

ASKS = r"""
env -i -u X LC_ALL=C ls
[ -n "$CI" -a ! -z x ]
[ $? -eq 0 -o 1 -lt 2 ]
cat [z-a]
bash -c 'ls $(x)'
bash -c 'cat .env'
bash -x -c ls
ls < $X
ls < $PATH
ls < *
LC_ALL=C
LC_ALL=/x ls
LC_ALL=$X ls
TZ=:../x date
</dev/null
ls {a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s}''{a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s}
ls $TMPDIR
cat $PATH
"$SHELL" -c ls
./ls
bin/ls
/tmp/ls
/usr/bin/time ls
cmp a*
comm *
head -n
head -n x
head -n5x5 a
head --lines
head --lines=x a
ls --colour=x
ls --all=x
ls -aX9Y
pwd x
date -r /etc/passwd
cat http://example.org/
cat .env*
cat .net?c
'[' a
'['
cat *.pem
cat 'x*.key'
cat /dev/sda
find . -name
find . -exec {} \;
find . -exec cat x{} \;
find . -exec cat
find . -exec \;
find . -name '*.pem' -exec cat {} +
find . -regex '.*\.env' -exec cat {} +
find . -path './.ssh/*' -exec cat {} +
find . -newer /etc/passwd
find . -regex '.*\.pem' | xargs cat
find . -ok ls {} \;
find . -exec rm {} +
find src -ls | xargs cat
find src -printf '%p\n' | xargs cat
find src | grep -n x | xargs cat
find src | grep -o x | xargs cat
find src | grep '(' | xargs cat
find src | grep pem | xargs cat
find src | sed s/a/b/ | xargs cat
find src | cut -c2- | xargs cat
find src | head -c 5 | xargs cat
find src | tail -c 5 | xargs cat
find src | uniq -c | xargs cat
find src | sort a | xargs cat
find src | tail a | xargs cat
find src | uniq a | xargs cat
find src | tr a b | xargs cat
find src -print0 | xargs cat
find src | xargs -0 cat
find src | xargs -d , cat
find src | xargs sed -n 1p
find src | xargs -I{} cat x{}
find src | xargs -I X cat X
find src | xargs -I{} {} x
find src | xargs -I% rm %
find src | xargs uniq
find src; xargs cat
fd '\.pem' | xargs cat
rg foo | xargs cat
xargs -n1 cat < a
xxd a b
xxd -r a
xxd -c
xxd -c . a
xxd a*
strings @a
strings /etc/passwd
shuf -o x a
shuf /etc/passwd
tree -P x -Lx
printenv
printenv SECRET
printf
printf -v x y
set
set -o vi
set -o
set -k
exit a
exit 1 2
sleep
sleep 9999
sleep x
[ a
[
test -v a
test -R a
test -t 1
test a -eq b
test 'a[$(x)]' -eq 1
test -f /etc/passwd
test /etc/passwd -nt a
ps -p
ps -p 'a b'
ps -o environ
ps -o
ps -ef aux
ps -ef -o pid
ps -e -f
ps --deselect
env -u
env -u 'x y' ls
env LD_PRELOAD=x ls
env -S ls
env A=b
env LC_ALL=C
timeout
timeout x ls
timeout 5
timeout 5 -x
nice
nice -n 5
nohup ls
command
command rm x
builtin
time
time -o x ls
sh
sh -c
sh -c ls x
sh -c 'ls ~'
sh -c "ls $'x'"
zsh -c ls
grep
grep x /etc/passwd
rg
rg x /etc
fd x /
uniq a -c
! rm x
cd src extra
cd ''
cd nosuch; ls
cd a
ls; cd src
cd src | ls
ls | cd src
cd -P src
cd $OLDPWD
"""


@pytest.fixture
def project(tmp_path: Path) -> ShellProject:
    return shell_project(tmp_path)


def test_what_only_reads_runs_without_a_question(project: ShellProject) -> None:
    lines = lines_of(READS)

    assert {line: project.reason(line) for line in lines if not project.analyse(line).read_only} == {}


def test_what_may_do_more_is_asked_about(project: ShellProject) -> None:
    assert project.allowed(ASKS) == []


def test_following_links_out_of_the_workspace_is_asked(project: ShellProject) -> None:
    (project.root / "src" / "link").symlink_to(project.home / ".ssh")
    following = ["grep -R x .", "rg -L x", "fd -L x src", "find -L . -name x", "ls -RL src", "du -L src"]
    following += ["diff -r src build", "find . -follow", "find src -exec cat {} +", "find src | xargs cat"]
    following += ["find . -type f -o -name l | xargs cat", "cat src/link/id_rsa"]
    staying = ["grep -r x .", "rg x", "ls -R src", "find . -name x", "find src -type f -exec cat {} +"]
    staying += ["find src -type f | xargs cat"]

    assert [line for line in following if project.analyse(line).read_only] == []
    assert project.reason(following[0]) == "it looks outside the workspace: src/link → ~/.ssh"
    assert [line for line in staying if not project.analyse(line).read_only] == []


def test_searching_for_secrets_where_secret_files_lie_is_asked(project: ShellProject) -> None:
    hunting = [
        "grep -ri password .",
        "grep -r '' .",
        "grep -rn . .",
        "grep -r -e AWS_ -e x",
        "rg -uu token",
        "rg --hidden '.*'",
    ]
    dumping = [
        "find . -type f -exec cat {} +",
        "find . -type f | xargs cat",
        "find . -type f -print0 | xargs -0 head",
    ]
    dumping += [
        "find . -type f -name '*.py' -o -size +0 -exec cat {} +",
        "find . -type f | grep -v x | xargs cat",
    ]
    plain = [
        "grep -rn foo .",
        "grep -rn password src",
        "grep -rn --include=*.py token .",
        "rg token",
        "rg -uu foo",
    ]
    plain += ["rg -uu -g '*.py' token", "rg --hidden --files", "find . -type f -name '*.py' -exec cat {} +"]
    plain += ["find . -type f -name '*.py' | xargs cat", "find . -type f -exec grep -l x {} +"]
    plain += [
        "find . -type f | xargs wc -l",
        "find . -type f | grep py | xargs cat",
        "git ls-files | xargs cat",
    ]

    assert [line for line in hunting + dumping if project.analyse(line).read_only] == []
    assert [line for line in plain if not project.analyse(line).read_only] == []
    (project.root / ".env").unlink()  # it may be there when the command runs
    assert [line for line in hunting + dumping if project.analyse(line).read_only] == []
    assert [line for line in plain if not project.analyse(line).read_only] == []


def test_the_parent_that_older_shells_match_is_only_named_by_ls_d(project: ShellProject) -> None:
    assert project.reason("ls -d .*") == ""
    assert project.reason("ls .*") == f"it looks outside the workspace: {project.root.parent}"


def test_names_that_xargs_would_split_are_judged_in_pieces(project: ShellProject) -> None:
    command = "find docs src -type f | xargs cat"
    assert project.analyse(command).read_only  # docs/one two.md: two.md is a harmless name

    (project.root / "src" / "x id_rsa").write_text("")
    assert project.reason(command).startswith("it reads id_rsa: ")
    assert project.analyse("find docs src -type f -print0 | xargs -0 cat").read_only
    assert project.analyse("find docs src -type f | xargs -d '\\n' cat").read_only
    assert project.analyse("find . -type f | xargs ls").read_only
    (project.root / "src" / "x id_rsa").unlink()

    (project.root / "src" / "x ..").mkdir()
    (project.root / "src" / "x .." / "other").write_text("")
    assert project.reason(
        command
    ) == "it looks outside the workspace: ../other" or "outside" in project.reason(command)
    (project.root / "src" / "x .." / "other").unlink()
    (project.root / "src" / "x ..").rmdir()

    (project.root / "src" / "it's one").write_text("")
    assert project.reason(command) == 'quotes in the name "it\'s one" would be taken away'


def test_too_many_files_to_look_through_are_asked(project: ShellProject) -> None:
    folder = project.root / "build"
    for number in range(walk.MAX_ENTRIES):
        (folder / str(number)).touch()

    assert project.reason("grep -R x .") == "there are too many files to see where all of them lead"


def test_a_folder_that_is_no_folder_is_passed_over(project: ShellProject) -> None:
    assert project.reason("grep -R x a nosuch") == ""


def test_tools_that_start_another_version_of_themselves_are_asked_where_a_file_names_it(
    project: ShellProject,
) -> None:
    assert project.analyse("cargo --version").read_only
    assert project.analyse("yarn --version").read_only
    (project.root / "package.json").write_text('{"package\\u004danager": "yarn@9"}')
    assert not project.analyse("yarn --version").read_only
    (project.root / "package.json").write_text('{"packageManager": "pnpm@9"}')
    assert not project.analyse("pnpm -v").read_only
    (project.root / "package.json").write_text(" " * 200_001)
    assert not project.analyse("pnpm -v").read_only
    (project.root / "package.json").unlink()
    (project.root / "package.json").mkdir()
    assert not project.analyse("pnpm -v").read_only
    (project.root / "rust-toolchain.toml").write_text("")

    assert not project.analyse("cargo --version").read_only
    assert not project.analyse("cd src && rustc -V").read_only
    assert not project.analyse("cargo -q --version").read_only
    assert not project.analyse("unknown --version").read_only
    assert not project.analyse("cat -version").read_only


def test_patterns_for_secrets_are_told_from_ordinary_ones() -> None:
    assert [
        pattern_names_secret(pattern)
        for pattern in ("*.pem", ".env*", "id_*", "[.]env", "*", "*.py", ".e*", ".??*", ".git*", ".env")
    ] == [
        True,
        True,
        True,
        True,
        False,
        False,
        True,
        True,
        False,
        False,
    ]
    assert [expression_names_secret(text) for text in (r"\.env", "pem$", "(", "a", r"\.py\|x", "id_rsa")] == [
        True,
        True,
        True,
        False,
        False,
        True,
    ]
    assert glob_expression("a?[!b-c]*.").pattern == r"a.[^b-c].*\."


def test_npm_is_asked_about_where_the_project_configures_it(project: ShellProject) -> None:
    assert project.analyse("npm ls").read_only
    (project.root / ".npmrc").write_text("onload-script=./x.js\n")

    assert project.reason("cd src && npm ls") == "npm reads the project's .npmrc, which may start programs"


def test_rustc_is_asked_about_where_the_project_names_another_one(project: ShellProject) -> None:
    assert project.analyse("rustc -vV").read_only
    (project.root / "rust-toolchain").write_text("x")

    assert project.reason("rustc -vV") == "rustup may first install what rust-toolchain names"
