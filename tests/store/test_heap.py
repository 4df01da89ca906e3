from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# Each of eight threads holds small blocks; without a bound glibc would open a heap for each.
PROGRAM = """
import ctypes, re, threading
from store.heap import keep_heap_small
if {bounded}:
    assert keep_heap_small()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
together = threading.Barrier(8)
def hold():
    together.wait()
    for _ in range(2000):
        libc.malloc(1000)
    together.wait()
threads = [threading.Thread(target=hold) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.fopen.restype = ctypes.c_void_p
file = libc.fopen(b"/dev/stdout", b"w")
libc.malloc_info(0, ctypes.c_void_p(file))
libc.fflush(ctypes.c_void_p(file))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has such heaps")
def test_threads_share_few_heaps() -> None:
    def heaps(*, bounded: bool) -> int:
        program = PROGRAM.format(bounded=bounded)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.count("<heap nr=")

    assert heaps(bounded=True) <= 4  # what is imported has started threads before
    assert heaps(bounded=False) >= 8
