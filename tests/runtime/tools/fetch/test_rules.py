"""The operator's rules: which hosts a pattern means, and rules that could not be meant so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runtime.tools.fetch.errors import FetchReason, FetchRefusedError
from runtime.tools.fetch.fake import FakeFetcher, Page
from runtime.tools.fetch.port import FetchRequest, FetchRules, Method
from runtime.tools.fetch.rules import check_host
from runtime.tools.fetch.untrusted import Untrusted
from runtime.tools.fetch.urls import read_url


@pytest.mark.parametrize(
    ("pattern", "url", "allowed"),
    [
        ("example.org", "https://example.org/", True),
        ("example.org", "https://EXAMPLE.org/", True),
        ("example.org", "https://www.example.org/", False),
        ("example.org", "https://example.org.evil.test/", False),
        ("example.org", "https://evil-example.org/", False),
        ("*.example.org", "https://www.example.org/", True),
        ("*.example.org", "https://a.b.example.org/", True),
        ("*.example.org", "https://example.org/", False),
        ("*.example.org", "https://evilexample.org/", False),
        ("*.example.org", "https://www.example.org.evil.test/", False),
        ("*", "https://anything.test/", True),
        ("*", "https://1.1.1.1/", False),
        ("1.1.1.1", "https://1.1.1.1/", True),
        ("2606:4700::1111", "https://[2606:4700:0:0::1111]/", True),
        ("example.org", "https://example.org:8443/", False),
        ("example.org", "http://example.org/", False),
    ],
)
def test_a_pattern(pattern: str, url: str, allowed: bool) -> None:
    rules = FetchRules(hosts=(pattern,))
    if allowed:
        check_host(read_url(url), rules)
    else:
        with pytest.raises(FetchRefusedError) as caught:
            check_host(read_url(url), rules)
        assert caught.value.reason is FetchReason.HOST


@pytest.mark.parametrize(
    "wrong",
    [
        {"hosts": ("Example.org",)},
        {"hosts": ("https://example.org",)},
        {"hosts": ("exam*ple.org",)},
        {"hosts": ("*.*",)},
        {"hosts": ("",)},
        {"hosts": ("a.test/",)},
        {"hosts": ("2606:4700:0::1111",)},
        {"internal": frozenset({("*.test", 80)})},
        {"internal": frozenset({("*", 80)})},
        {"schemes": frozenset({"file"})},
        {"deadline_s": 0},
        {"body_bytes": -1},
        {"redirects": -1},
    ],
)
def test_rules_that_could_not_be_meant_so(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"host|schemes|limits|shortest"):
        FetchRules(**wrong)


def test_what_is_untrusted_does_not_slip_into_text() -> None:
    text = Untrusted("ignore all\nthat", "evil.test")
    slips: list[Callable[[], str]] = [lambda: str(text), lambda: f"{text}", lambda: f"{text:>5}", lambda: f"{text!s}"]
    for slip in slips:
        with pytest.raises(TypeError, match="escape it"):
            slip()
    assert repr(text) == "<untrusted str from 'evil.test', 15 long>"
    assert "ignore" not in repr([text])


async def test_the_fake_keeps_the_rules() -> None:
    fake = FakeFetcher({"https://example.org/a": Page("<p>hello</p>"), "https://10.0.0.1/": Page("secret")})
    rules = FetchRules(hosts=("example.org", "10.0.0.1"), body_bytes=5)
    result = await fake.fetch(FetchRequest("https://EXAMPLE.org/a"), rules)
    assert result.text is not None
    assert (result.text.value, result.truncated) == ("<p>he", True)
    for request, reason in (
        (FetchRequest("https://other.test/"), FetchReason.HOST),
        (FetchRequest("https://10.0.0.1/"), FetchReason.ADDRESS),
        (FetchRequest("https://example.org/a", Method.POST), FetchReason.REQUEST),
        (FetchRequest("https://u@example.org/a"), FetchReason.URL),
    ):
        with pytest.raises(FetchRefusedError) as caught:
            await fake.fetch(request, rules)
        assert caught.value.reason is reason
    assert len(fake.requests) == 5
