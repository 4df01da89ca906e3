"""A filter of system calls: a program in full mode starts no process and no thread, and opens no seldom used doors.

Limits on the number of processes do not hold for a worker that runs as root, and user namespaces count each their own;
a filter holds always. The format is the kernel's classic BPF: struct sock_filter in linux/filter.h, its use in the
kernel's Documentation/userspace-api/seccomp_filter.
"""

from __future__ import annotations

import platform
import struct

from runtime.sandbox.errors import SandboxUnavailableError

# Per machine: its number in the kernel's audit.h, and the system calls that fail with "not permitted".
_MACHINES: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        {
            "clone": 56,
            "fork": 57,
            "vfork": 58,
            "clone3": 435,
            "ptrace": 101,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "unshare": 272,
            "setns": 308,
            "mount": 165,
            "umount2": 166,
            "pivot_root": 155,
            "chroot": 161,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "bpf": 321,
            "perf_event_open": 298,
            "userfaultfd": 323,
            "io_uring_setup": 425,
            "io_uring_enter": 426,
            "io_uring_register": 427,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "clone": 220,
            "clone3": 435,
            "ptrace": 117,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "unshare": 97,
            "setns": 268,
            "mount": 40,
            "umount2": 39,
            "pivot_root": 41,
            "chroot": 51,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "bpf": 280,
            "perf_event_open": 241,
            "userfaultfd": 282,
            "io_uring_setup": 425,
            "io_uring_enter": 426,
            "io_uring_register": 427,
        },
    ),
}
# x86_64 has a second set of numbers for the same calls, from here on; none of them is let through.
_SECOND_SET = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER_AT, _MACHINE_AT = 0, 4
_ALLOW, _KILL, _NOT_PERMITTED = 0x7FFF0000, 0x80000000, 0x00050001


def denying(machine: str = "") -> bytes:
    """The filter for this machine, or for `machine`. Raises SandboxUnavailableError for one that is not known here."""
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        known = " and ".join(_MACHINES)
        raise SandboxUnavailableError(f"full mode knows {known}, this is {machine}: use light mode; nothing was run")
    number, calls = _MACHINES[machine]
    head = [_step(_LOAD, _MACHINE_AT), _step(_EQUAL, number, 1, 0), _step(_RETURN, _KILL), _step(_LOAD, _NUMBER_AT)]
    second = [_step(_AT_LEAST, _SECOND_SET, 0, 1), _step(_RETURN, _KILL)]
    left = len(calls)
    tests = [_step(_EQUAL, call, left - place, 0) for place, call in enumerate(sorted(calls.values()))]
    return b"".join([*head, *second, *tests, _step(_RETURN, _ALLOW), _step(_RETURN, _NOT_PERMITTED)])


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
