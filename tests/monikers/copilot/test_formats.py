"""Output formats by name, from a host's folder, and inline (spec 2 §10.1, §10.2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from monikers.copilot.errors import AgentConfigurationError
from monikers.copilot.formats import SHIPPED, known_formats, output_schema


def test_the_formats_that_ship() -> None:
    assert known_formats() == ["default", "v2_events", "v2_raw", "widget_control"]


@pytest.mark.parametrize("name", known_formats())
def test_a_shipped_format_tells_the_model_each_field_that_it_reads(name: str) -> None:
    schema = output_schema(name)
    for key in ("events_field", "queue_field", "facts_field", "memory_field", "data_field"):
        field = schema.mapping.get(key)
        if isinstance(field, str) and name != "widget_control":
            assert f'"{field}"' in schema.instruction
    assert "JSON" in schema.instruction


def test_the_default_mapping_of_10_2() -> None:
    mapping = output_schema("default").mapping
    assert mapping["check_field"] == "has_insight"
    assert {key: mapping[key] for key in ("events_field", "state_field", "queue_field", "memory_field")} == {
        "events_field": "events",
        "state_field": "variable_updates",
        "queue_field": "queue_pushes",
        "memory_field": "memory_updates",
    }


def test_a_format_of_the_hosts_folder_comes_first(tmp_path: Path) -> None:
    (tmp_path / "default.json").write_text(json.dumps({"instruction": "Ours.", "mapping": {"content_field": "say"}}))
    assert output_schema("default", tmp_path).instruction == "Ours."
    assert output_schema("v2_raw", tmp_path).name == "v2_raw"


@pytest.mark.parametrize(
    "name", ["../default", "/etc/passwd", "a/b", "..", "", ".", "default.json", "x\x00", "a\nb", 5, None, []]
)
def test_a_name_leads_nowhere_else(name: Any, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "default.json").write_text("{}")
    with pytest.raises(AgentConfigurationError, match=r"output_format: .* is no name of a format"):
        output_schema(name, tmp_path / "inner")


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    with pytest.raises(AgentConfigurationError, match=r"no format 'nope': use one of default, v2_events"):
        output_schema("nope")


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"mapping": {"contents_field": "x"}}, "maps 'contents_field', which is not known"),
        ({"mapping": {"content_field": 5}}, "maps content_field to '5'"),
        ({"mapping": {"content_field": []}}, "maps content_field"),
        ({"mapping": {"metadata_fields": ["a"]}}, "metadata_fields"),
        ({"mapping": [1]}, 'needs an object as "mapping"'),
        ({"instruction": 5}, 'needs a text of at most 20000 characters as "instruction"'),
        ({"instruction": "x" * 20_001}, "needs a text"),
    ],
)
def test_a_malformed_format_is_refused_with_the_cure(found: Any, told: str) -> None:
    with pytest.raises(AgentConfigurationError) as raised:
        output_schema(found)
    assert told in str(raised.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "x" * 200_000, "[" * 100_000])
def test_a_file_that_is_no_format_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(text)
    with pytest.raises(AgentConfigurationError, match="the format 'mine'"):
        output_schema("mine", tmp_path)


def test_the_shipped_files_are_json_objects_of_two_keys() -> None:
    for path in SHIPPED.glob("*.json"):
        assert set(json.loads(path.read_text())) == {"instruction", "mapping"}
