"""Everyday commands that run without a question, and dangerous ones that never do."""

from __future__ import annotations

import pytest

from tests.support.shell_project import ShellProject, lines_of, shell_project

EVERYDAY = r"""
ls
ls -la
ls -la a b
cat f | head
cd src && ls
python --version
node -v
pip --version
echo "$HOME"
echo $PWD
ls 2>&1
ls > /dev/null
ls nosuch || true
date +%F
test -f x && echo yes
printf '%s\n' a
stat -c %s f
du -sh *
grep -rn "foo" src --include=*.py
rg -n --type py foo
sed -n '1,20p' f
awk '{print $1}' f
jq '.a[]' f.json
diff -u a b
sort f | uniq -c | sort -rn
tree -L 2 -I node_modules
head -c 100 f
xxd f | head
cat f | awk -F: '{ if ($3 > 5) print $1 }' | sort -u
find . -name "*.py" -type f
find . -name "*.py" -not -path "./node_modules/*" | head -20
find . -maxdepth 2 -type d | sort
find . -name "*.py" -print0 | xargs -0 grep -l "foo"
find . -name "*.py" | xargs wc -l
find . -type f -name "*.py" -exec grep -l foo {} +
find . -type f -name '*.py' -exec wc -l {} \;
git log --oneline -10
git log --pretty=format:"%h %s" -n 5
git status
git status -s
git status --porcelain
git diff HEAD~1
git diff --stat
git diff --cached
git show HEAD:src/main.py
git show --stat HEAD
git branch -a
git branch --show-current
git branch -vv
git remote -v
git rev-parse --abbrev-ref HEAD
git rev-parse --show-toplevel
git ls-files | wc -l
git ls-files | grep py | head
git blame -L 1,20 src/main.py
git stash list
git config --get user.name
git config user.email
git tag -l
git describe --tags
git --no-pager log -3
git shortlog -sn HEAD
git grep -n foo
git reflog -5
wc -l src/*.py
wc -l < f
cat <<'X'⏎$(touch OWNED)⏎X
LC_ALL=C sort f
ls > /dev/null 2>&1
echo 'rm -rf /'
ps aux | grep python
ps -ef | head
whoami
uname -a
pwd
which python3
which -a python
type ls
command -v node
env LC_ALL=C sort f
timeout 5 ls
nice -n 5 ls
time ls
bash -c 'ls | head'
tail -n 20 f
tail -5 f
nl f
comm -12 a b
cmp a b
file src/main.py
df -h
df -h .
basename /a/b/c.txt .txt
dirname /a/b
realpath f
cut -d: -f1 f
cut -d',' -f2,3 f
tr 'a-z' 'A-Z' < f
cat f | tr -d '\r'
fold -w 80 f
od -c f | head
base64 f
sha256sum f
md5sum a b
[ -f package.json ] && cat package.json
[ -d src ] || echo missing
ls src/{main,x}.py
grep -c . f
grep -E 'foo|bar' f
grep -v '^#' f | grep -v '^$'
grep -rn TODO . --exclude-dir=node_modules --exclude-dir=.git
grep -A3 -B2 foo f
sed 's/a/b/g' f
sed -n '/start/,/end/p' f
sed -e 's/a/b/' -e 's/c/d/' f
sed '1d;$d' f
sed -E 's/([a-z]+)/\1x/g' f
awk 'NR==1' f
awk -F, '{sum+=$2} END {print sum/NR}' f
awk '/foo/ {print $0}' f
awk '{print $NF}' f
awk 'NR>=10 && NR<=20' f
awk '{a[$1]++} END {for (k in a) print k, a[k]}' f
awk -v n=3 'NR==n' f
awk 'length($0) > 80 {print FILENAME": "FNR}' f
awk 'BEGIN{FS=":"}{printf "%s\n", $1}' f
jq -r '.name' package.json
jq '.scripts | keys' package.json
cat package.json | jq .dependencies
jq -c '.[] | select(.a > 1)' f.json
date
date -u +"%Y-%m-%dT%H:%M:%SZ"
date -d '1 day ago' +%s
echo $?
ls; echo $?
echo "exit: $?"
echo $PATH | tr ':' '\n'
find . -size +1M -exec ls -lh {} \;
find . -newer f -type f
find . -empty -type d
find src \( -name "*.py" -o -name "*.js" \) -print
find . -type f | sed 's/.*\.//' | sort | uniq -c | sort -rn
find . -mtime -1 -ls
find . -name node_modules -prune -o -name '*.js' -print
grep -rl foo src | xargs grep -n bar
git diff --name-only | xargs ls -la
ls *.py
ls -d */
ls -lt | head -5
cat src/main.py | wc -l
sort -k2,2n -t, f
sort -t$'\t' -k1 f
rg foo -g '*.py' -C 2
rg --files | head
rg -l foo | wc -l
rg --files -g '!node_modules'
fd -e py
fd main src
head -n 5 a b
seq 1 10
seq 10 -1 1
true
sleep 1
id -u
hostname
uptime
free -h
nproc
column -t -s, f
paste -sd, f
rev f
tac f
ls -la; pwd
! grep -q foo f
test -d src && ls src
cat f 2>/dev/null | head -n 3 || echo none
go version
java -version
docker --version
npm --version
cargo --version
git --version
printf "%d\n" 5
git log --since="2 weeks ago" --author=me --oneline | wc -l
git log -p -1 -- src/main.py
git diff main...HEAD --stat
git log --graph --oneline --all -20
git cat-file -p HEAD
git merge-base main HEAD
git worktree list
git ls-tree -r HEAD --name-only
git for-each-ref --sort=-committerdate refs/heads/ --format='%(refname:short)'
xxd -l 64 f
hexdump -C f | head
strings f | head
cat -n f | sed -n '10,20p'
cat f | sed -n 5p
du -h --max-depth=1 | sort -h
du -d 1 -h .
stat f
ls -1 | wc -l
echo "$USER"
egrep -i 'err|warn' f | tail -20
cat /dev/null
ps -p 1 -o pid,comm
ps aux --sort=-%mem | head
pgrep -fl node
grep -oP '(?<=a)b' f
find . -type f -name "*.md" -not -path "*/node_modules/*" -print0 | xargs -0 wc -l
find . -path ./node_modules -prune -o -type f -name '*.ts' -print | xargs grep -n foo
ls -R src | head
cat a b | sort | uniq -d
test -e f; echo $?
"""

