"""What counts as public: never more than the standard library's own registry, whatever is hidden in an address."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tools.fetch.addresses import Reach, reach
from tests.support import examples

FOUR = st.ip_addresses(v=4)


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "223.255.255.255", "2606:4700::1111", "2a00::1", "64:ff9b::808:808"]
)
def test_public(text: str) -> None:
    assert reach(ipaddress.ip_address(text)) is Reach.PUBLIC


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "10.255.0.1", "172.16.0.1", "192.168.0.1", "100.127.0.1", "::1", "fd12::1", "::ffff:10.0.0.1"]
)
def test_internal(text: str) -> None:
    assert reach(ipaddress.ip_address(text)) is Reach.INTERNAL


@examples(500)
@given(address=st.one_of(FOUR, st.ip_addresses(v=6)))
def test_nothing_is_public_that_the_registry_closes(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    inner = getattr(address, "ipv4_mapped", None) or address
    if reach(address) is Reach.PUBLIC:
        nat64 = address in ipaddress.ip_network("64:ff9b::/96") if address.version == 6 else False
        assert inner.is_global or nat64
        assert not inner.is_multicast
        assert not inner.is_reserved or nat64


@examples(300)
@given(address=FOUR)
def test_an_address_in_another_is_no_wider(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    for prefix in (0xFFFF << 32, 0x0064FF9B << 96):
        assert reach(ipaddress.IPv6Address(prefix | number)) is reach(address)
    for hidden in (
        number,
        0x2002 << 112 | number << 80,
        0x20010000 << 96 | number << 64,
        0x26064700 << 96 | 0x5EFE << 32 | number,
    ):
        assert reach(ipaddress.IPv6Address(hidden)) is not Reach.PUBLIC
