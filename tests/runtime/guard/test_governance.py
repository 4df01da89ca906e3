"""governance.yaml: the one that ships is whole, and no mistake in another goes unnoticed or without its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.guard.errors import GovernanceError
from runtime.guard.governance import DEFAULT, MAX_FILE_BYTES, load, parse
from runtime.guard.port import Channel, Severity
from tests.support import examples

MISTAKES = [
    ("version: 1\nversion: 1\n", 2, "stands twice, first in line 1"),
    ("version: 1\nsecrets:\n  enabled: true\n  enabled: false\n", 4, "secrets.enabled: stands twice"),
    ("version: 1\npatterns:\n  - {id: a, id: b}\n", 3, "patterns.0.id: stands twice"),
    ("version: 1\nsecrets:\n  enabld: true\n", 3, "secrets.enabld: not known here"),
    ("version: 1\nsecret: {}\n", 2, "secret: not known here"),
    ("version: 2\n", 1, "version:"),
    ("principles: []\n", 1, "version: Field required"),
    ("version: 1\nprinciples:\n  - id: Bad Id\n    name: n\n    text: t\n", 3, "principles.0.id"),
    ("version: 1\nprinciples:\n  - {id: a, name: n, text: t}\n  - {id: a, name: n, text: t}\n", 4, "'a' is taken"),
    ("version: 1\njudge:\n\n  timeout_s: 0\n", 4, "judge.timeout_s"),
    ("version: 1\njudge: {fail_closed: maybe}\n", 2, "judge.fail_closed"),
    ("version: 1\nlimits:\n  inputs: {lines: 1}\n", 3, "limits.inputs"),
    ("version: 1\nlimits:\n  input: {lines: -1}\n", 3, "limits.input.lines"),
    ("version: 1\nlinks: {allowed_hosts: ['https://a.example']}\n", 2, "links.allowed_hosts.0"),
    ("version: 1\nscoring: {threshold: 2}\n", 2, "scoring.threshold"),
    ("version: 1\npii: {engine: spacy}\n", 2, "pii.engine"),
    ("version: &a 1\nlimits: *a\n", 2, "alias *a"),
    ("version: 1\n<<: {judge: {}}\n", 2, "merges"),
    ("version: 1\njudge: [\n", 3, "no YAML"),
    ("version: 1\n\tjudge: x\n", 2, "no YAML"),
    ("version: 1\nx: !!python/object:os.system {}\n", 1, "put it in quotes"),
    ("version: 1\nx: 2024-13-45\n", 1, "put it in quotes"),
    ("version: 1\n---\nversion: 1\n", 2, "no YAML"),
    ("", 1, "version: 1"),
    ("- a\n", 1, "version: 1"),
    ("\x00", 1, "no YAML"),
    ("version: 1\nx: " + "[" * 20 + "]" * 20 + "\n", 2, "levels deep"),
]


@pytest.mark.parametrize(("text", "line", "what"), MISTAKES)
def test_a_mistake_is_told_with_its_line(text: str, line: int, what: str) -> None:
    with pytest.raises(GovernanceError) as refused:
        parse(text, "g.yaml")
    assert what in str(refused.value)
    assert refused.value.faults[0].line == line
    assert str(refused.value).startswith(f"g.yaml:{line}: ")


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(GovernanceError) as refused:
        parse("version: 1\nfirst: 1\njudge:\n  second: 2\n")
    assert [fault.line for fault in refused.value.faults] in ([2, 4], [4, 2])


def test_the_file_that_ships_is_whole() -> None:
    governance = load()
    assert {principle.id for principle in governance.principles} >= {"no-harm", "no-secrets"}
    gates = (governance.secrets, governance.pii, governance.links, governance.scoring, governance.judge)
    assert all(gate.enabled and gate.fail_closed for gate in gates)
    assert governance.links.channels == (Channel.OUTPUT,)
    assert governance.principles[0].severity is Severity.HIGH
    assert DEFAULT.exists()


def test_a_part_that_is_left_out_is_on_and_closed() -> None:
    governance = parse("version: 1\n")
    assert governance.secrets.enabled
    assert governance.secrets.fail_closed
    assert governance.judge.fail_closed


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(GovernanceError, match="cannot be read"):
        load(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"version: 1\n# \xff\n")
    with pytest.raises(GovernanceError, match=r"bytes.yaml:2: not UTF-8"):
        load(tmp_path / "bytes.yaml")
    (tmp_path / "large.yaml").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(GovernanceError, match="over"):
        load(tmp_path / "large.yaml")


_LINES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *("version: 1", "judge:", "  enabled: no", "limits: {input: {lines: 3}}", "- a", "? x", "a: [", "]"),
                *(
                    "!!binary aa",
                    "'",
                    "<<: 1",
                    "1: 2",
                    "? [a]",
                    ": b",
                    "%YAML 1.2",
                    "---",
                    "...",
                    "x: .inf",
                    "&x",
                    "*x",
                ),
            ]
        ),
        st.text(max_size=8),
    ),
    max_size=6,
).map("\n".join)


@given(text=_LINES)
@examples(400)
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    try:
        parse(text)
    except GovernanceError as refused:
        lines = (
            text.count("\n") + text.count("\r") + text.count("\x85") + text.count("\u2028") + text.count("\u2029") + 2
        )
        told = refused.faults
    else:
        return
    assert told
    assert all(1 <= fault.line <= lines for fault in told)
