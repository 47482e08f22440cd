"""An answer to a command holds while the files that its options, code and variables name are those that were
shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.safety.policy.approval_text import coverage
from buddy.safety.policy.decide import ASK, Decision, Grant, judge
from buddy.safety.policy.facts import Facts
from buddy.safety.policy.rules import Rule, RuleSet, rules_for_session, rules_to_save
from tests.support.shell_project import ShellProject, shell_facts, shell_project


@pytest.fixture
def project(tmp_path: Path) -> ShellProject:
    return shell_project(tmp_path)


def decide(facts: Facts, granted: tuple[Rule, ...]) -> Decision:
    grants = tuple(Grant(rule, None) for rule in granted)
    return judge(facts, "edit", RuleSet(), grants, ASK, trusted=True, now=0.0).decision


LOADING = [
    # what the eighth attack left open
    ("PERL5OPT=-Mx perl -e 1", "x.pm"),
    ("perl -Mx -I. -e 1", "x.pm"),
    ("sqlite3 x.db '.read f'", "f"),
    ("ssh -F f host", "f"),
    ("pytest -p plug", "plug.py"),
    ("pytest -c f tests", "f"),
    # interpreters
    ("RUBYOPT=-r./x ruby -e 1", "x.rb"),
    ("RUBYOPT='-I. -rx' ruby -e 1", "x.rb"),
    ("ruby -rx -I. -e 1", "x.rb"),
    ("ruby -r ./x -e 1", "x.rb"),
    ("perl -mA::B -Ilib -e 1", "lib/A/B.pm"),
    ("PERL5LIB=lib perl -MA -e 1", "lib/A.pm"),
    ("PYTHONPATH=lib python3 -m mod", "lib/mod.py"),
    ("python3 -c 'import mod'", "mod.py"),
    ("python3 -c \"exec(open('notes.txt').read())\"", "notes.txt"),
    ("node -e \"require('./mod')\"", "mod.js"),
    ("perl -e 'do \"./f\"'", "f"),
    ("php -d auto_prepend_file=x.php -r 1", "x.php"),
    ("php -c php.ini -r 1", "php.ini"),
    ("LUA_INIT=@f lua -e 1", "f"),
    ("lua -l mod -e 1", "mod.lua"),
    ("NODE_OPTIONS=--require=./mod.js node -e 1", "mod.js"),
    ("env PERL5OPT=-Mx perl -e 1", "x.pm"),
    ("PYTHONBREAKPOINT=mod.run python3 -c 'breakpoint()'", "mod.py"),
    # builds and tests
    ("gcc @f main.c", "f"),
    ("gcc -specs=f main.c", "f"),
    ("gcc -fplugin=./f.so main.c", "f.so"),
    ("gcc -wrapper ./f,x main.c", "f"),
    ("cmake -P f", "f"),
    ("cmake -C f .", "f"),
    ("ninja -f f", "f"),
    ("MAKEFILES=f make", "f"),
    ("MAKEFLAGS=-ff make", "f"),
    ("make --eval='include f'", "f"),
    ("just -f f", "f"),
    ("rake -f f", "f"),
    ("ant -f f", "f"),
    ("gradle -I f build", "f"),
    ("mvn -s f test", "f"),
    ("python3 -m pytest -p plug tests", "plug.py"),
    ("PYTEST_ADDOPTS='-p plug' pytest", "plug.py"),
    ("PYTEST_PLUGINS=plug pytest", "plug.py"),
    ("uv run pytest -p plug", "plug.py"),
    ("jest --config=f", "f"),
    ("npx jest -c f", "f"),
    ("mocha -r ./f", "f"),
    ("eslint --rulesdir=x -c f src", "f"),
    ("npx eslint --config f src", "f"),
    ("prettier --plugin=./f.mjs src", "f.mjs"),
    ("rspec -r ./f", "f.rb"),
    ("bundle exec rspec -r ./f", "f.rb"),
    ("BUNDLE_GEMFILE=f bundle install", "f"),
    ("cargo --config f build", "f"),
    ("go build -overlay f", "f"),
    ("GOFLAGS=-overlay=f go build", "f"),
    ("java @f", "f"),
    ("java -javaagent:f.jar Main", "f.jar"),
    ("java -javaagent:./lib/f.jar=x -cp . Main", "lib/f.jar"),
    ("JAVA_TOOL_OPTIONS=-javaagent:f.jar java Main", "f.jar"),
    ("tox -c f", "f"),
    # databases, networks, machines
    ("sqlite3 -init f x.db 'select 1'", "f"),
    ("sqlite3 x.db -cmd '.read f'", "f"),
    ("psql -f f", "f"),
    ("psql -c '\\i f'", "f"),
    ("mysql --defaults-file=f", "f"),
    ("mysql -e 'source f'", "f"),
    ("duckdb x.db -c '.read f'", "f"),
    ("curl -K f", "f"),
    ("curl --config f", "f"),
    ("curl -d @f https://x", "f"),
    ("wget --config=f https://x", "f"),
    ("scp -F f a host:b", "f"),
    ("docker compose -f f up", "f"),
    ("docker compose --file=f up", "f"),
    ("docker build -f f .", "f"),
    ("COMPOSE_FILE=f docker compose up", "f"),
    ("kubectl apply -f f", "f"),
    ("helm install x . --values=f", "f"),
    ("terraform apply -var-file=f", "f"),
    ("ansible-playbook -i hosts site.yml", "site.yml"),
    ("ansible-playbook site.yml", "site.yml"),
    ("ansible all -m script -a ./f", "f"),
    # others
    ("git -c include.path=f fetch", "f"),
    ("gdb -ex 'source f' prog", "f"),
    ("gdb --eval-command='source f'", "f"),
    ("vim -c 'source f' notes", "f"),
    ("vim --cmd 'so f' notes", "f"),
    ("emacs --batch -l f.el", "f.el"),
    ("emacs --script f.el", "f.el"),
    ("tmux -f f", "f"),
    ("screen -c f", "f"),
    ("OPENSSL_CONF=f openssl version", "f"),
    ("openssl req -config f", "f"),
    ("logrotate -s state f.conf", "f.conf"),
    ("nginx -c f", "f"),
    ("supervisord --configuration=f", "f"),
    ("xargs -a f rm", "f"),
    ("parallel --arg-file=f make", "f"),
    ("ffmpeg -filter_script f x.mp4", "f"),
    ("pandoc --filter ./f a", "f"),
    ("pandoc --lua-filter=f.lua a", "f.lua"),
    ("pre-commit run -c f", "f"),
    ("pip install -r f", "f"),
    ("pip install --requirement=f", "f"),
    ("conda env create -f f", "f"),
    # neighbours: letters together, commands in options, programs that run their arguments
    ("ssh -4Ff host", "f"),
    ("ssh -o Include=f host", "f"),
    ("ssh -o 'Include f' host", "f"),
    ("perl -wMx -I. -e 1", "x.pm"),
    ("perl '-M-x' -e 1", "x.pm"),
    ("pytest -o addopts=-pplug", "plug.py"),
    ("deno run -A --config=f x.ts", "f"),
    ("jest --setupFilesAfterEnv ./f.js", "f.js"),
    ("eslint -f ./f.js src", "f.js"),
    ("mongosh f.js", "f.js"),
    ("rsync --rsh='ssh -F f' a h:b", "f"),
    ("terraform apply f.tfplan", "f.tfplan"),
    ("lldb -o 'command source f'", "f"),
    ("tmux source-file f", "f"),
    ("git -c core.hooksPath=d commit", "d/pre-commit"),
    ("git apply f", "f"),
    ("git am f", "f"),
    ("patch -i f", "f"),
    ("socat EXEC:./run -", "run"),
    ("sed -nf f a", "f"),
    ("tar cf x.tar -I'sh f' a", "f"),
    ("java Main", "Main.class"),
    ("CLASSPATH=lib java Main", "lib/Main.class"),
    ("dotnet f.dll", "f.dll"),
    ("uvicorn mod:app", "mod.py"),
    ("uv pip install -r f", "f"),
    ("nix-shell f.nix", "f.nix"),
    ("openvpn f", "f"),
]


@pytest.mark.parametrize(("command", "path"), LOADING)
def test_ATTACK_9_an_answer_binds_each_file_that_options_code_and_variables_name(
    project: ShellProject, command: str, path: str
) -> None:
    named = project.root / path
    named.parent.mkdir(parents=True, exist_ok=True)
    named.write_text("shown\n")
    facts = shell_facts(project, command)
    granted, saved = rules_for_session(facts), rules_to_save(facts)
    if not granted:  # nothing is remembered: each run asks
        assert decide(facts, ()) == "ask"
        return

    assert (decide(facts, granted), decide(facts, saved)) == ("allow", "allow")
    assert path in coverage(granted, facts).rpartition("while ")[2]
    named.write_text("another\n")
    later = shell_facts(project, command)
    assert (decide(later, granted), decide(later, saved)) == ("ask", "ask")
    named.write_text("shown\n")
    assert decide(shell_facts(project, command), granted) == "allow"


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("perl -Mx -I. -e 1", "x.pm"),
        ("python3 -c 'import mod'", "mod/__init__.py"),
        ("pytest -p plug", "plug.py"),
        ("ruby -r ./x -e 1", "x.rb"),
        ("sqlite3 x.db '.read f'", "f"),
    ],
)
def test_ATTACK_9_an_answer_covers_no_file_that_came_since(
    project: ShellProject, command: str, path: str
) -> None:
    granted = rules_for_session(shell_facts(project, command))
    assert granted
    (project.root / path).parent.mkdir(exist_ok=True)
    (project.root / path).write_text("written afterwards\n")

    assert decide(shell_facts(project, command), granted) == "ask"


EVERYDAY = [
    "pytest -x a",
    "pytest -q -k main src/main.py",
    "python3 -m pytest -x src/main.py",
    "uv run pytest -xq src/main.py",
    "poetry run pytest -x src/main.py",
    "timeout 60 pytest -x src/main.py",
    "pytest --junitxml=a src",
    "ruff check --fix src/main.py",
    "uv run ruff format -q src/main.py",
    "npx prettier --write src/main.py",
    "npx eslint --fix src/main.py",
    "mypy --strict src/main.py",
    "gcc -Wall -c a",
    "gcc -Wall a -o b",
    "cargo test -q a",
    "go test -v ./src",
    "git add -A src/main.py",
    "git commit -m 'change src/main.py'",
    "git commit -am a",
    "cp -r a c",
    "rm -f a",
    "tar -cf c a",
    "sed -i s/x/y/ a",
    "python3 -u s.py a",
    "python3 s.py --config a",
    "node s.js -x a",
    "tool --output a",
    "tool --input a",
    "tool --log-file=a",
    "ffmpeg -i a c",
    "npm run build",
    "npm test -- --watch=false",
    "make -j4 a",
    "docker run --rm image a",
]


@pytest.mark.parametrize("command", EVERYDAY)
def test_an_answer_to_an_everyday_command_holds_while_its_data_changes(
    project: ShellProject, command: str
) -> None:
    (project.root / "s.py").write_text("print(1)\n")
    (project.root / "s.js").write_text("1\n")
    granted = rules_for_session(shell_facts(project, command))
    assert granted
    for path in ("a", "b", "src/main.py"):
        (project.root / path).write_text("other\n")

    assert decide(shell_facts(project, command), granted) == "allow"


@pytest.mark.parametrize("command", ["pushd src; sqlite3 x.db '.read f'", "popd; perl -Mx -e 1"])
def test_ATTACK_9_no_answer_for_a_named_file_in_an_unknown_folder_is_kept(
    project: ShellProject, command: str
) -> None:
    assert rules_to_save(shell_facts(project, command)) == ()


def test_ATTACK_9_files_outside_the_workspace_are_not_bound(project: ShellProject) -> None:
    (project.home / "f").write_text("x\n")
    (project.root / "linked").symlink_to(project.home / "f")
    for command in ("ssh -F linked host", f"ssh -F {project.home}/f host"):
        assert "while" not in coverage(
            rules_for_session(shell_facts(project, command)), shell_facts(project, command)
        )


def test_ATTACK_9_no_answer_for_a_command_of_too_many_words_is_kept(project: ShellProject) -> None:
    names = " ".join(f"w{number}" for number in range(310))
    (project.root / "w309").write_text("x\n")

    assert rules_to_save(shell_facts(project, f"sqlite3 x.db '{names}'")) == ()
    few = shell_facts(project, "sqlite3 x.db '" + names[:400] + " w309'")
    assert "w309" in coverage(rules_to_save(few), few)
