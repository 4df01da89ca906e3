"""Where an address lies: in the public network, in the operator's own, or where nobody has any business.

What is public is said positively, from IANA's registries of special-purpose addresses (RFC 6890) and of global unicast:
what a registry adds later is then closed, not open. An address that carries an IPv4 address inside is judged by that.
"""

from __future__ import annotations

import ipaddress
from enum import StrEnum

from runtime.tools.fetch.urls import Address


class Reach(StrEnum):
    """Who can be met at an address."""

    PUBLIC = "public"  # anybody's server
    INTERNAL = "internal"  # this machine or the operator's network: only where the operator named host and port
    CLOSED = "closed"  # link-local (cloud credentials), groups, unspecified, reserved, tunnels: never


def _networks(text: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    return tuple(ipaddress.ip_network(one) for one in text.split())


_INTERNAL = _networks("10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 172.16.0.0/12 192.168.0.0/16 ::1/128 fc00::/7")
_CLOSED = _networks(
    # this network, link-local, protocol assignments, documentation, 6to4 relays, benchmarks, groups and reserved
    "0.0.0.0/8 169.254.0.0/16 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 "
    "224.0.0.0/3 "
    # where clouds keep credentials besides link-local: Azure's wire server, Alibaba's and, by IPv6, Amazon's
    "168.63.129.16/32 100.100.100.200/32 fd00:ec2::/32 "
    # protocol assignments with Teredo, documentation twice, 6to4
    "2001::/23 2001:db8::/32 3fff::/20 2002::/16"
)
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
# The last 64 bits of an address that tunnels to the IPv4 address in its last 32 (ISATAP, RFC 5214).
_ISATAP = (0x00005EFE, 0x02005EFE)


def reach(address: Address) -> Reach:
    """Where an address lies."""
    if isinstance(address, ipaddress.IPv6Address):
        return _reach_6(address)
    return _listed(address) or Reach.PUBLIC


def _reach_6(address: ipaddress.IPv6Address) -> Reach:
    if address.scope_id is not None:
        return Reach.CLOSED
    if found := _listed(address):
        return found
    if address.ipv4_mapped is not None:
        return reach(address.ipv4_mapped)
    if address in _NAT64:
        return reach(_last_32(address))
    if address in _COMPATIBLE or address not in _GLOBAL_UNICAST or (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        return Reach.CLOSED
    return Reach.PUBLIC


def _listed(address: Address) -> Reach | None:
    if any(address in network for network in _CLOSED):
        return Reach.CLOSED
    return Reach.INTERNAL if any(address in network for network in _INTERNAL) else None


def _last_32(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
