import pytest

from buddy.extend.mcp.definitions import read_server


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("mcp.example.com", "http https://mcp.example.com/mcp"),
        ("faß.de", "http https://faß.de/mcp (xn--fa-hia.de)"),  # another site than fass.de
        ("p\u0430ypal.com", "http https://p\u0430ypal.com/mcp (xn--pypal-4ve.com)"),
        ("ä..b", "http https://ä..b/mcp (not a host name)"),
    ],
)
def test_the_host_of_an_address_is_shown_as_it_is_looked_up(host: str, shown: str) -> None:
    server = read_server("web", {"type": "http", "url": f"https://{host}/mcp"}, "user", "mcp.json")
    assert server.summary() == shown
