from __future__ import annotations

import sys

import pydantic
import pytest
from lance_namespace_urllib3_client.api.table_api import TableApi

from store.loading import checked_when_called


def test_loading_leaves_the_checks_of_others_alone() -> None:
    assert pydantic.validate_call.__module__ == "pydantic.validate_call_decorator"


def test_a_check_is_built_by_the_first_call_and_is_the_same() -> None:
    @checked_when_called
    def doubled(number: int) -> int:
        return number * 2

    assert doubled("21") == 42  # type: ignore[arg-type]
    with pytest.raises(pydantic.ValidationError, match="valid integer"):
        doubled("x")  # type: ignore[arg-type]


def test_the_client_of_remote_catalogues_still_checks_what_it_is_given() -> None:
    assert "store.loading" in sys.modules
    with pytest.raises(pydantic.ValidationError):
        TableApi(api_client=object()).drop_table(id=7)  # type: ignore[arg-type]
