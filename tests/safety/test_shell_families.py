"""Families of programs: names piped into xargs, links, secrets, tests, and the rest of the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.safety.shell import walk
from buddy.safety.shell.place import expression_names_secret, glob_expression, pattern_names_secret
from tests.shell_desk import ShellDesk, lines_of, make_desk

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
find . -type f | grep -v node_modules | sort | uniq | head -3 | tail -2 | xargs cat
find . -print0 | xargs -0 -I{} grep x {}
find src | xargs -I % grep x %
find . | tr '\n' '\0' | xargs -0 ls
find . | xargs
find . -type f -print0 | xargs -0 sed -n 1p
find . -type f -exec sed -n 1p {} +
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
[ -n "$CI" -a ! -z x ]
[ $? -eq 0 -o 1 -lt 2 ]
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
env -i -u X LC_ALL=C ls
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
find . -ls | xargs cat
find . -printf '%p\n' | xargs cat
find . | grep -n x | xargs cat
find . | grep -o x | xargs cat
find . | grep '(' | xargs cat
find . | grep pem | xargs cat
find . | sed s/a/b/ | xargs cat
find . | cut -c2- | xargs cat
find . | head -c 5 | xargs cat
find . | tail -c 5 | xargs cat
find . | uniq -c | xargs cat
find . | sort a | xargs cat
find . | tail a | xargs cat
find . | uniq a | xargs cat
find . | tr a b | xargs cat
find . -print0 | xargs cat
find . | xargs -0 cat
find . | xargs -d , cat
find . | xargs sed -n 1p
find . | xargs -I{} cat x{}
find . | xargs -I X cat X
find . | xargs -I{} {} x
find . | xargs -I% rm %
find . | xargs uniq
find .; xargs cat
fd '\.pem' | xargs cat
rg foo | xargs cat
xargs
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
cd nosuch
cd a
ls; cd src
cd src | ls
ls | cd src
cd -P src
cd $OLDPWD
"""


@pytest.fixture
def desk(tmp_path: Path) -> ShellDesk:
    return make_desk(tmp_path)


def test_what_only_reads_runs_without_a_question(desk: ShellDesk) -> None:
    asked = {line: desk.reason(line) for line in lines_of(READS)}

    assert {line: reason for line, reason in asked.items() if reason} == {}


def test_what_may_do_more_is_asked_about(desk: ShellDesk) -> None:
    assert desk.allowed(ASKS) == []


def test_following_links_out_of_the_workspace_is_asked(desk: ShellDesk) -> None:
    (desk.root / "src" / "link").symlink_to(desk.home / ".ssh")
    following = ["grep -R x .", "rg -L x", "fd -L x src", "find -L . -name x", "ls -RL src", "du -L src"]
    following += ["diff -r src build", "find . -follow", "find src -exec cat {} +", "find src | xargs cat"]
    following += ["find . -type f -o -name l | xargs cat", "cat src/link/id_rsa"]
    staying = ["grep -r x .", "rg x", "ls -R src", "find . -name x", "find src -type f -exec cat {} +"]
    staying += ["find src -type f | xargs cat"]

    assert [line for line in following if desk.analyse(line).read_only] == []
    assert desk.reason(following[0]) == "it looks outside the workspace: src/link → ~/.ssh"
    assert [line for line in staying if not desk.analyse(line).read_only] == []


def test_names_that_xargs_would_split_are_judged_in_pieces(desk: ShellDesk) -> None:
    command = "find . -type f | xargs cat"
    assert desk.reason(command) == ""  # docs/one two.md: two.md is a harmless name

    (desk.root / "src" / "x .env").write_text("")
    assert desk.reason(command).startswith("it reads .env: ")
    assert desk.reason("find . -type f -print0 | xargs -0 cat") == ""
    assert desk.reason("find . -type f | xargs -d '\\n' cat") == ""
    assert desk.reason("find . -type f | xargs ls") == ""
    (desk.root / "src" / "x .env").unlink()

    (desk.root / "src" / "x ..").mkdir()
    (desk.root / "src" / "x .." / "other").write_text("")
    assert desk.reason(command) == "it looks outside the workspace: ../other" or "outside" in desk.reason(
        command
    )
    (desk.root / "src" / "x .." / "other").unlink()
    (desk.root / "src" / "x ..").rmdir()

    (desk.root / "src" / "it's one").write_text("")
    assert desk.reason(command) == 'quotes in the name "it\'s one" would be taken away'


def test_too_many_files_to_look_through_are_asked(desk: ShellDesk) -> None:
    folder = desk.root / "build"
    for number in range(walk.MAX_ENTRIES):
        (folder / str(number)).touch()

    assert desk.reason("grep -R x .") == "there are too many files to see where all of them lead"


def test_a_folder_that_is_no_folder_is_passed_over(desk: ShellDesk) -> None:
    assert desk.reason("grep -R x a nosuch") == ""


def test_tools_that_start_another_version_of_themselves_are_asked_where_a_file_names_it(
    desk: ShellDesk,
) -> None:
    assert desk.analyse("cargo --version").read_only
    assert desk.analyse("yarn --version").read_only is False
    (desk.root / "rust-toolchain.toml").write_text("")

    assert not desk.analyse("cargo --version").read_only
    assert not desk.analyse("cd src && rustc -V").read_only
    assert not desk.analyse("cargo -q --version").read_only
    assert not desk.analyse("unknown --version").read_only
    assert not desk.analyse("cat -version").read_only


def test_patterns_for_secrets_are_told_from_ordinary_ones() -> None:
    assert [
        pattern_names_secret(pattern)
        for pattern in ("*.pem", ".env*", "id_*", "[.]env", "*", "*.py", ".e*", ".env")
    ] == [
        True,
        True,
        True,
        True,
        False,
        False,
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
