"""The version that the web process reports; the same as in pyproject.toml (a test compares them)."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
