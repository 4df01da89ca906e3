"""The link rule: a model's text makes no browser ask another host, and every link shows where it leads.

An image that a page loads by itself carries whatever its address was made to say to whoever wrote the prompt
(SECURITY S17). So every way to write an address of another host, in Markdown, in HTML and bare, becomes words with the
host's name. Inside code fences too: a fence is closed by whoever writes the text.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from runtime.guard.port import Allow, GateName, Passage, Redact, RuleId, Span, Verdict, replaced
from runtime.guard.spans import MARK_CHARS, MARKS, Found, apart

RULE = RuleId("link")
NAME = GateName("links")
MAX_HOST_CHARS = 80

# `](` begins the address of a Markdown link or image, `]:` that of a reference; what stands before is only its words.
_MARKDOWN = re.compile(r"(?P<image>!\[)|(?P<paragraph>\n\n)|\](?P<sign>[(:])[ \t>]*\n?[ \t>]*")
_BRACKETED = re.compile(rf"<[^<>\n{MARK_CHARS}]{{0,2000}}>?")
_BARE = re.compile(rf"[^\s<>{MARK_CHARS}]{{0,2000}}")
_TITLE_AND_END = re.compile(r"\s{0,9}(?:\"[^\"\n]{0,300}\"|'[^'\n]{0,300}'|\([^()\n]{0,300}\))?\s{0,9}\)")
_TAG = re.compile(rf"<[/!?]?([A-Za-z][A-Za-z0-9:-]{{0,40}})([^<>{MARK_CHARS}]{{0,4000}})>?")
_LOADING_TAGS = frozenset(
    "applet audio base body embed form frame frameset iframe image img input link math meta object picture script "
    "source style svg track video".split()
)
_ACTIVE = re.compile(
    r"(?:^|[\s/\"'])(?:src|srcset|href|xlink:href|action|formaction|background|data|poster|ping|cite|style|code|"
    r"codebase|classid|longdesc|manifest|profile|usemap|srcdoc|on[a-z]{1,30})\s{0,9}=",
    re.IGNORECASE,
)
# Anything a renderer may make a link of by itself, and CSS. Slashes of either direction: browsers take both.
_ADDRESS = re.compile(
    rf"(?:[A-Za-z][A-Za-z0-9+.-]{{1,20}}:[/\\]{{1,4}}|(?<![\w:/\\])[/\\]{{2}}(?=\[|[\w-]{{1,63}}\.\w)|(?<![\w.])www\."
    rf"|(?<!\w)(?:javascript|vbscript|blob):|(?<!\w)data:(?=[a-z]{{1,20}}/|[,;]))"
    rf"(?:\[[0-9A-Fa-f:.]{{2,50}}\])?[^\s<>()\[\]\"'{MARK_CHARS}]{{0,2000}}"
    rf"|url\([^){MARK_CHARS}]{{0,2000}}\)?|@import[^;{MARK_CHARS}]{{0,2000}};?",
    re.IGNORECASE,
)
_NAMED_HOST = re.compile(r"(?:[a-z][a-z0-9+.-]*:[/\\]{1,4}|[/\\]{2,4}|www\.)[^\s/\\?#()<>\"']+", re.IGNORECASE)
_SCHEME = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?/+", re.IGNORECASE)
_STRIPPED = re.compile(r"[\x00-\x20\x7f\u200b-\u200f\u2060\ufeff]")
_BACKSLASHED = re.compile(r"\\([!-/:-@\[-`{-~])")
# A path on our own host: "#part", "/x", "./x", "x/y.html"; no scheme, no second slash, no backslash.
_REST = r"[^:\\\[\]()<>]*"
_OWN = re.compile(rf"(?:\#{_REST}|(?:\.{{0,2}}/(?!/)|\.{{1,2}}$|[\w-]+(?=[/.?#]|$)){_REST}|\?{_REST})")


Left = Callable[[str, bool], bool]  # an address, and whether it would load by itself


@dataclass(frozen=True, slots=True)
class Links:
    """Neutralises links. Those to `allowed_hosts` stay where they are clicked; what loads by itself stays nowhere."""

    allowed_hosts: frozenset[str] = frozenset()

    def spans(self, text: str) -> tuple[Span, ...]:
        """What to replace in `text`; takes time linear in it."""
        found = apart([*_markdown(text, self._left), *_tags(text), *_addresses(text, self._allowed)])
        return tuple(Span(one.start, one.end, one.label, _shown(one, text)) for one in found)

    def neutral(self, text: str) -> str:
        """`text` with every address of another host written as words. Doing it again changes nothing."""
        return replaced(text, self.spans(text))

    def _left(self, address: str, loads: bool) -> bool:
        """Whether an address of Markdown may stay as it is."""
        return _OWN.fullmatch(canonical(address)) is not None or (not loads and self._allowed(address))

    def _allowed(self, address: str) -> bool:
        """Whether an address is written plainly and leads to a host that was allowed."""
        plain = address.startswith("https://") and canonical(address) == address
        return plain and host(address) in self.allowed_hosts


@dataclass(frozen=True, slots=True)
class LinksGate:
    """Neutralises the links of a passage."""

    links: Links
    name: GateName = NAME
    fail_closed: bool = True

    async def judge(self, passage: Passage) -> Verdict:
        """Redact the links that lead elsewhere, else allow."""
        found = self.links.spans(passage.text)
        return Redact(found, RULE) if found else Allow()


def canonical(address: str) -> str:
    """An address as a browser reads it: entities and backslash escapes resolved, blanks and controls taken out."""
    written = address.strip().removeprefix("<").removesuffix(">")
    resolved = _BACKSLASHED.sub(r"\1", html.unescape(html.unescape(written)))
    return _STRIPPED.sub("", unicodedata.normalize("NFKC", resolved))


def host(address: str) -> str:
    """The host of an address as words, "" when it names none. Punycode stays: it shows that letters are not Latin."""
    plain = _SCHEME.sub("//", canonical(address).replace("\\", "/"))
    if plain.lower().startswith("www."):
        plain = f"//{plain}"
    try:
        name = urlsplit(plain).hostname or ""
        shown = name.encode("idna").decode() if not name.isascii() else name
    except ValueError:  # brackets or letters that no host may have; UnicodeError is one of these
        return ""
    return re.sub(r"[^a-z0-9.:-]", "", shown.lower())[:MAX_HOST_CHARS]


def _markdown(text: str, left: Left) -> Iterator[Found]:
    """Addresses after `](` and `]:`, with the sign that makes them addresses. Goes over no character twice."""
    at, image = 0, False
    while opened := _MARKDOWN.search(text, at):
        at = opened.end()
        if opened["sign"] is None:
            # An image's words may have begun, in this paragraph. Rather believed too often than too seldom.
            image = opened["image"] is not None
            continue
        end = _address_end(text, at)
        is_link = opened["sign"] == "("
        if end > at and not left(text[at:end], image or not is_link):
            tail = _TITLE_AND_END.match(text, end) if is_link else None
            yield Found(opened.start("sign"), tail.end() if tail else end, "image" if image and is_link else "link")
        at = max(at, end)


def _address_end(text: str, start: int) -> int:
    """Where a Markdown address that begins at `start` ends: at a blank, or at a bracket that it did not open."""
    bracketed = _BRACKETED.match(text, start)
    if bracketed:
        return bracketed.end()
    bare = _BARE.match(text, start)
    depth = 0
    for at, char in enumerate(bare[0] if bare else ""):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth < 0:
            return start + at
    return bare.end() if bare else start


def _tags(text: str) -> Iterator[Found]:
    """HTML tags that load something, hold an address or a script, or whose end cannot be told."""
    for tag in _TAG.finditer(text):
        inside = tag[2]
        torn = inside.count('"') % 2 or inside.count("'") % 2
        if tag[1].lower() in _LOADING_TAGS or _ACTIVE.search(inside) or torn:
            yield Found(tag.start(), tag.end(), f"html {tag[1].lower()}")


def _addresses(text: str, allowed: Callable[[str], bool]) -> Iterator[Found]:
    """Addresses that stand alone."""
    for match in _ADDRESS.finditer(text):
        address = match[0].rstrip(".,;:!?)]}*_`") or match[0]
        if not allowed(address):
            yield Found(match.start(), match.start() + len(address), "link")


def _shown(found: Found, text: str) -> str:
    """The words in the place of an address: what it was and the host it leads to."""
    written = text[found.start : found.end]
    named = _NAMED_HOST.search(html.unescape(written)) or _NAMED_HOST.search(canonical(written.lstrip("(: \t\n>")))
    name = re.sub(r"^(?:www\.)+", "", host(named[0])) if named else ""  # with it, a page would make a link of the name
    opening, closing = MARKS[0][0], MARKS[0][1]
    return f"{opening}{found.label}: {name}{closing}" if name else f"{opening}{found.label}{closing}"
