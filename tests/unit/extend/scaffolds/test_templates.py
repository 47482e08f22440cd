"""Templates: every one that ships renders into a project that is whole; bad ones name what is wrong."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from buddy.extend.scaffolds.templates import (
    RECORD,
    NewProject,
    Scaffolds,
    TemplateError,
    parse_request,
    read_record,
    template_folders,
)

SHIPPED = Scaffolds(lambda: template_folders("/nowhere", "/nowhere", trusted=False))
NAMES = tuple(SHIPPED.templates())
LAYOUTS = [
    (name, components)
    for name in NAMES
    for components in (None, (), tuple(SHIPPED.fitting(SHIPPED.template(name))))
]


def written(project: NewProject, folder: Path) -> Path:
    for file in project.files:
        (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
        (folder / file.path).write_bytes(file.data)
    return folder


@pytest.mark.parametrize(("name", "components"), LAYOUTS)
def test_every_template_renders_files_their_programs_can_read(
    tmp_path: Path, name: str, components: tuple[str, ...] | None
) -> None:
    folder = written(SHIPPED.new_project(name, "my_thing", {}, components), tmp_path / "my_thing")
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 3
    for path in files:
        text = path.read_text()
        assert "{%" not in text
        assert "{{" not in text.replace("${{ matrix.python }}", "")
        assert path.suffix != ".jinja"
        match path.suffix:
            case ".py":
                ast.parse(text)
                assert text.endswith("\n") or not text
            case ".toml":
                tomllib.loads(text)
            case ".json":
                json.loads(text)
            case ".yml" | ".yaml":
                yaml.safe_load(text)
            case _:
                pass
    record = read_record(str(folder))
    assert record.template == name
    assert record.components == (SHIPPED.template(name).chosen if components is None else components)


@pytest.mark.parametrize("name", NAMES)
def test_the_components_offered_are_those_that_fit(name: str) -> None:
    template = SHIPPED.template(name)
    assert set(template.components) == set(SHIPPED.fitting(template))
    assert set(template.chosen) <= set(template.components)


def test_the_tests_of_a_new_package_pass(tmp_path: Path) -> None:
    folder = written(SHIPPED.new_project("python-package", "my_thing", {}, None), tmp_path)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


def test_commands_are_those_of_the_components_that_were_taken() -> None:
    with_tests = SHIPPED.new_project("python-package", "x", {"name": "my-x"}, ["tests", "pre-commit"])
    assert with_tests.commands[-2:] == (".venv/bin/python -m pytest", ".venv/bin/pre-commit install")
    without = SHIPPED.new_project("static-page", "my-page", {}, [])
    assert without.commands == ()


def test_a_component_that_is_added_later_has_the_same_files_as_from_the_start(tmp_path: Path) -> None:
    folder = written(SHIPPED.new_project("fastapi-service", "shop", {}, ["tests"]), tmp_path)
    added = SHIPPED.new_component("database", read_record(str(folder)))
    written(added, folder)
    assert added.packages == ("sqlalchemy>=2",)
    assert read_record(str(folder)).components == ("tests", "database")
    whole = {
        file.path for file in SHIPPED.new_project("fastapi-service", "shop", {}, ["tests", "database"]).files
    }
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == whole
    with pytest.raises(TemplateError, match="has the component database already"):
        SHIPPED.new_component("database", read_record(str(folder)))


@pytest.mark.parametrize(
    ("template", "directory", "values", "components", "problem"),
    [
        ("python-packages", "x", {}, None, "no template 'python-packages'; did you mean python-package"),
        ("python-package", "x", {"nam": "y"}, None, "no variable of python-package 'nam'; did you mean name"),
        (
            "python-package",
            "x",
            {"name": "My Thing"},
            None,
            "expected lower case letters, digits and hyphens",
        ),
        ("python-package", "my.thing", {}, None, "name of the distribution.*found 'my.thing'"),
        ("python-package", "class", {}, None, "no word of Python's; found 'class'"),
        ("python-package", "a\x1bb", {"name": "x"}, None, "name of a folder"),
        ("python-package", "xy", {"description": 'a "b"'}, None, "without quotes"),
        ("python-package", "xy", {"description": "a\nb"}, None, "printable"),
        ("python-package", "xy", {"package": "../../evil"}, None, "name to import"),
        ("python-package", "xy", {}, ["tests", "kubernetes"], "no component of python-package 'kubernetes'"),
        ("static-page", "page", {}, ["database"], "no component of static-page 'database'"),
    ],
)
def test_wrong_requests_say_what_was_expected(
    template: str, directory: str, values: dict[str, str], components: list[str] | None, problem: str
) -> None:
    with pytest.raises(TemplateError, match=problem):
        SHIPPED.new_project(template, directory, values, components)


@pytest.mark.parametrize(
    ("toml", "files", "problem"),
    [
        ("title = ", {}, "not valid TOML"),
        ('title = "x"', {}, "missing required field"),
        (None, {}, "no template 'mine'"),
        ("", {"a.jinja": "{{ missing }}"}, "'missing' is undefined"),
        ("", {"a.jinja": "line\n{% if %}"}, "a.jinja, line 2"),
        ("", {"{{ missing }}.txt": ""}, "'missing' is undefined"),
        ("", {"{{ '../' }}x": ""}, "no path within the project"),
        ("", {"a{{ '\\x1b' }}": ""}, "no path within the project"),
        ("", {".git/hooks/pre-commit": ""}, "cannot write into .git"),
        ("", {"a/{{ '.GIT' }}/config": ""}, "cannot write into .git"),
        ("", {".buddyx/ext/x.py": ""}, "cannot write into .buddyx"),
        ("", {"a.jinja": "{{ '{0}'.format() }}"}, "a.jinja: "),
        ("", {"a.jinja": "{{ '%(x)s' | format(y=1) }}"}, "a.jinja: "),
        ("", {"a": "x" * 2_000_001}, "more than 2,000,000 bytes"),
        ('variables = {x = {about = "an x", default = "c", check = "["}}', {}, "no regular expression"),
        ("", {"a.jinja": "{{ ''.__class__.__mro__[1].__subclasses__() }}"}, "unsafe|undefined"),
        ("", {"a.jinja": "{{ 1 / 0 }}"}, "division by zero"),
        ("", {"a.jinja": "{% include '/etc/passwd' %}"}, "no loader"),
        ('variables = {x = {about = "an x"}}', {}, "the variable x is missing: an x"),
        ('variables = {x = {about = "an x", default = "c", choices = ["a", "b"]}}', {}, "one of a, b; found"),
    ],
)
def test_a_broken_template_names_the_place(
    tmp_path: Path, toml: str | None, files: dict[str, str], problem: str
) -> None:
    folder = tmp_path / "projects" / "mine"
    (folder / "files").mkdir(parents=True)
    head = 'title = "x"\ndescription = "y"\nlanguage = "none"\n'
    if toml is not None:
        (folder / "template.toml").write_text(toml if toml.startswith("title") else head + toml)
    for name, text in files.items():
        path = folder / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with pytest.raises(TemplateError, match=problem):
        Scaffolds(lambda: (str(tmp_path),)).new_project("mine", "x", {}, None)


def test_links_in_a_template_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "mine"
    (folder / "files").mkdir(parents=True)
    (folder / "template.toml").write_text('title = "x"\ndescription = "y"\nlanguage = "none"\n')
    for target in ("/etc/passwd", "/etc"):
        (folder / "files" / "link").symlink_to(target)
        with pytest.raises(TemplateError, match="holds no links"):
            Scaffolds(lambda: (str(tmp_path),)).new_project("mine", "x", {}, None)
        (folder / "files" / "link").unlink()


def test_a_name_of_the_person_goes_before_the_projects_and_the_shipped_one(tmp_path: Path) -> None:
    own, root = tmp_path / "config", tmp_path / "work"
    for above, title in ((own / "templates", "mine"), (root / ".buddyx/templates", "theirs")):
        for name in ("python-package", *(("static-page",) if title == "theirs" else ()), f"only-{title}"):
            (above / "projects" / name).mkdir(parents=True)
            text = f'title = "{title}"\ndescription = ""\nlanguage = "none"\n'
            (above / "projects" / name / "template.toml").write_text(text)

    def titles(*, trusted: bool) -> dict[str, str]:
        folders = template_folders(str(own), str(root), trusted=trusted)
        return {name: one.title for name, one in Scaffolds(lambda: folders).templates().items()}

    assert titles(trusted=True)["python-package"] == "mine"
    assert titles(trusted=True)["static-page"] == "Static page"
    assert "only-theirs" in titles(trusted=True)
    assert "only-theirs" not in titles(trusted=False)


def test_a_request_in_words() -> None:
    request = parse_request(("python-cli", "tool", "description=It is 1=1.", "components=tests,ci"))
    assert (request.template, request.directory) == ("python-cli", "tool")
    assert request.values == {"description": "It is 1=1."}
    assert request.components == ("tests", "ci")
    assert parse_request(("python-cli", "tool", "components=")).components == ()
    assert parse_request(()).components is None
    with pytest.raises(TemplateError, match="expected TEMPLATE DIR"):
        parse_request(("a", "b", "c"))


def test_a_project_without_a_record_gets_no_component(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match=RECORD):
        read_record(str(tmp_path))
    (tmp_path / RECORD).write_text("template = 3")
    with pytest.raises(TemplateError, match="Expected `str`"):
        read_record(str(tmp_path))


def test_a_name_of_one_letter_is_a_name() -> None:
    assert SHIPPED.new_project("python-package", "x", {}, None).files


@pytest.mark.parametrize(
    "values",
    [
        {"package": "t\nimport os; os.system('id') #"},
        {"package": "a/b; import os \x1b[31m"},
        {"directory": "../x"},
        {"unknown": "x"},
    ],
)
def test_a_record_of_somebody_else_is_checked_like_an_answer(tmp_path: Path, values: dict[str, str]) -> None:
    folder = written(SHIPPED.new_project("fastapi-service", "shop", {}, ["tests"]), tmp_path)
    record = read_record(str(folder))
    with pytest.raises(TemplateError):
        SHIPPED.new_component("database", replace(record, variables={**record.variables, **values}))
    partial = SHIPPED.new_component("database", replace(record, variables={"directory": "shop"}))
    assert "src/shop/database.py" in {file.path for file in partial.files}


def test_a_broken_template_is_named_and_stops_no_other(tmp_path: Path) -> None:
    for name, text in (
        ("broken", "title = "),
        ("good", 'title = "t"\ndescription = ""\nlanguage = "none"\n'),
    ):
        (tmp_path / "projects" / name).mkdir(parents=True)
        (tmp_path / "projects" / name / "template.toml").write_text(text)
    (tmp_path / "projects" / "empty").mkdir()
    (tmp_path / "components" / "wip").mkdir(parents=True)
    (tmp_path / "components" / "odd").mkdir()
    (tmp_path / "components" / "odd" / "component.toml").write_text("fits = 3")
    scaffolds = Scaffolds(lambda: (str(tmp_path),))
    assert list(scaffolds.templates()) == ["good"]
    assert scaffolds.new_project("good", "x", {}, None).files
    assert [problem.split(" ")[0] for problem in scaffolds.problems()] == ["broken", "odd"]


def test_tests_added_later_name_their_packages_and_the_command_that_runs_them(tmp_path: Path) -> None:
    folder = written(SHIPPED.new_project("typescript-package", "x", {}, []), tmp_path)
    added = SHIPPED.new_component("tests", read_record(str(folder)))
    assert added.commands[-1] == "npm test"
    folder = written(SHIPPED.new_project("fastapi-service", "shop", {}, []), tmp_path / "shop")
    added = SHIPPED.new_component("tests", read_record(str(folder)))
    assert "httpx" in added.packages[0]
    assert added.commands[-1] == ".venv/bin/python -m pytest"
