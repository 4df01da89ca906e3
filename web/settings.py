"""What the web process can be told from outside, read once into a frozen record."""

from __future__ import annotations

import ipaddress
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

PREFIX: Final = "STEPWELL_"
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")


class AsyncMode(StrEnum):
    """How the web process serves many clients at once."""

    EVENTLET = "eventlet"  # green threads in one thread
    THREADING = "threading"  # a thread a connection


class SettingsError(ValueError):
    """A setting cannot be used; the message names its key, its value and what would do."""


def _names(value: Any) -> Any:
    """Names from a comma-separated text, in lower case, without the brackets of IPv6 addresses."""
    if not isinstance(value, str):
        return value
    return tuple(name.strip().strip("[]").lower() for name in value.split(",") if name.strip())


def _blank_is_none(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip() else value


class WebSettings(BaseSettings):
    """The settings of the web process: `STEPWELL_HOST`, `STEPWELL_PORT` and so on."""

    model_config = SettingsConfigDict(env_prefix="STEPWELL_", frozen=True, extra="ignore")

    host: str = Field("127.0.0.1", min_length=1)
    port: int = Field(5055, ge=0, le=65535)
    async_mode: AsyncMode = AsyncMode.EVENTLET
    #: the largest request body in bytes
    max_body_bytes: int = Field(1_000_000, ge=1000)
    #: how deep objects and lists may be nested in a body
    max_json_depth: int = Field(64, ge=2, le=500)
    #: so many open actions may be in the queue; 0 is no limit
    max_queue: int = Field(20_000, ge=0)
    #: packets that may wait for one client; one that leaves more unread is let go
    client_buffer: int = Field(1000, ge=10)
    #: seconds that a request may wait for the store; then it is answered with 503
    request_s: float = Field(20.0, gt=0, le=600, allow_inf_nan=False)
    #: further names in `Host` headers that are answered, besides the loopback names and `host`
    allowed_hosts: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)] = ()
    #: a message queue for other processes that emit to our rooms; the tables stay the source of all events
    redis_url: Annotated[str | None, BeforeValidator(_blank_is_none)] = None

    @model_validator(mode="after")
    def _redis_needs_threads(self) -> Self:
        if self.redis_url is not None and self.async_mode is AsyncMode.EVENTLET:
            raise ValueError("redis_url works with async_mode=threading only: set STEPWELL_ASYNC_MODE=threading")
        return self

    @property
    def store_patience_s(self) -> float:
        """Seconds that a request's write is tried again: less than its deadline, so that it can say what is wrong."""
        return self.request_s * 0.8

    @property
    def host_names(self) -> frozenset[str]:
        """The names that a `Host` header may carry."""
        return frozenset({*LOOPBACK_NAMES, self.host.lower(), *self.allowed_hosts})

    @property
    def bound_to_all(self) -> bool:
        """Whether every address of this machine is served; then its addresses are fine in `Host`, names are not."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False


def read_settings(**given: Any) -> WebSettings:
    """The settings from the environment, with `given` in place of what is there. Raises `SettingsError`."""
    try:
        return WebSettings(**given)
    except ValidationError as error:
        raise SettingsError("; ".join(_in_words(item) for item in error.errors())) from error


def _in_words(item: Any) -> str:
    where = "_".join(str(part) for part in item["loc"])
    if not where:
        return str(item["msg"])
    return f"{PREFIX}{where.upper()}={item['input']!r} cannot be used: {item['msg']}"
