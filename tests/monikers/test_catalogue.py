from __future__ import annotations

from typing import Any

import pytest

from monikers.catalogue import Catalogue, catalogue, check_config
from monikers.copilot.moniker import COPILOT
from monikers.echo import ECHO, EchoConfig
from monikers.errors import MonikerConfigError, UnknownMonikerError
from monikers.joke import JOKE, JokeConfig
from runtime.contract import Moniker, MonikerInputError
from runtime.testing import FakeCtx, Said, play

ALL = list(catalogue())


def test_every_shipped_moniker_is_found_by_its_name() -> None:
    known = catalogue()
    assert [*known.names()] == ["echo", "joke", "summarize", "research", "prompted", "copilot"]
    assert all(known.get(name).name == name for name in known.names())
    assert len(known) == 6


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownMonikerError, match=r"no moniker 'jokes'.*echo, joke, prompted") as caught:
        catalogue().get("jokes")
    assert isinstance(caught.value, MonikerInputError)


def test_two_monikers_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="share a name"):
        Catalogue.of(ECHO, ECHO)


@pytest.mark.parametrize("moniker", ALL, ids=lambda moniker: str(moniker.name))
async def test_each_example_is_a_config_that_works_with_the_offline_model(moniker: Moniker[Any]) -> None:
    config = check_config(moniker, moniker.example, "")
    talk = {step: Said(("What does it cost?",)) for step in range(4)} if moniker is COPILOT else None
    outs = await play(moniker, FakeCtx(config), steps=12, said=talk)
    assert len(outs) >= 3
    assert all(out.text or (out.data and "insights" in out.data) for out in outs)
    assert outs[0].next_step == outs[1].step


@pytest.mark.parametrize("moniker", ALL, ids=lambda moniker: str(moniker.name))
def test_every_config_describes_itself_and_refuses_unknown_fields(moniker: Moniker[Any]) -> None:
    assert moniker.summary.endswith(".")
    assert moniker.config_model.model_json_schema()["additionalProperties"] is False


def test_the_task_fills_the_task_field_when_it_is_left_out() -> None:
    assert check_config(JOKE, {}, "cats") == JokeConfig(subject="cats")
    assert check_config(JOKE, {"subject": None}, "cats") == JokeConfig(subject="cats")
    assert check_config(ECHO, None, "hello") == EchoConfig(text="hello")


def test_the_config_wins_over_the_task() -> None:
    assert check_config(JOKE, {"subject": "dogs"}, "cats") == JokeConfig(subject="dogs")


@pytest.mark.parametrize("task", ["", "  \n"])
def test_a_blank_task_fills_nothing(task: str) -> None:
    with pytest.raises(MonikerConfigError) as caught:
        check_config(JOKE, {}, task)
    assert caught.value.errors == [{"field": "subject", "message": "Field required"}]


def test_every_wrong_field_is_named() -> None:
    with pytest.raises(MonikerConfigError, match=r"config of 'joke'.*interval_s: .*subjct: ") as caught:
        check_config(JOKE, {"subject": "x", "interval_s": -1, "subjct": "y"}, "")
    assert [error["field"] for error in caught.value.errors] == ["interval_s", "subjct"]


def test_an_error_deep_inside_has_a_dotted_field() -> None:
    with pytest.raises(MonikerConfigError) as caught:
        check_config(catalogue().get("research"), {"documents": [{"title": "A", "text": "x", "path": "y"}]}, "why?")
    assert caught.value.errors == [
        {"field": "documents.0", "message": "give either text or path, not both and not neither"}
    ]


def test_an_error_of_the_whole_config_is_called_config() -> None:
    with pytest.raises(MonikerConfigError) as caught:
        check_config(catalogue().get("summarize"), {}, "")
    assert caught.value.errors[0]["field"] == "config"


def test_a_config_with_broken_unicode_is_refused() -> None:
    with pytest.raises(MonikerConfigError):
        check_config(ECHO, {"text": "\ud800"}, "")
