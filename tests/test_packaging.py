"""The package as people get it: a wheel, an sdist, a checkout. Its templates are found in each."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = sorted(
    str(path.relative_to(ROOT / "templates")) for path in (ROOT / "templates").rglob("*") if path.is_file()
)
ASK = "from buddy.extend.system_prompt import template_path; import sys; print(template_path(sys.argv[1]))"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel made from it. Built from a copy, offline."""
    folder = tmp_path_factory.mktemp("built")
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    source = folder / "source"
    for name in filter(None, files):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(source))
    return folder / "dist"


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, installed into a folder without network."""
    target = tmp_path_factory.mktemp("installed")
    (wheel,) = built.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile")
    _run(*pip, "--target", str(target), str(wheel))
    return target


def test_a_wheel_holds_the_package_and_its_templates(built: Path) -> None:
    (wheel,) = built.glob("buddy_repl-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in TEMPLATES if f"buddy/_templates/{name}" not in names] == []
    assert "buddy/_templates/buddy.toml.example" in names
    assert "buddy/__main__.py" in names
    strangers = [name for name in names if not name.startswith(("buddy/", "buddy_repl-"))]
    assert strangers == [], "nothing lands in site-packages but buddy"
    assert any(name.endswith(".data/data/share/man/man1/buddy.1") for name in names)
    assert wheel.stat().st_size < 2_000_000


def test_an_sdist_holds_what_a_wheel_is_made_of(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert [name for name in TEMPLATES if f"templates/{name}" not in names] == []
    assert {"buddy/__main__.py", "buddy.toml.example", "README.md", "LICENSE", "pyproject.toml"} <= names


@pytest.mark.parametrize("name", [*(name for name in TEMPLATES if "/" not in name), "help/start.md"])
def test_templates_are_found_in_a_wheel(installed: Path, name: str) -> None:
    found = Path(_run(sys.executable, "-c", ASK, name, path=str(installed)).strip())
    assert found == installed / "buddy" / "_templates" / name
    assert found.read_bytes() == (ROOT / "templates" / name).read_bytes()


def test_templates_are_found_in_an_unpacked_sdist(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    found = _run(sys.executable, "-c", ASK, "models.toml", path=str(folder)).strip()
    assert Path(found) == folder / "templates" / "models.toml"


def test_templates_are_found_in_a_checkout() -> None:
    """An editable install imports from the checkout as well."""
    found = _run(sys.executable, "-c", ASK, "models.toml", path=str(ROOT)).strip()
    assert Path(found) == ROOT / "templates" / "models.toml"


def test_a_missing_template_names_where_it_was_looked_for(installed: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ASK, "nothing.md"], cwd="/", capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(installed)},
    )  # fmt: skip
    assert ran.returncode == 1
    assert "TemplateMissingError: nothing.md is missing from this installation" in ran.stderr


def test_the_installed_program_runs(installed: Path) -> None:
    version = _run(sys.executable, "-m", "buddy", "--version", path=str(installed)).strip()
    (metadata,) = installed.glob("buddy_repl-*.dist-info/METADATA")
    assert version == f"buddy {_field(metadata, 'Version')}"
    assert "gpt-4o" in _run(sys.executable, "-m", "buddy", "models", "gpt-4o", path=str(installed))
    assert (installed / "bin" / "buddy").exists()
    assert "# Sandbox: " in _run(sys.executable, "-m", "buddy", "help", "sandbox", path=str(installed))


def test_the_entry_point_is_buddy(installed: Path) -> None:
    (entry,) = installed.glob("buddy_repl-*.dist-info/entry_points.txt")
    assert entry.read_text().split() == ["[console_scripts]", "buddy", "=", "buddy.__main__:main"]


def test_the_pins_that_matter_are_exact() -> None:
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert "litellm==1.106.2" in needs
    assert "mcp>=2.3,<3" in needs


def test_RU_5_5_a_python_without_wheels_is_refused_by_the_installer() -> None:
    versions = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert versions == ">=3.11,<3.15"


def test_RU_5_23_the_package_page_is_short(installed: Path) -> None:
    (metadata,) = installed.glob("buddy_repl-*.dist-info/METADATA")
    assert len(metadata.read_bytes()) < 16_000
    assert not (installed / "buddy" / "README.md").exists()


def _field(metadata: Path, name: str) -> str:
    return next(
        line.partition(": ")[2] for line in metadata.read_text().splitlines() if line.startswith(f"{name}: ")
    )


def _run(*command: str, path: str = "") -> str:
    """Run a program outside the checkout; its stdout."""
    environment = {**os.environ, **({"PYTHONPATH": path} if path else {})}
    ran = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
