"""A path as somebody wrote it becomes names that mean the same on every disk, or it is refused.

This is the outer wall only: what a name leads to on the disk is decided in runtime/tools/workspace/root.py, which opens
one name after the other. Here is refused what some system reads in another way than Linux does (Microsoft, "Naming
Files, Paths, and Namespaces"; Unicode Technical Report 36 for look-alikes), so that a workspace can be moved between
systems and a person reading a path is not misled.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from runtime.tools.workspace.errors import PathRefusedError, shown

#: The one name in a workspace's root that is not for callers: what a change builds before it shows.
STAGING = ".stepwell-partial"

NAME_BYTES = 255
PATH_BYTES = 4_096
ROOT = "."

_WINDOWS = frozenset('<>:"|?*')
_DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|clock\$|(com|lpt)[0-9¹²³])\s*(\..*)?", re.IGNORECASE)
_ENCODED = re.compile(r"%(2e|2f|5c|3a|00|25)", re.IGNORECASE)
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
#: Strokes that look like a separator or a colon and that no normalisation turns into one.
_LOOK_ALIKES = frozenset("∕⁄⧸╱⟋∖⧵⧹╲⟍꞉∶ː︓․‥…")


@dataclass(frozen=True, slots=True)
class Confined:
    """A path that was checked: as it was given, for messages, and its names from the root on."""

    given: str
    names: tuple[str, ...]

    @property
    def is_root(self) -> bool:
        return not self.names

    @property
    def folder(self) -> tuple[str, ...]:
        """The names of the folders on the way."""
        return self.names[:-1]

    @property
    def name(self) -> str:
        """The last name. The root has none: ask `is_root` first."""
        return self.names[-1]

    def __str__(self) -> str:
        return shown(self.given)


def confined(given: str, depth: int) -> Confined:
    """Check a path of at most `depth` names. "." and empty names ("a//b", "./a", "a/") are left out.

    Raises `PathRefusedError`.
    """
    if not given:
        raise PathRefusedError('the path is empty: write "." for the root of the workspace')
    if given.startswith("/"):
        raise PathRefusedError(f"{shown(given)} is absolute: begin at the workspace's root, without a slash")
    if len(given.encode("utf-8", "surrogatepass")) > PATH_BYTES:
        raise PathRefusedError(f"{shown(given)} is longer than {PATH_BYTES} bytes: use shorter names")
    names = tuple(name for name in given.split("/") if name not in ("", "."))
    for name in names:
        if problem := _problem(name):
            raise PathRefusedError(f"{shown(given)}: {problem}")
    if len(names) > depth:
        raise PathRefusedError(f"{shown(given)} is {len(names)} names deep: at most {depth} are allowed")
    if names and names[0].casefold() == STAGING:
        raise PathRefusedError(f"{shown(given)}: the name {STAGING} is taken by the workspace itself: use another")
    return Confined(given, names)


def _problem(name: str) -> str | None:
    """What is wrong with one name, and the cure; None when it is good."""
    return _leaves(name) or _cannot_be_seen(name) or _means_more_elsewhere(name) or _looks_like_another(name)


def _leaves(name: str) -> str | None:
    if name == "..":
        return '".." would go up: name the path from the workspace\'s root'
    if "\\" in name:
        return 'a backslash separates names on Windows: separate them with "/"'
    if name.startswith("~"):
        return '"~" means somebody\'s home elsewhere: begin the name with a letter or digit'
    return None


def _cannot_be_seen(name: str) -> str | None:
    for character in name:
        if unicodedata.category(character) in _INVISIBLE:
            return f"it contains U+{ord(character):04X}, which cannot be seen: leave it out"
    return None


def _means_more_elsewhere(name: str) -> str | None:
    if name != name.strip() or name.endswith("."):
        return f"{shown(name)} begins or ends with a space or ends with a dot, which Windows drops: leave it out"
    if found := _WINDOWS.intersection(name):
        return f"{shown(min(found))} has a meaning of its own on Windows: use another character"
    if _DEVICES.fullmatch(name):
        return f"{shown(name)} is a device on Windows: use another name"
    if _ENCODED.search(name):
        return f"{shown(name)} contains a percent-encoded mark: write the character itself"
    if len(name.encode()) > NAME_BYTES:
        return f"{shown(name)} is longer than {NAME_BYTES} bytes: shorten it"
    return None


def _looks_like_another(name: str) -> str | None:
    if unicodedata.normalize("NFC", name) != name:
        return f"{name!a} is not in Unicode's composed form (NFC): compose it"
    if found := _LOOK_ALIKES.intersection(name):
        return f"{min(found)!a} looks like a separator or dots: use another character"
    plain = unicodedata.normalize("NFKC", name)
    if plain != name and (not set(plain).isdisjoint("/\\:%~") or not plain.strip(". ") or plain.endswith(".")):
        return f"{name!a} looks like {shown(plain)}: use plain characters"
    if plain != name and _DEVICES.fullmatch(plain):
        return f"{name!a} looks like a device of Windows: use another name"
    return None