DANGEROUS = r"""
echo hi && touch OWNED
find . -ex\⏎ec touch OWNED \;
grep x `touch OWNED`
cat <<X⏎$(touch OWNED)⏎X
sort --ou=OWNED f
uniq f OWNED
uniq *
rg --pre=./x p
sed -n '1w OWNED' f
sed 's/a/b/e' f
awk '{print > $1}' f
git -c core.pager=./x log
git diff --output OWNED
git diff --output=OWNED
git branch feature-x
LD_AUDIT=./x.so ls
cd ../other && git status
cat$IFS./f
echo ${v@P}
[[ -v 'a[$(touch OWNED)]' ]]
xargs -I{} sh -c {} < f
time -o OWNED ls
ls 9<>OWNED
cat ~/.ssh/id_rsa
cat .env
cat .en*
cat .e[n]v
grep -r . ~/.aws
env
printenv
set
export
declare -p
python -c 'print(1)'
make
npm test
./x
sh f
bash f
pip install x
curl http://x
ls &
sort -o f f
tree -o out
date -s now
date 01010101
file -C -m x
rg --pre cat p
fd -x rm
find . -delete
find . -fprintf out %p
find . -okdir rm {} \;
find . -exec rm {} \;
find . -exec sh -c 'rm $1' _ {} \;
git grep -O foo
git grep --open-files-in-pager=./x foo
git diff --no-index /etc/passwd f
uniq a b
uniq a -c
xxd a -i
xxd -r f out
xxd f out
base64 -d f > x
printf -v x a
test -v 'a[$(touch x)]'
[ -v a ]
ls -la | sh
echo x | tee f
sed -i s/a/b/ f
sed 'w f' a
sed -n 'r /etc/passwd' a
sed '1e touch x' a
sed -f f a
sed --in-place s/a/b/ f
sed -ni p f
sed s/a/b/w\ out f
awk -f f a
awk 'BEGIN{system("touch x")}'
awk 'BEGIN{"date" | getline x}'
awk '{print | "sh"}' f
awk 'BEGIN{while((getline l < "/etc/passwd")>0) print l}'
awk 'BEGIN{print ENVIRON["HOME"]}'
awk 'BEGIN{ARGV[1]="/etc/passwd";ARGC=2}{print}'
awk '/"/ {system("x")} /"/' f
awk '{print $1 > "/dev/stderr"}' f
awk 'BEGIN { if (x) /"/; system("touch y") #"/⏎}'
jq -f f a
jq -n env
jq -n '$ENV'
jq -n '"\(env)"'
jq --rawfile a .env -n '$a'
jq . .env
ps e
ps auxe
ps aux e
ps -eo pid,environ
ps -E
ps eww
ps -auxe
which -x ls
date -f f
wc --files0-from=f
du --files0-from=f
sort --files0-from=f
sort --compress-program=./x f
sort -T /tmp f
diff --to-file=/etc/passwd f
cmp /etc/passwd f
file -f f
grep -f .env f
grep -rf /etc/passwd .
less f
man ls
ｌｓ
echo {a..z}
$'rm' x
$'\x72m' x
ls ~root
ls ~+
ls ~-
echo !(a)
ls \⏎-la; rm x
ls⏎rm x
alias ls=rm; ls
hash -p /tmp/x ls
BASH_ENV=x ls
ENV=x ls
LD_PRELOAD=x ls
GIT_PAGER=x git log
GIT_EXTERNAL_DIFF=./x git diff
GIT_DIR=/tmp git log
PAGER=./x git log
PATH=. ls
IFS=/ ls
command rm x
builtin eval ls
exec ls > x
eval ls
source f
. f
coproc ls
cat <(ls)
ls > >(cat)
cat < /dev/tcp/1.2.3.4/80
echo x > /dev/tcp/1.2.3.4/80
cat /etc/passwd
cat ../x
ls /
ls ~
find / -name x
find ~ -name id_rsa
echo $OPENAI_API_KEY
echo ${HOME:-$(touch x)}
echo $((1+$(touch x)))
echo $[1]
echo "$(cat ~/.ssh/id_rsa)"
for f in *; do rm $f; done
(rm x)
{ rm x; }
if true; then rm x; fi
f() { rm x; }; f
function f { ls; }
rm -rf /
rm x
mv a b
cp a b
ln -s a b
mkdir d
touch x
chmod +x f
chown x f
dd if=a of=b
tee x
truncate -s 0 f
install a b
sudo ls
su -c ls
nohup ls
crontab -l
crontab -r
kill 1
pkill node
docker run x
ssh host ls
scp a b:
nc -l 80
git push
git pull
git fetch
git commit -m x
git add .
git checkout x
git reset --hard
git clean -fd
git stash
git stash pop
git config user.name x
git config --global alias.x '!ls'
git config --list
git config --get-regexp .
git remote add x y
git remote show origin
git ls-remote
git tag v1
git branch -D x
git branch -m a b
git show HEAD:.env
git log -p -- .env
git diff .env
git archive HEAD
git log --ext-diff -p
git show --textconv HEAD
git log --format='%G?'
git --exec-path=/tmp status
git --git-dir=/tmp/x log
git -C /tmp log
git --work-tree=/ status
git -p log
git ls-remote --upload-pack=./x .
git fetch --upload-pack=x
git bisect run ./x
git rebase -x ls HEAD
git submodule foreach ls
git difftool
git cat-file --batch
git hash-object -w f
git notes add
git reflog expire --all
git update-index f
git gc
git worktree add x
git symbolic-ref HEAD refs/heads/x
git replace a b
echo a >> f
echo a >| f
ls &> f
cat f >& out
> f
: > f
echo a 2> err
x=1
x=1; echo $x
export A=b
unset PATH
trap ls EXIT
set -o allexport
set -a
shopt -s extglob
ulimit -c unlimited
wait
jobs
fg
yes
tail -f f
tail -F f
tail --follow=name f
watch ls
top
sleep 100000
cat /proc/self/environ
cat /proc/1/environ
cat /dev/sda
strings /proc/self/environ
xargs -a f rm
echo x | xargs rm
find . | xargs rm
find . -name .env | xargs cat
find . -name '.env*' -exec cat {} \;
find . | grep '\.env' | xargs cat
echo .env | xargs cat
ls | xargs -I{} sh -c '{}'
find . -name '*.pem' -print0 | xargs -0 cat
ls | xargs sed -i s/a/b/
find . -type f | xargs sed -n 1p
xargs cat < f
cat f | bash
cat f | python
node -e 1
perl -e 1
ruby -e 1
php -r 1
python x.py
python -m http.server
npx x
npm install
npm run build
yarn
cargo build
go run .
go build
make -n
gcc x.c
tar xf a
unzip a
gzip f
zip a b
rsync a b
wget x
vim f
nano f
ed f
ex f
vi f
emacs f
dd of=/dev/sda
mkfs.ext4 /dev/sda
shutdown now
:(){ :|:& };:
history
bash
bash -i
bash -lc ls
bash -c 'touch x'
sh -c 'cat {a,b}'
env -S 'touch x'
env -i rm x
env X=y ls
env LD_PRELOAD=x ls
timeout 5 rm x
nice rm x
stdbuf -oL rm x
time rm x
/tmp/x
src/x
~/x
./ls
$HOME/x
"$HOME"/x
ls -la; ./x
grep foo f | tee out
grep --include=.env -r . .
grep -r PASSWORD --include='.env*' .
rg . .env
rg foo -g '.env' --hidden
rg --hostname-bin=x foo
rg -z foo
rg foo /etc
tree -R -H . -L 1
tree -Io x y
diff a /etc/passwd
diff --paginate a b
diff -l a b
column -x ~/.ssh/id_rsa
head -c 10 /dev/sda
od /etc/shadow
base64 ~/.ssh/id_rsa
base64 .env
xxd .env
nl .env
sort .env
awk 1 .env
sed -n p .env
wc -l /etc/passwd
stat /etc/passwd
du -sh /
comm .env a
paste .env
cut -c1- .env
fold .env
tr a b < .env
cat < .env
while read l; do echo $l; done < .env
mapfile -t a < .env
read x < .env
echo "$(<.env)"
cat f; cat .env
ls | cat .env
cp .env x
cat ./.env
cat src/../.env
cat "$PWD/.env"
cat '.env'
cat .e""nv
cat \.env
cat .{env,x}
cat {.env,f}
ps aux > x
ls -la > "$HOME/x"
printf x > f
gpg -d f
openssl enc -d -in f
security find-generic-password
pbpaste
osascript -e 1
open x
xdg-open x
code x
at now
systemctl stop x
launchctl load x
iptables -F
mount a b
hostname newname
id; touch x
find . -name x -exec touch OWNED +
ls -I
xxd -o 1 f g
cal > x
git log | sh
git log --output=x
git log -O x
git diff -O/etc/passwd
git show :.env
git show HEAD:./.env
git grep x -- .env
git blame .env
file -z f
file --compile
locale -x
expr 1 + 1 > x
hexdump -f .env f
pwd; cd /etc; cat passwd
cd src; cd ..; cat ../x
cd .. && cat x
cd /etc && cat passwd
cd && ls
cd - && ls
cd ~ && ls
cd src && cat ../.env
cd $OLDPWD
pushd src
ls | cd src
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ShellProject:
    made = shell_project(tmp_path_factory.mktemp("project"))
    made.git("init", "-q", ".")
    return made


def test_everyday_commands_that_only_read_run_without_a_question(project: ShellProject) -> None:
    asked = [line for line in lines_of(EVERYDAY) if line not in project.allowed(line)]

    assert asked == []


def test_no_dangerous_command_runs_without_a_question(project: ShellProject) -> None:
    assert project.allowed(DANGEROUS) == []


def test_every_question_has_a_reason(project: ShellProject) -> None:
    silent = [line for line in lines_of(DANGEROUS) if not project.reason(line.replace("⏎", "\n"))]

    assert silent == []


def test_the_first_part_that_does_not_only_read_is_named(project: ShellProject) -> None:
    assert project.reason("ls && rm f && touch x") == "rm is not known to only read"
