"""Installed and executed parts of archives and packages: options that take the next word, and names that
are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.shell_project import ShellProject, lines_of, shell_project

READS = r"""
dpkg-query -W -f='${Package}' bash
dpkg-query --show 'lib*'
rpm -qf f
rpm -qfi f.json package.json
rpm -qa
openssl x509 -inform pem -in f -noout
openssl x509 -in f -checkend 10
openssl dgst -sha256 f
openssl version -a
pip show requests
tar -tff
tar -tf f.tar -v
tar tfv f
"""

ASKS = r"""
dpkg-query -W --load-avail bash
dpkg-query --show /x
rpm -qf /etc/shadow
openssl dgst -inform pem
openssl dgst -a f
openssl x509 f
openssl x509 -in f g
openssl x509 -in
openssl x509 -noout
pip show ./x
pip show requests ../x
systemctl --failed
systemctl status ssh
docker ps
netstat -n
tar -tf
tar tf
tar tff f f
yq -o ../x . f
yq -o . f
"""


@pytest.fixture
def project(tmp_path: Path) -> ShellProject:
    return shell_project(tmp_path)


def test_questions_about_packages_and_archives_run_at_once(project: ShellProject) -> None:
    assert project.allowed(READS) == lines_of(READS)


def test_what_else_these_programs_do_is_asked_about(project: ShellProject) -> None:
    assert project.allowed(ASKS) == []


def test_the_reasons_tell_what_was_not_known(project: ShellProject) -> None:
    assert project.reason("tar tf") == "tar -f needs a name"
    assert project.reason("openssl x509 f") == "openssl x509 f is not known to only read"
    (project.root / "server.key").write_text("key")
    assert project.reason("rpm -qf server.key") == ""  # named, not read
