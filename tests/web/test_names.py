"""Names of sessions: the same for ever, well spread, and in step with the browser's copy."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from web.names import ADJECTIVES, NOUNS, session_name, short_id

ULIDS = [f"01JD8Q7ZK3V6{number:014d}" for number in range(2_000)]


def test_a_name_is_two_words_of_the_lists() -> None:
    adjective, noun = session_name(ULIDS[0]).split(" ")

    assert adjective in ADJECTIVES
    assert noun in NOUNS


def test_a_name_never_changes() -> None:
    """Names are derived, not stored: a change here would rename every session people know."""
    assert session_name("01JD8Q7ZK3V6M2N4P6R8T0V2X4") == "lilac hollow"
    assert session_name("nightly-report") == "honest iris"


def test_words_are_listed_once() -> None:
    assert len(set(ADJECTIVES)) == len(ADJECTIVES)
    assert len(set(NOUNS)) == len(NOUNS)


def test_neighbouring_ids_get_names_far_apart() -> None:
    names = [session_name(ulid) for ulid in ULIDS]

    assert len(set(names)) > 1_700
    assert len({name.split(" ")[0] for name in names[:300]}) > 90


@pytest.mark.parametrize(
    ("any_id", "short"),
    [
        ("01JD8Q7ZK3V6M2N4P6R8T0V2X4", "t0v2x4"),
        ("nightly-report-7", "eport7"),
        ("a-1", "a1"),
        ("--", "--"),
        ("", ""),
    ],
)
def test_short_id_is_the_end_of_the_id(any_id: str, short: str) -> None:
    assert short_id(any_id) == short


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the browser's copy")
def test_the_browser_derives_the_same_names() -> None:
    ids = [*ULIDS[:50], "nightly-report", "séance-7", ""]
    dom = Path(__file__).parents[2] / "web" / "static" / "js" / "dom.js"
    script = f"""
        import {{ nameFrom }} from {json.dumps(dom.as_uri())};
        const [ids, words] = JSON.parse(process.argv[1]);
        console.log(JSON.stringify(ids.map((id) => nameFrom(id, words))));
    """
    argument = json.dumps([ids, [ADJECTIVES, NOUNS]])
    command = ["node", "--input-type=module", "--eval", script, argument]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)

    assert json.loads(answer.stdout) == [session_name(any_id) for any_id in ids]
