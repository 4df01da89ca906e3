"""The key that seals suspended programs: in a file of its own, outside of the store's tables, or in the environment.

Who can write to the tables but cannot read the file can make no snapshot that is loaded. The file is made at the first
use, readable by its owner alone. Of several processes that make it at once one wins, and all read that one's key.
"""

from __future__ import annotations

import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from runtime.errors import SettingError
from runtime.sandbox.suspension import MIN_KEY_BYTES

FILE_NAME = "seal.key"
_OWNER_ONLY = 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class SealKey:
    """Where the key is. `given` (STEPWELL_SEAL_KEY, in hexadecimal) counts more than `file`."""

    file: Path | None
    given: SecretStr | None = None

    def read(self) -> bytes:
        """The key; the file is made if there is none. Raises `SettingError` that says what to do, never the key."""
        if self.given is not None:
            return _of_hex(self.given.get_secret_value(), "STEPWELL_SEAL_KEY")
        if self.file is None:
            raise SettingError(
                "STEPWELL_SEAL_KEY is not set and STEPWELL_DATA is no folder that could hold a key; "
                f"set it to {2 * MIN_KEY_BYTES} or more hexadecimal digits, the same for all workers"
            )
        try:
            _make(self.file)
            return _read(self.file)
        except OSError as error:
            raise SettingError(f"{self.file}: cannot be used for the seal's key: {error.strerror}") from error


def _make(file: Path) -> None:
    if file.exists():
        return
    new = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    try:
        with os.fdopen(handle, "w") as writing:
            writing.write(secrets.token_hex(MIN_KEY_BYTES))
            writing.flush()
            os.fsync(writing.fileno())
        os.link(new, file)  # whole or not at all, and never over another's
    except FileExistsError:
        return
    finally:
        new.unlink()


def _read(file: Path) -> bytes:
    if os.stat(file).st_mode & _OTHERS:
        raise SettingError(f"{file}: others may read the seal's key; chmod 600 it, or delete it to have a new one made")
    return _of_hex(file.read_text().strip(), str(file))


def _of_hex(text: str, where: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) < MIN_KEY_BYTES:
        raise SettingError(f"{where}: give {2 * MIN_KEY_BYTES} or more hexadecimal digits")
    return key
