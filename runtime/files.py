"""Reading files for monikers: only inside the folders that the operator allowed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from runtime.contract import MonikerInputError

MAX_FILE_BYTES = 10_000_000


class AllowedFiles:
    """Text files below `roots`. Links are followed before the check; hidden files and the store's data are refused."""

    def __init__(self, roots: Sequence[Path], *, forbidden: Sequence[Path] = ()) -> None:
        self._roots = [root.resolve() for root in roots]
        self._forbidden = [folder.resolve() for folder in forbidden]

    async def read_text(self, path: str) -> str:
        """See `runtime.contract.Files`."""
        return await asyncio.to_thread(self._read, path)

    def _read(self, path: str) -> str:
        file = self._allowed(path)
        try:
            if file.stat().st_size > MAX_FILE_BYTES:
                raise MonikerInputError(f"{path!r} is larger than {MAX_FILE_BYTES:,} bytes; give a smaller file")
            return file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise MonikerInputError(f"{path!r} is not UTF-8 text; convert it first") from error
        except OSError as error:
            raise MonikerInputError(f"{path!r} cannot be read: {error.strerror}") from error

    def _allowed(self, path: str) -> Path:
        """The file of this path in the first folder that has one; a missing file is in the first that may have it."""
        allowed = [file for root in self._roots if self._inside(file := _resolved(root, path), root)]
        if not allowed:
            raise MonikerInputError(
                f"{path!r} is outside the folders that may be read; the operator names them in STEPWELL_FILES"
            )
        return next((file for file in allowed if os.path.lexists(file)), allowed[0])

    def _inside(self, file: Path, root: Path) -> bool:
        if not file.is_relative_to(root) or any(file.is_relative_to(folder) for folder in self._forbidden):
            return False
        return not any(part.startswith(".") for part in file.relative_to(root).parts)


def _resolved(root: Path, path: str) -> Path:
    try:
        return (root / path).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links that lead to each other
        raise MonikerInputError(f"{path!r} is not a path: {error}") from error
