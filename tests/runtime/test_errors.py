from __future__ import annotations

import inspect

import pytest

from runtime import errors


@pytest.mark.parametrize("kind", [kind for _, kind in inspect.getmembers(errors, inspect.isclass)])
def test_every_error_of_the_runtime_has_one_base_and_says_what_it_means(kind: type[Exception]) -> None:
    assert issubclass(kind, errors.RuntimeFaultError)
    assert kind.__doc__


def test_a_bad_setting_is_also_a_bad_value() -> None:
    assert issubclass(errors.SettingError, ValueError)
