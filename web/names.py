"""Two-word names for sessions: easier to say and to find again than an id.

A name is derived from the id and stored nowhere, so every page, process and release says the same one. Names may
repeat; the six characters of `short_id` beside them tell two namesakes apart. The browser derives the same names with
the same hash (`web/static/js/dom.js`), therefore the order of the words must not change.
"""

from __future__ import annotations

from typing import Final

ADJECTIVES: Final[tuple[str, ...]] = tuple(
    """
    able airy amber ample apt ashen azure balmy bold brave brief bright brisk broad bronze calm candid civil clear
    clever cobalt cool copper coral cosy crisp curious dapper daring deep dewy direct dusky eager early easy even exact
    fair fern fine firm fleet fond frank free fresh frosty gentle giddy glad golden good grand green hale handy happy
    hardy hazel honest humble ivory jade jolly keen kind lasting leafy level light lilac lively long loyal lucid lunar
    mellow merry mild mint misty modest mossy neat nimble noble olive open opal patient pearl placid plain plum polite
    prime proud quick quiet ready rosy ruby rustic sage sandy sincere sleek snowy solar sound spare steady still sunny
    tidy
    """.split()
)

NOUNS: Final[tuple[str, ...]] = tuple(
    """
    acorn alder anchor apple arbor aspen badger bamboo basin bay beacon beaver birch bison bluff breeze bridge brook
    canyon cedar cliff clover comet cove crane creek cypress dale dawn delta dove dune eagle egret elm ember falcon
    fern field finch fjord forest fox garden glade glen grove gull harbor hare hawk hazel heath heron hill hollow ibis
    inlet iris island ivy jay juniper kestrel kite lagoon lake lantern lark laurel lily linden lotus lynx magpie maple
    marsh meadow mesa mill moor moss newt oak oasis ocean orchard orchid osprey otter owl palm peak pebble pine plover
    pond poplar prairie quail quarry rapids raven reed reef ridge river robin rowan sable salmon shore sparrow spring
    stream swan thistle tide trout
    """.split()
)

SHORT_ID_CHARS: Final = 6

_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
_MASK: Final = 0xFFFFFFFF


def session_name(session_id: str) -> str:
    """The name of a session, "amber heron": the same id always has the same one."""
    number = _mixed(session_id.encode())
    adjective = ADJECTIVES[number % len(ADJECTIVES)]
    noun = NOUNS[(number // len(ADJECTIVES)) % len(NOUNS)]
    return f"{adjective} {noun}"


def short_id(any_id: str) -> str:
    """The last six letters and digits of an id, in lower case: the random end of a ULID."""
    letters = "".join(letter for letter in any_id if letter.isalnum())
    return letters[-SHORT_ID_CHARS:].lower() or any_id[-SHORT_ID_CHARS:]


def _mixed(data: bytes) -> int:
    """FNV-1a in 32 bits with a final mix: ids that differ only in their last letter get far-apart numbers."""
    number = _FNV_OFFSET
    for byte in data:
        number = ((number ^ byte) * _FNV_PRIME) & _MASK
    number ^= number >> 15
    number = (number * 0x2C1B3C6D) & _MASK
    return number ^ (number >> 13)
