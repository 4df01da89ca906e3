"""Finding a port to serve on."""

from __future__ import annotations

import socket
from typing import Final

TRIES: Final = 100
_HIGHEST: Final = 65535


class NoFreePortError(OSError):
    """Neither the wanted port nor the ones after it can be had on this address."""


def free_port(host: str, wanted: int) -> int:
    """`wanted`, or the next port after it that nobody listens on; with 0 one that the system picks.

    Raises `NoFreePortError`. The port is not held: somebody else may take it before it is used.
    """
    last = min(wanted + TRIES, _HIGHEST + 1) if wanted else 1
    reason: OSError | None = None
    for port in range(wanted, last):
        try:
            return _bound(host, port)
        except OSError as error:
            reason = error
    raise NoFreePortError(f"no free port on {host!r} from {wanted} to {last - 1}: {reason}; give another --port")


def _bound(host: str, port: int) -> int:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: a port in TIME_WAIT is free
        probe.bind(address)
        return int(probe.getsockname()[1])
