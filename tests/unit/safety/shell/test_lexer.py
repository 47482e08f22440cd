"""The strict lexer, the grammar and the expansion: what each refuses, and that they agree with bash."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from buddy.safety.shell.context import RefusedError
from buddy.safety.shell.expansion import MAX_ENTRIES, MAX_MATCHES, expand
from buddy.safety.shell.lexer import read_line
from buddy.safety.shell.result import Piece, Redirect, Simple, UnclearError, Word
from buddy.safety.shell.tree_sitter import Grammar
from tests.bench import shell_corpus, shell_fuzz
from tests.capabilities import requires
from tests.support.shell_project import ShellProject, shell_project


@pytest.fixture
def project(tmp_path: Path) -> ShellProject:
    return shell_project(tmp_path)


def word(*pieces: tuple[str, str]) -> Word:
    return Word(tuple(Piece(text, kind) for text, kind in pieces))


def words(command: str, project: ShellProject) -> list[str]:
    return list(expand(read_line(command).commands[0].words, project.place).argv)


def test_a_line_is_read_into_commands_with_connectors_redirections_and_assignments() -> None:
    line = read_line("A=b x 'y z'\"$HOME\"'*' 2>&1 <f && c | d; e || f\ng")

    assert line.connectors == ("", "&&", "|", ";", "||", ";")
    assert line.commands[0] == Simple(
        (("A", word(("b", "bare"))),),
        (
            word(("x", "bare")),
            word(("y z", "quoted"), ("HOME", "quoted variable"), ("*", "quoted")),
        ),
        (Redirect("2", ">&", word(("1", "bare"))), Redirect("", "<", word(("f", "bare")))),
    )
    assert Grammar().commands("A=b x 'y z'\"$HOME\"'*' 2>&1 <f && c | d; e || f\ng") == line.commands


@pytest.mark.parametrize(
    ("command", "reason", "construct"),
    [
        ("a &&", "nothing follows &&", False),
        ("a |", "nothing follows |", False),
        ("; a", "a command is missing before ;", False),
        ("a; ; b", "a command is missing before ;", False),
        ("(a)", "a subshell", True),
        ("a )", "unexpected )", True),
        ("a &", "a job in the background", True),
        ("a ;; b", "a case", True),
        ("a ;& b", "a case", True),
        ("a |& b", "a pipe with |&", True),
        ("if a; then b; fi", "an if: buddy can't tell what it does, so it asks", True),
        ("while a; do b; done", "a loop: buddy can't tell what it does, so it asks", True),
        ("case a in b) c;; esac", "a case: buddy can't tell what it does, so it asks", True),
        ("{ a; }", "a group: buddy can't tell what it does, so it asks", True),
        ("[[ a ]]", "a [[ ]] test: buddy can't tell what it does, so it asks", True),
        ("function a { b; }", "a function: buddy can't tell what it does, so it asks", True),
        ("coproc a", "a coprocess: buddy can't tell what it does, so it asks", True),
        ("! { a; }", "a group: buddy can't tell what it does, so it asks", True),
        ("! ! a", "a ! in an odd place", False),
        ("A=b ! c", "a ! in an odd place", False),
        ("a() { b; }", "a function, an array or a pattern list", True),
        ("a=(b)", "a function, an array or a pattern list", True),
        ("ls !(a)", "a function, an array or a pattern list", True),
        ("a+=b", "an array or an appending assignment", True),
        ("a[0]=b", "an array or an appending assignment", True),
        ("a 'b", "a single quote does not end", False),
        ('a "b', "a double quote does not end", False),
        ("a `b`", "a command substitution", True),
        ('a "`b`"', "a command substitution", True),
        ("a $(b)", "a command substitution", True),
        ("a $[1]", "arithmetic", True),
        ('a $"b"', "a translated string", True),
        ('a "$\'b"', "an odd dollar sign", False),
        ("a ${b:-c}", "a parameter expansion", True),
        ("a ${1}", "a parameter expansion", True),
        ("a $'\\x41'", "a $'…' string with escapes", True),
        ("a $'b", "a $'…' string with escapes", False),
        ("a\\", "a line continuation inside a word", False),
        ("a\\\nb", "a line continuation inside a word", False),
        ('a "b\\\nc"', "a line continuation inside a word", False),
        ("a >", "nothing follows >", False),
        ("a > >b", "nothing follows >", False),
        ("a <(b)", "a process substitution", True),
        ("a {b}>c", "a redirection into a variable", True),
        ("a <<E", "a here-document does not end", False),
        ("a <<E\nb", "a here-document does not end", False),
        ("a <<'E'\nb\nEE", "a here-document does not end", False),
        ("a <<E\n$b\nE", "a here-document with expansions", True),
        ("a <<$b\nE", "a here-document with an odd end mark", False),
        ("a " + "b " * 300, "more than 300 words", True),
        ("a " + "[" * 41, "more than 40 opening brackets", True),
    ],
)
def test_what_the_lexer_does_not_follow_is_named(command: str, reason: str, construct: bool) -> None:
    with pytest.raises(UnclearError) as raised:
        read_line(command)

    assert (raised.value.reason, raised.value.construct) == (reason, construct)


@pytest.mark.parametrize(
    "command",
    [
        "a <<E\nb\nE",
        "a <<-'E' | c\n\tb\n\tE\nd",
        "a <<\\E\nb\nE",
        "\n\na\n\n",
        "a; # b\nc",
        "a \\\n b",
        "2>&1 a",
        "a 2>/dev/null -b",
        "! a | b",
        "a && ! b",
        "[ -f a ] && [ ! b = c ]",
        "a '' \"\" ''b",
        "a $'\\t\\n\\\\\\'\\\"'",
        'a "$b c $d" ${e}f$?',
        "A= b",
        'a "$" b$',
        "a &>/dev/null &>>/dev/null",
        "a <<<b",
        "a || b && c",
        "a b#c #d",
        "é ü",
        'a "b\\"\\$\\`\\\\\\c"',
        ">a",
        "[ a ]",
    ],
)
def test_both_parsers_read_the_same(command: str) -> None:
    assert Grammar().commands(command) == read_line(command).commands


@pytest.mark.parametrize(
    "command",
    [
        "a (",
        "for x in a; do b; done",
        "(a)",
        "{ a; }",
        "a $(b)",
        "[[ a ]]",
        "((1))",
        "a=(b)",
        "a[0]=b c",
        "a+=b c",
        "export a",
        'a "$(b)"',
        "a ${b:-c}",
        "a ${!b}",
        "a <(b)",
        "a $((1))",
        "a $'\\x41'",
        "[ a =~ (b) ]",
        'a "${b/c/d}"',
        "{ a; } > b",
        "a | b > c && d",
        "(a; b) > c",
        "unset a",
        "a {1..3}",
        "a=b",
        "a ${#b}",
        "if a; then b; fi",
        "a; b &",
        "a ?(b)",
        "a 1#2",
        "[ $(a) ]",
        "a=$(b) c",
        "a=`b`",
        "a <<E\n$(b)\nE",
        "a \\\nb\\\nc",
        "! (a)",
        "a=b c=d",
        "while a; do b; done > c",
        "a <<$x\nb\n$x",
        "a ${b}${c:1}",
        'a $"b"',
        "a <<E | b > c\nd\nE",
        "'a b' ''c ` ` d",
        "a >> A+=b",
        'a >> b $"x"',
        "a b\\",
        "A+=b c",
        "a <<E b\nE",
    ],
)
def test_what_one_parser_refuses_is_never_read_by_both(project: ShellProject, command: str) -> None:
    assert project.analyse(command).level == "ask"
    with contextlib.suppress(UnclearError):
        Grammar().commands(command)


def test_words_are_expanded_as_bash_does(project: ShellProject) -> None:
    home, root = str(project.home), str(project.root)

    assert words("x ~ ~/a $HOME/b \"$PWD\" '~' \\~ a~", project) == [
        "x",
        home,
        f"{home}/a",
        f"{home}/b",
        root,
        "~",
        "~",
        "a~",
    ]
    assert words("x {a,b}c{1,2} {} a{b}c HEAD@{1}", project) == [
        "x",
        "ac1",
        "ac2",
        "bc1",
        "bc2",
        "{}",
        "a{b}c",
        "HEAD@{1}",
    ]
    assert words("x *.json s*/*.py s*/ src/ma* [ab] [!a-z]* n*", project) == [
        "x",
        "f.json",
        "package.json",
        "src/main.py",
        "src/",
        "src/main.py",
        "a",
        "b",
        "[!a-z]*",
        "n*",
    ]
    assert words("x .e* '*'a \"?\" [ ] a[ \\*", project) == ["x", ".env", "*a", "?", "[", "]", "a[", "*"]
    assert words("x .*", project) == ["x", "..", ".env"]
    assert words("x nosuch/* */nosuch */main.py", project) == ["x", "nosuch/*", "*/nosuch", "src/main.py"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("x ~root", "a tilde with a name"),
        ("x ~+", "a tilde with a name"),
        ("x ~''", "a tilde with a name"),
        ("x a=~", "a tilde in an odd place"),
        ("x ''~", "a tilde in an odd place"),
        ("x {a,{b,c}}", "braces that are nested, open or partly quoted"),
        ("x {a", "braces that are nested, open or partly quoted"),
        ("x {a,'b'}", "braces that are nested, open or partly quoted"),
        ("x {01..03}", "a brace sequence"),
        ("x {a,b}$HOME", "braces together with variables or a tilde"),
        ("x {~,b}", "braces together with variables or a tilde"),
        ("x {,a}", "braces that make an empty word"),
        ("x " + "{a,b}" * 9, "braces that make too many words"),
        ("x {" + "a," * 301 + "}", "braces that make too many words"),
        ("x $UNKNOWN", "the value of $UNKNOWN is not known"),
        ("x [a'b'c]", "a pattern that is partly quoted"),
        ("x /*", "a pattern outside the workspace"),
        ("x /etc/*", "a pattern outside the workspace"),
        ("x ~/.ssh/*", "a pattern outside the workspace"),
        ("x ../*", "a pattern outside the workspace"),
        (f"x {'a' * 256}/*", "a name in the path is longer than 255 bytes: " + "a" * 40 + "…"),
        ("x [[:alpha:]]", "a pattern with an odd [class]"),
        ("x " + "*a" * 200, "a pattern that is too long"),
    ],
)
def test_what_cannot_be_expanded_for_certain_is_named(
    project: ShellProject, command: str, reason: str
) -> None:
    with pytest.raises(UnclearError) as raised:
        words(command, project)

    assert raised.value.reason == reason


def test_a_range_the_wrong_way_round_is_refused(project: ShellProject) -> None:
    with pytest.raises(RefusedError, match="an odd pattern"):
        words("x [z-a]", project)
    assert project.reason("cat [z-a]") == "an odd pattern: [z-a]"


def test_a_home_folder_with_a_blank_is_not_split(tmp_path: Path) -> None:
    project = shell_project(tmp_path / "my files")

    assert project.reason("ls $HOME") == "$HOME would be split"
    assert project.reason('echo "$HOME"') == ""


def test_patterns_over_many_files_are_asked(project: ShellProject) -> None:
    for number in range(MAX_MATCHES + 1):
        (project.root / "build" / f"x{number}").write_text("")
    assert project.reason("cat build/x*") == "a pattern that matches too many files"
    for number in range(MAX_ENTRIES):
        (project.root / "build" / f"y{number}").write_text("")
    assert project.reason("cat build/q*") == "a pattern over too many files"


def test_a_link_that_goes_round_in_circles_hides_no_other_name_from_a_pattern(project: ShellProject) -> None:
    for number in range(30):  # a folder is listed in any order
        (project.root / "src" / f"loop{number}").symlink_to(f"loop{number}")
    (project.root / "src" / "id_rsa").write_text("")
    assert project.reason("cat src/*") == "it reads src/id_rsa: its name says that it holds secrets"
    assert project.reason("cat */id*") == "it reads src/id_rsa: its name says that it holds secrets"


def test_a_name_that_looks_like_an_option_is_asked(project: ShellProject) -> None:
    assert project.analyse("sort *.txt").read_only
    (project.root / "-o.txt").write_text("")
    assert project.reason("sort *.txt") == "a pattern matches a name that looks like an option"
    assert project.analyse("sort ./*.txt").read_only


def test_lexer_and_grammar_agree_with_bash_on_a_seeded_sample() -> None:
    tried, compared, problems = shell_fuzz.run(seconds=20, seed=5, at_most=250)

    assert problems == []
    assert compared == 250
    assert tried > compared


@requires("bwrap")
def test_no_approved_command_of_a_seeded_sample_changes_a_file(tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "tree"
    folder.mkdir()
    project = shell_corpus.corpus_project(folder)
    commands = shell_corpus.approved(project, 1000, seed=7)[:300]

    assert len(commands) > 100
    assert shell_corpus.culprits(folder, commands) == []
    assert shell_corpus.culprits(folder, ["ls", "touch NEW"]) == ["touch NEW"]
