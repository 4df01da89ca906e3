"""Values of every kind, for the laws of the store: text that hurts, JSON, and what is no JSON at all."""

from __future__ import annotations

from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=()))  # surrogates and control characters too
CLEAN_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBERS | CLEAN_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(CLEAN_TEXT, inner, max_size=4),
    max_leaves=12,
)
ODD = st.recursive(
    st.none() | st.floats() | st.integers() | TEXT | st.binary() | st.datetimes() | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(TEXT | st.integers() | st.none() | st.tuples(TEXT), inner, max_size=3)
    ),
    max_leaves=8,
)

NASTY = (
    "",
    "'",
    "''",
    '"',
    "' or 1=1 --",
    "x' OR 'x'='x",
    "\\",
    "\\'",
    "%",
    "_",
    "*",
    "‘",
    "’",
    "“",
    "\n",
    "\r\n",
    "\t",
    "\0",
    "a\0b",
    "null",
    "NULL",
    "true",
    "1",
    "$1",
    "?",
    ";",
    "/*",
    "--",
    "`",
    "{}",
    "🦜",
    "e\u0301",
    "é",
    "\ud800",
    "\ufffd",
    "\u202e",
    "A",
    "a",
)
NASTY_TEXT = st.sampled_from(NASTY) | TEXT
