"""The reader of URLs: any text is read or refused, and what is read says the same when it is read again."""

from __future__ import annotations

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tools.fetch.errors import FetchRefusedError
from runtime.tools.fetch.urls import WebAddress, read_redirect, read_url
from tests.support import examples

PIECES = [
    "http://",
    "https://",
    "a.test",
    "1.1.1.1",
    "[::1]",
    "@",
    ":",
    "80",
    "/",
    "?",
    "#",
    "%",
    "%2f",
    "\\",
    " ",
    "\n",
    "ü",
    "..",
    "/../",
    "/./",
    "//",
    "0x7f",
    "&",
    "x",
]


@examples(600)
@given(text=st.lists(st.sampled_from(PIECES), max_size=7).map("".join))
def test_what_is_read_stays_as_it_is(text: str) -> None:
    try:
        read = read_url(text)
    except FetchRefusedError:
        return
    assert read_url(str(read)) == read
    assert str(read).isascii()
    assert read.target.startswith("/")
    assert not set(read.host) & set("/@?#%\\ \n")
    # The client sends the path as it was read; it has nothing left to work out.
    assert httpx2.URL("http://1.1.1.1:80").copy_with(raw_path=read.target.encode()).raw_path.decode() == read.target


@examples(300)
@given(location=st.lists(st.sampled_from([*PIECES, "//", "./", "javascript:"]), max_size=6).map("".join))
def test_a_redirect_leads_to_something_that_can_be_judged(location: str) -> None:
    try:
        read = read_redirect(WebAddress("http", "site.test", 80, "/a/b"), location)
    except FetchRefusedError:
        return
    assert read_url(str(read)) == read


@pytest.mark.parametrize(
    ("location", "leads_to"),
    [
        ("/x", "http://site.test/x"),
        ("x?y", "http://site.test/a/x?y"),
        ("../x", "http://site.test/x"),
        ("//other.test/x", "http://other.test/x"),
        ("https://other.test:444", "https://other.test:444/"),
        ("?q", "http://site.test/a/b?q"),
        ("", "http://site.test/a/b"),
    ],
)
def test_a_redirect(location: str, leads_to: str) -> None:
    assert str(read_redirect(WebAddress("http", "site.test", 80, "/a/b"), location)) == leads_to
