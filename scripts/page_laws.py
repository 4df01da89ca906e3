"""The laws of the pages: nothing that a stranger wrote may become markup or code, in scripts or in templates."""

from __future__ import annotations

import re
from collections.abc import Iterator

COMMENT = re.compile(r"^\s*(//|/\*|\*)")
SCRIPT_WORDS = {
    r"\b(innerHTML|outerHTML)\b": "make elements and set their textContent",
    r"\binsertAdjacentHTML\b": "make elements and append them",
    r"\bdocument\s*\.\s*write": "make elements and append them",
    r"\bcreateContextualFragment\b": "clone a <template>",
    r"\bsrcdoc\b": "make elements and append them",
    r"\beval\s*\(|\bnew\s+Function\s*\(": "text must not become code",
    r"\bset(Timeout|Interval)\s*\(\s*['\"`]": "pass a function, not text",
}
TEMPLATE_WORDS = {
    r"\|\s*safe\b|\bMarkup\s*\(|\bautoescape\s+false\b": "let Jinja escape it",
    r"<[^>]*\sstyle\s*=": "use a class; the page's policy forbids inline styles",
    r"<[^>]*\son[a-z]+\s*=": "add a listener in web/static/js; the page's policy forbids inline handlers",
    r"<style\b": "put it in web/static; the page's policy forbids inline styles",
    r"javascript:": "use a button and a listener in web/static/js",
}
SCRIPT = re.compile(r"<script\b(?P<attributes>[^>]*)>(?P<body>.*?)</script>", re.IGNORECASE | re.DOTALL)
DATA_ONLY = re.compile(r"""type\s*=\s*["']application/(ld\+)?json["']""")


def script_offences(path: str, text: str) -> Iterator[str]:
    """What a JavaScript file must not do; lines that are comments may speak of it."""
    for number, line in enumerate(text.splitlines(), 1):
        if not COMMENT.match(line):
            yield from _matches(SCRIPT_WORDS, path, number, line)


def template_offences(path: str, text: str) -> Iterator[str]:
    """What a template must not contain."""
    for number, line in enumerate(text.splitlines(), 1):
        yield from _matches(TEMPLATE_WORDS, path, number, line)
    for script in SCRIPT.finditer(text):
        if script["body"].strip() and not DATA_ONLY.search(script["attributes"]):
            number = text.count("\n", 0, script.start()) + 1
            yield f"{path}:{number}: an inline script: move it to web/static/js; the page's policy forbids it here"


def _matches(words: dict[str, str], path: str, number: int, line: str) -> Iterator[str]:
    for pattern, cure in words.items():
        found = re.search(pattern, line, re.IGNORECASE)
        if found:
            yield f"{path}:{number}: `{found[0].strip()}`: {cure}"
