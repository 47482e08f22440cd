"""The files a search leaves out because they contain secrets: judged at a glance, exactly as each would be
alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.safety.paths import Boundary
from buddy.safety.protected import ProtectedPlaces, secret_reason
from buddy.tools.grep import secrets_among

COMPONENTS = st.sampled_from(
    (
        *("a", "src", "services", "secrets", "secrets.yaml", ".env", ".ENV.local", ".env.example", "id_rsa"),
        *("id_rsa.pub", "x.pem", "X.PEM ", ".ssh", ".aws", "credentials.json", "Credentials.json.", "k.key"),
        *(
            ".config",
            "Library",
            "Keychains",
            ".npmrc",
            "service-account.json",
            "ｓecrets.json",
            ".netrc\u200b",
        ),
        *("gh", "hosts.yml", "environ", "self", ".docker", "config.json", "terraform.tfstate", "shadow"),
    )
)
NAMES = st.lists(st.lists(COMPONENTS, min_size=1, max_size=4).map("/".join), max_size=12)
PLACES = (
    ("/code/app", "/home/ann", "/code/app"),
    ("/code/app", "/home/ann", "/code/app/deep/.ssh"),
    ("/home/ann/app", "/home/ann", "/home/ann/app/src"),
    ("/home/ann", "/home/ann", "/home/ann"),
    ("/home/ann/.config/x", "/home/ann", "/home/ann/.config/x"),
    ("/home/ann/lib", "/home/ann", "/home/ann/lib"),
    ("/home", "/home/ann", "/home"),
    ("/code/app", "/home/ann", "/etc"),
    ("/code/app", "/home/ann", "/home/ann"),
    ("/code/app", "/home/ann", "/proc"),
)


@pytest.mark.parametrize(("root", "home", "top"), PLACES)
@settings(max_examples=80, deadline=None)
@given(names=NAMES)
def test_many_names_are_judged_as_each_is_alone(root: str, home: str, top: str, names: list[str]) -> None:
    places = ProtectedPlaces(home, (), (root,))

    found = secrets_among(Boundary(root, root, home), top, names)

    assert found == [name for name in names if secret_reason(f"{top}/{name}", places)]
