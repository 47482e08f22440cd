"""Credentials are known where variables put them."""

from __future__ import annotations

import pytest

from buddy.safety.protected import moved_secrets

NAMED = {
    "aws": ({"AWS_SHARED_CREDENTIALS_FILE": "/x/aws"}, "/x/aws"),
    "kubectl, the second of two": ({"KUBECONFIG": "/x/a:/x/b"}, "/x/b"),
    "docker": ({"DOCKER_CONFIG": "/x/docker"}, "/x/docker/config.json"),
    "cargo": ({"CARGO_HOME": "/x/cargo"}, "/x/cargo/credentials.toml"),
    "gnupg": ({"GNUPGHOME": "/x/gpg"}, "/x/gpg"),
    "netrc": ({"NETRC": "/x/n"}, "/x/n"),
    "npm, in lower case": ({"npm_config_userconfig": "/x/npmrc"}, "/x/npmrc"),
    "kerberos": ({"KRB5CCNAME": "FILE:/tmp/krb5cc_0"}, "/tmp/krb5cc_0"),
    "configuration": ({"XDG_CONFIG_HOME": "/x/config"}, "/x/config/gh"),
    "git": ({"XDG_CONFIG_HOME": "/x/config"}, "/x/config/git/credentials"),
    "data": ({"XDG_DATA_HOME": "/x/data"}, "/x/data/keyrings"),
    "cache": ({"XDG_CACHE_HOME": "/x/cache"}, "/x/cache/huggingface/token"),
}


@pytest.mark.parametrize(("environment", "path"), NAMED.values(), ids=NAMED.keys())
def test_ATTACK3_credentials_that_a_variable_names_are_secret(environment: dict[str, str], path: str) -> None:
    assert path in moved_secrets(environment)


def test_ATTACK3_nothing_is_secret_because_of_an_empty_or_relative_value() -> None:
    assert moved_secrets({}) == ()
    assert moved_secrets({"KUBECONFIG": "", "DOCKER_CONFIG": "docker", "KRB5CCNAME": "KEYRING:x"}) == ()
    assert "/" not in moved_secrets({"XDG_CONFIG_HOME": "/"})
