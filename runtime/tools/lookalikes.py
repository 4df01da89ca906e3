"""Tags that are no calls of ours and look as if the model had meant one."""

from __future__ import annotations

from runtime.tools.document import Document
from runtime.tools.markup import Tag
from runtime.tools.reserved import QUOTING_TAGS, THOUGHT_TAGS, WRAPPER_TAGS

#: elements of HTML and SVG that hold others: what is in a page is no call
_HTML = frozenset(
    "a abbr article aside audio b body button canvas caption cite code col colgroup dd del details dialog div dl dt "
    "em fieldset figcaption figure footer form g h1 h2 h3 h4 h5 h6 head header hgroup html i iframe ins kbd label "
    "legend li link main mark menu meta nav ol optgroup option output p picture pre q s samp script section select "
    "small span strong style sub summary sup svg table tbody td template textarea tfoot th thead time title tr u ul "
    "var video".split()
)
_NOT_A_NAME = _HTML | QUOTING_TAGS | THOUGHT_TAGS | WRAPPER_TAGS


def looks_like_call(tag: Tag, doc: Document, params: frozenset[str]) -> bool:
    """Whether an unknown tag is closed and begins with a parameter that some tool has, or with `<action>`."""
    if not tag.opens or tag.attributes or tag.name.lower() in _NOT_A_NAME or doc.partner(tag) is None:
        return False
    behind = doc.near(tag)
    if behind is None or not behind.opens or behind.attributes or doc.partner(behind) is None:
        return False
    return behind.name == "action" or behind.name in params


def looks_like_parameter(tag: Tag, doc: Document) -> bool:
    """Whether an unknown tag right behind a tool's is meant for a parameter: a whole element that is no markup."""
    return tag.opens and tag.plain and tag.name.lower() not in _NOT_A_NAME and doc.partner(tag) is not None


def is_foreign_format(tag: Tag, doc: Document) -> bool:
    """Whether a tag begins a call in another way that models know: JSON in a tag, or `<invoke name=...>`."""
    if not tag.opens:
        return False
    if tag.name.lower() in WRAPPER_TAGS:
        return doc.text.startswith("{", doc.after_space(tag.end))
    return tag.name.lower() == "invoke" and tag.attributes.startswith("name")
