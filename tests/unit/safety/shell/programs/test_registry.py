"""The small parsers of sed, awk and jq programs: what only prints passes, everything else is asked about."""

from __future__ import annotations

import pytest

from tests.support.shell_project import ShellProject, lines_of, shell_project

SED_PRINTS = r"""
sed p f
sed -n F f
sed -n '$p;1,3{p;n;d}' f
sed '/x/!d' f
sed '0,/x/d' f
sed '1~2d;2,+3d;/a/,~4d' f
sed '\,x,Id' f
sed ':a;N;$!ba;s/\n/,/g' f
sed ':top⏎N⏎b top' f
sed 's,a/b,c,;s|x|y|2p;s#a#b#Ig' f
sed 's/[a-z]*$//' f
sed 's/[^]]*]//' f
sed 's/\//x/' f
sed 's/a/\⏎/' f
sed 'y/abc/xyz/' f
sed '$!{h;d};x;G' f
sed 'a text' f
sed '1i\⏎first line' f
sed '2q' f
sed -n 'l 60;=' f
sed '1Q5' f
sed '# a comment⏎p' f
sed 'ta;Tb;t' f
sed --expression=p -e d f
sed -n -E -s -z p f
sed '/a/ { s/b/c/ ; p }' f
sed '1 ! d' f
sed '/a/ , /b/ p' f
sed --line-length=5 -n l f
"""

SED_ASKS = r"""
sed
sed -e p -f x f
sed p .env
sed 'w x' f
sed '1W x' f
sed 'r x' f
sed 'R x' f
sed e f
sed '1e ls' f
sed 's/a/b/w x' f
sed 's/a/b/gw x' f
sed 's/a/b/e' f
sed 's/a/b/m;e' f
sed 's/a/b' f
sed 's/a' f
sed s f
sed 'sxaxbx' f
sed 's a b ' f
sed 's/[/]/x/' f
sed 's/a⏎b/c/' f
sed '1,p' f
sed '1,d p' f
sed '{p' f
sed 'p}' f
sed '1' f
sed '\' f
sed '\x' f
sed 'p x' f
sed '}p' f
sed ': ' f
sed ':a b;p' f
sed 'a' f
sed 'a\' f
sed 'a x\⏎w y' f
sed 'a\⏎' f
sed 'y/a/b' f
sed 'Lx' f
sed 'v' f
sed 'q5x' f
sed 's/a\' f
"""

AWK_PRINTS = r"""
awk '{print}' f
awk 1 f
awk 'NR==1{print $1; next} {print $2 "|" $3}' f
awk '/a|b/ && !/c/' f
awk '$1 ~ /x>y/ {print "a > b"}' f
awk '$1 >= 2 || $2 > 3 {n++} END {print n/NR, (n+1)/2, a[1]/2}' f
awk '{if ($1 > 5) print $1; else print $2}' f
awk '{ if (x) /y/; print 3/4/5 }' f
awk 'function f(a) { return a*2 } { print f($1) }' f
awk '{gsub(/[\/"]/, ""); print}' f
awk '{print length($0)}' f
awk -F '|' -v a=1 -v 'b=x y' '{print $2}' f
awk '# a comment with | and >⏎{print}' f
awk '{print}' OFS=, f
awk -- '{print}' f
awk '{a = $1; a **= 2; b = a % 3; print a^b, -a, !a}' f
awk 'BEGIN {printf "%s\n", "x"; exit 1}'
awk '{print $1 \⏎ $2}' f
awk '{x = "a\"b"; print x /2/ 3}' f
awk '!seen[$0]++' f
awk '{print .5 + 1e3}' f
awk '{ return /x/ }' f
"""

AWK_ASKS = r"""
awk
awk -f x f
awk --file=x f
awk -i inplace 1 f
awk '{print}' .env
awk '{print}' /etc/passwd
awk -v ENVIRON=1 1 f
awk -v x 1 f
awk 1 ARGC=3 f
awk '{print > "x"}' f
awk '{print >> "x"}' f
awk '{print >= 3}' f
awk '{printf "a" > "/dev/stderr"}' f
awk '{print | "sh"}' f
awk '{"ls" | getline}' f
awk '{print |& "sh"}' f
awk '{getline < "x"}' f
awk '{system("ls")}' f
awk '{print ENVIRON["A"]}' f
awk '{ARGV[1] = "x"}' f
awk '{PROCINFO["x"]}' f
awk '{SYMTAB["x"]}' f
awk '@load "x"' f
awk '{f = "system"; @f("ls")}' f
awk '{print x++ /y/ 2}' f
awk '{print length /2}' f
awk '{print /x/}' f
awk '{x in /y/}' f
awk '{print $/x/}' f
awk '/[/]/' f
awk '/x' f
awk '{print "a}' f
awk '{print `ls`}' f
awk '{print \ }' f
"""

JQ_READS = r"""
jq . f.json
jq -r '.a[0], .env' f.json
jq --arg n x --argjson m 1 '.[$n]' f.json
jq --indent 2 -c --tab . f.json
jq -n 'input' f.json
jq -- . f.json
"""

JQ_ASKS = r"""
jq
jq -r
jq env f.json
jq '.a|env' f.json
jq '$ENV.HOME' f.json
jq 'import "x" as x; .' f.json
jq 'include "x"; .' f.json
jq '"\(env.HOME)"' f.json
jq -f x f.json
jq --from-file x f.json
jq --rawfile a .env . f.json
jq --slurpfile a f.json . f.json
jq -L . . f.json
jq --arg x
jq --indent
jq --indent x . f.json
jq . .env
jq . - -h
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ShellProject:
    return shell_project(tmp_path_factory.mktemp("project"))


@pytest.mark.parametrize("commands", [SED_PRINTS, AWK_PRINTS, JQ_READS], ids=["sed", "awk", "jq"])
def test_programs_that_only_print_run_without_a_question(project: ShellProject, commands: str) -> None:
    asked = {line: project.reason(line.replace("⏎", "\n")) for line in lines_of(commands)}

    assert {line: reason for line, reason in asked.items() if reason} == {}


@pytest.mark.parametrize("commands", [SED_ASKS, AWK_ASKS, JQ_ASKS], ids=["sed", "awk", "jq"])
def test_programs_that_may_do_more_are_asked_about(project: ShellProject, commands: str) -> None:
    assert project.allowed(commands) == []
