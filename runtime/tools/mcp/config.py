"""The servers that the operator named: the table `mcp` of tools.toml, checked, as frozen records (S47).

    [mcp.files]                                  [mcp.search]
    command = "mcp-server-filesystem"            url = "https://search.example.org/mcp"
    args = ["/srv/shared"]                       headers_env = { Authorization = "SEARCH_TOKEN" }
    env = ["PATH"]                               tools = ["web_search"]
    read_only = ["read_file"]                    trust = "approval"

Only this file names commands and addresses. What a server says of itself ("read only", "safe") is its own hint and
counts for nothing: the lists here do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, NewType, Self

from pydantic import Field, ValidationError, model_validator

from runtime.errors import SettingError
from runtime.ports import FrozenModel
from runtime.tools.fetch.errors import FetchRefusedError
from runtime.tools.fetch.port import FetchRequest, FetchRules, Method
from runtime.tools.fetch.rules import check_request
from runtime.tools.fetch.urls import WebAddress, read_url

ServerName = NewType("ServerName", str)

#: every tool of a server, in the lists of its table
EVERY = "*"
MIB = 1024 * 1024

# No underscore: `<server>_<tool>` then says of which server a tool is.
_NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

_Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]
_Words = Annotated[tuple[str, ...], Field(max_length=200)]


class Trust(StrEnum):
    """When a tool of a server may be used."""

    APPROVAL = "approval"  # when a person has agreed to it
    ON_FIRST_USE = "on_first_use"  # as it is seen first; when a person has agreed once it has changed


@dataclass(frozen=True, slots=True)
class Stdio:
    """A server that is a child process. `env` are names of variables that it is given, and it gets no others."""

    command: str
    args: tuple[str, ...]
    env: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Http:
    """A server that is asked over streamable HTTP. `headers_env` are pairs: a header, the variable with its value."""

    at: WebAddress
    headers_env: tuple[tuple[str, str], ...]
    #: it lies in the operator's own network or on this machine
    internal: bool


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server that may be used, and how."""

    name: ServerName
    reached: Stdio | Http
    #: seconds for one call
    time_out_s: float
    #: seconds to start it, connect and list its tools
    connect_s: float
    #: longest answer that a model is shown, in characters
    max_output_chars: int
    #: largest message that it may send, in bytes
    max_message_bytes: int
    #: the names of its tools that may be used; None is all of them
    tools: frozenset[str] | None
    read_only: frozenset[str]
    idempotent: frozenset[str]
    needs_approval: frozenset[str]
    trust: Trust

    def offers(self, remote: str) -> bool:
        """Whether the operator lets a tool of that name be used."""
        return self.tools is None or remote in self.tools


class _Table(FrozenModel):
    """One table `[mcp.<name>]`."""

    enabled: bool = True
    command: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    args: Annotated[tuple[str, ...], Field(max_length=500)] = ()
    env: _Words = ()
    url: str | None = None
    headers_env: dict[str, str] = Field(default_factory=dict)
    internal: bool = False
    time_out_s: _Seconds = 30.0
    connect_s: _Seconds = 30.0
    max_output_chars: Annotated[int, Field(ge=1, le=1_000_000)] = 20_000
    max_message_bytes: Annotated[int, Field(ge=10_000, le=64 * MIB)] = 4 * MIB
    tools: _Words | None = None
    read_only: _Words = ()
    idempotent: _Words = ()
    needs_approval: _Words = ()
    trust: Trust = Trust.APPROVAL

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either command, for a server on this machine, or url")
        if self.url is None and (self.headers_env or self.internal):
            raise ValueError("headers_env and internal belong to a url; a command is given env")
        if self.command is None and (self.args or self.env):
            raise ValueError("args and env belong to a command; a url is given headers_env")
        for text in (self.command or "", *self.args):
            if "\0" in text:
                raise ValueError(f"{text!r} has a NUL character, which no program can be given")
        for name in (*self.env, *self.headers_env.values()):
            if not _VARIABLE.fullmatch(name):
                raise ValueError(
                    f"{name[:60]!r} is no name of an environment variable; write the name of the variable that holds "
                    "the value, not the value"
                )
        return self


def read_mcp(section: Mapping[str, Any]) -> tuple[McpServer, ...]:
    """The enabled servers of the table `mcp`, by name. `section` is what TOML has below it.

    Raises `SettingError` that names the table, the key and the cure. Opens and starts nothing.
    """
    return tuple(server for name, table in sorted(section.items()) if (server := _server(name, table)) is not None)


def _server(name: str, raw: Any) -> McpServer | None:
    if not _NAME.fullmatch(name):
        raise SettingError(
            f"[mcp.{name}]: {name!r} cannot name a server; use up to 20 small letters, digits and -, a letter first"
        )
    if not isinstance(raw, Mapping):
        raise SettingError(f"mcp.{name} = {raw!r} is no table; write [mcp.{name}] and its settings below")
    try:
        table = _Table.model_validate(dict(raw))
    except ValidationError as error:
        raise SettingError("; ".join(_explained(name, one) for one in error.errors(include_url=False))) from error
    return _made(ServerName(name), table) if table.enabled else None


def _made(name: ServerName, table: _Table) -> McpServer:
    reached = _stdio(table) if table.command is not None else _http(name, table)
    return McpServer(
        name=name,
        reached=reached,
        time_out_s=table.time_out_s,
        connect_s=table.connect_s,
        max_output_chars=table.max_output_chars,
        max_message_bytes=table.max_message_bytes,
        tools=None if table.tools is None else frozenset(table.tools),
        read_only=frozenset(table.read_only),
        idempotent=frozenset(table.idempotent),
        needs_approval=frozenset(table.needs_approval),
        trust=table.trust,
    )


def _stdio(table: _Table) -> Stdio:
    return Stdio(table.command or "", table.args, table.env)


def _http(name: ServerName, table: _Table) -> Http:
    try:
        at = read_url(table.url or "")
        # The one reader of headers; the values, which are secret, are looked at when a connection is made.
        headers = tuple((header, "x") for header in table.headers_env)
        check_request(FetchRequest(str(at), Method.POST, headers), FetchRules(methods=frozenset({Method.POST})))
    except FetchRefusedError as error:
        raise SettingError(f"[mcp.{name}] url, headers_env: {error}") from error
    internal = table.internal or at.host in _LOOPBACK_NAMES
    if at.scheme != "https" and not internal:
        raise SettingError(
            f"[mcp.{name}] url: {table.url!r} would send what agents write in the clear; use https, or set "
            "internal = true for a server of your own network"
        )
    return Http(at, tuple(table.headers_env.items()), internal)


def _explained(name: str, one: Mapping[str, Any]) -> str:
    where = ".".join(map(str, one["loc"]))
    if one["type"] == "extra_forbidden":
        return f"[mcp.{name}] {where}: there is no such setting; docs/mcp.md lists them"
    # What was found is not repeated: somebody may have written a token where a name belongs.
    return f"[mcp.{name}]{' ' + where if where else ''}: {one['msg'].removeprefix('Value error, ')}"
