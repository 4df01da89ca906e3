"""API keys: read from the environment or from a file, used in one place, and shown nowhere but by their end."""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

#: a shorter key is not shown at all: its end would be most of it
SHORTEST_SHOWN = 12
SHOWN_CHARS = 4
FINGERPRINT_CHARS = 8
LARGEST_FILE = 10_000
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_SENDABLE = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key. Neither its `repr` nor its `str` holds the secret."""

    secret: SecretStr = field(repr=False)

    @classmethod
    def of(cls, value: str) -> ApiKey:
        """The key that is this text."""
        return cls(SecretStr(value))

    @property
    def last4(self) -> str:
        """The last four characters; empty for a short key."""
        value = self.secret.get_secret_value()
        return value[-SHOWN_CHARS:] if len(value) >= SHORTEST_SHOWN else ""

    @property
    def fingerprint(self) -> str:
        """Tells keys apart without showing them: the start of a SHA-256."""
        return hashlib.sha256(self.secret.get_secret_value().encode()).hexdigest()[:FINGERPRINT_CHARS]

    def __str__(self) -> str:
        return f"…{self.last4} ({self.fingerprint})"

    def taken_out_of(self, text: str) -> str:
        """`text` with its end in the place of the key; providers echo keys in their refusals."""
        return text.replace(self.secret.get_secret_value(), str(self))


def key_of_environment(name: str, environment: Mapping[str, str]) -> ApiKey:
    """The key in the environment variable `name`. Raises `ValueError` when there is none that can be sent."""
    value = environment.get(name, "").strip()
    if not value:
        raise ValueError(f"the environment variable {name} is not set or empty; set it to the key")
    return _key(value, f"the environment variable {name}")


def key_of_file(path: Path) -> ApiKey:
    """The key that is all of a file, which only its owner may read.

    Raises `ValueError` when it cannot be read, holds no key, or others may read it.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
            raise ValueError(f"the key file {path} is no small file; name a file that holds the key and nothing else")
        if status.st_mode & _OTHERS:
            mode = stat.S_IMODE(status.st_mode)
            raise ValueError(f"the key file {path} may be used by others (mode {mode:o}); chmod 600 it")
        value = path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        # without the cause, which quotes the file's bytes
        raise ValueError(f"the key file {path} is not text; it has to hold the key and nothing else") from None
    except OSError as error:
        raise ValueError(
            f"the key file {path} cannot be read: {error.strerror}; make it or correct the path"
        ) from error
    if not value:
        raise ValueError(f"the key file {path} is empty; write the key into it")
    return _key(value, f"the key file {path}")


def _key(value: str, where: str) -> ApiKey:
    if not _SENDABLE.fullmatch(value):
        raise ValueError(f"{where} holds white space or characters that no key has; it has to be the key alone")
    return ApiKey.of(value)
