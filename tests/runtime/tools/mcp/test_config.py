"""The operator's tables: what they may say, and that only they can."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import SettingError
from runtime.tools.mcp.config import Http, Stdio, Trust, read_mcp
from runtime.tools.mcp.opening import mcp_servers

WHOLE = """
[mcp.files]
command = "mcp-files"
args = ["--root", "/srv"]
env = ["PATH"]
tools = ["read_file"]
read_only = ["read_file"]
time_out_s = 5

[mcp.search]
url = "https://search.example.org/mcp"
headers_env = { Authorization = "SEARCH_TOKEN" }
trust = "on_first_use"

[mcp.off]
command = "x"
enabled = false
"""


def test_a_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "tools.toml"
    file.write_text(WHOLE)
    files, search = mcp_servers(file)
    assert files.reached == Stdio("mcp-files", ("--root", "/srv"), ("PATH",))
    assert (files.tools, files.time_out_s, files.trust) == (frozenset({"read_file"}), 5.0, Trust.APPROVAL)
    assert isinstance(search.reached, Http)
    assert search.reached.headers_env == (("Authorization", "SEARCH_TOKEN"),)
    assert (search.reached.internal, search.trust, search.tools) == (False, Trust.ON_FIRST_USE, None)
    assert mcp_servers(None) == ()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, "give either command"),
        ({"command": "a", "url": "https://a.example"}, "give either command"),
        ({"command": ""}, "command"),
        ({"command": "a", "headers_env": {"A": "B"}}, "belong to a url"),
        ({"url": "https://a.example", "args": ["x"]}, "belong to a command"),
        ({"command": "a", "args": ["x\0y"]}, "NUL"),
        ({"command": "a", "env": ["A=secret"]}, "no name of an environment variable"),
        ({"command": "a", "env": {"A": "b"}}, "env"),
        ({"command": "a", "shell": True}, "no such setting"),
        ({"command": "a", "time_out_s": 0}, "time_out_s"),
        ({"command": "a", "trust": "always"}, "trust"),
        ({"url": "ftp://a.example/"}, "http"),
        ({"url": "file:///etc/passwd"}, "http"),
        ({"url": "https://me:secret@a.example/"}, "credentials"),
        ({"url": "http://a.example/mcp"}, "in the clear"),
        ({"url": "https://a.example", "headers_env": {"Authorization": "Bearer s3cr3t"}}, "not the value"),
        ({"url": "https://a.example", "headers_env": {"Host": "A"}}, "Host"),
        ({"url": "https://a.example", "headers_env": {"A\r\nB": "A"}}, "plain ASCII"),
        ("npx", "is no table"),
    ],
)
def test_what_cannot_be_meant_so_is_named(table: Any, words: str) -> None:
    with pytest.raises(SettingError) as caught:
        read_mcp({"fake": table})
    assert words in str(caught.value)
    assert "mcp.fake" in str(caught.value)


@pytest.mark.parametrize("name", ["", "A", "a_b", "a.b", "1a", "a" * 21, "größe"])
def test_names_of_servers(name: str) -> None:
    with pytest.raises(SettingError, match="cannot name a server"):
        read_mcp({name: {"command": "x"}})


@pytest.mark.parametrize("url", ["http://localhost:1/mcp", "http://127.0.0.1:1/", "http://[::1]:1/"])
def test_this_machine_may_be_asked_in_the_clear(url: str) -> None:
    (server,) = read_mcp({"a": {"url": url}})
    assert isinstance(server.reached, Http)
    assert server.reached.internal


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "tools.toml"
    with pytest.raises(SettingError, match=r"STEPWELL_TOOLS=.*cannot be read"):
        mcp_servers(file)
    file.write_text("mcp = 3")
    with pytest.raises(SettingError, match="is no table"):
        mcp_servers(file)
    file.write_text("[mcp")
    with pytest.raises(SettingError, match="cannot be read"):
        mcp_servers(file)


def test_the_tables_in_the_docs_can_be_read() -> None:
    page = (Path(__file__).parents[4] / "docs" / "mcp.md").read_text()
    block = page.split("```toml\n", 1)[1].split("```", 1)[0]
    assert [server.name for server in read_mcp(tomllib.loads(block)["mcp"])] == ["files", "search"]
