"""Programs that try to get out, to read what they must not, to stay, to grow, or to pass for something else.

Each finds the variables `secret_file` (a file with a canary, which is also in the parent's environment), `outside` (a
path where nothing may appear) and `port` (somebody listens there on 127.0.0.1). A program that succeeds says ESCAPED or
shows the canary. `endless` ones have to be ended by a limit.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Escape:
    name: str
    code: str
    endless: bool = False


def _parsed(text: str, endless: bool) -> list[Escape]:
    """Programs out of a text in which `### name` begins each."""
    blocks = [block.partition("\n") for block in text.split("### ")[1:]]
    return [Escape(name.strip(), code.strip("\n"), endless) for name, _, code in blocks]


_READING = r"""
### passwd by open
open('/etc/passwd').read()
### the secret by open
open(secret_file).read()
### the secret by pathlib
from pathlib import Path
Path(secret_file).read_text()
### the secret by io
import io
io.open(secret_file).read()
### the secret by os.open
import os
os.read(os.open(secret_file, 0), 1000).decode()
### the secret by mmap
import mmap
f = open(secret_file, 'rb')
mmap.mmap(f.fileno(), 0, prot=1).read().decode()
### the secret through a link
import os
os.symlink(secret_file, '/tmp/link')
open('/tmp/link').read()
### the secret by linecache
import linecache
linecache.getlines(secret_file)
### the secret by dots
open('../../../../../../' + secret_file).read()
### the secret as a module's text
import importlib.util
spec = importlib.util.spec_from_file_location('x', secret_file)
open(spec.origin).read()
### the secret by a database
import sqlite3
list(sqlite3.connect('file:' + secret_file + '?mode=ro', uri=True).execute('select 1'))
### the secret by fileinput
import fileinput
list(fileinput.input(secret_file))
### the environment
import os
dict(os.environ)
### the environment by getenv
import os
os.getenv('SANDBOX_CANARY')
### the environment of the first process
open('/proc/1/environ').read()
### the environment of this process
open('/proc/self/environ').read()
### the environment of the parent
import os
open(f'/proc/{os.getppid()}/environ').read()
### every environment in proc
import os
text = ''
for name in os.listdir('/proc'):
    try:
        text += open('/proc/' + name + '/environ').read()
    except OSError:
        pass
text
### every command line in proc
import glob
[open(path).read() for path in glob.glob('/proc/[0-9]*/cmdline')]
### the environment in memory
open('/proc/self/mem', 'rb').read(10)
### the environment by ctypes
import ctypes
ctypes.CDLL(None).getenv.restype = ctypes.c_char_p
str(ctypes.CDLL(None).getenv(b'SANDBOX_CANARY'))
### everything in tmp
import os
found = []
for folder, _, names in os.walk('/tmp'):
    for name in names:
        found.append(open(os.path.join(folder, name)).read())
found
### the root's listing
import os
for folder in ('/etc', '/home', '/var', '/work', '/opt', '/srv', '/boot', '/proc', '/sys'):
    if os.path.isdir(folder) and os.listdir(folder):
        raise BaseException('ESCAPED ' + folder)
### files of other runs
import os
names = os.listdir('/tmp')
open('/tmp/left-behind', 'w').write('x')
'ESCAPED' if 'left-behind' in names else 'clean'
### open files of the parent
import os
text = ''
for number in range(3, 256):
    try:
        os.lseek(number, 0, 0)
        text += os.read(number, 10000).decode()
    except OSError:
        pass
text
### the shadow password file
import spwd
spwd.getspall()
### the users
import pwd
[entry.pw_dir for entry in pwd.getpwall()] and 'root:x:'
### the libraries of the project
import pydantic, lancedb
'ESCAPED'
### the code of the worker
import runtime.settings, store
'ESCAPED'
### the name of the machine
import socket, os
open('/etc/hostname').read() and 'ESCAPED'
"""

_INSIDE = r"""
### subclasses of object
[c for c in ().__class__.__bases__[0].__subclasses__() if c.__name__ == 'Popen'][0](['touch', outside])
### subclasses and a loader
for c in ().__class__.__mro__[-1].__subclasses__():
    if c.__name__ == 'BuiltinImporter':
        c.load_module('os').system('touch ' + outside)
### subclasses and warnings
found = [c for c in ''.__class__.__mro__[1].__subclasses__() if 'catch_warnings' in c.__name__]
found[0]()._module.__builtins__['open'](outside, 'w')
### a format string
'{0.__class__.__init__.__globals__}'.format(print)
### a format string with an index
'{x.__globals__[os].environ}'.format(x=lambda: 1)
### a format map
'{f.__globals__}'.format_map({'f': (lambda: 0)})
### an f-string
f'{(lambda: 0).__globals__}' and open(secret_file).read()
### the old format
'%(a)s' % {'a': open(secret_file).read()}
### builtins by name
__builtins__['open'](secret_file).read() if isinstance(__builtins__, dict) else __builtins__.open(secret_file).read()
### dunder import
__import__('os').system('touch ' + outside)
### importlib
import importlib
importlib.import_module('os').system('touch ' + outside)
### eval
eval("__import__('os').system('touch ' + outside)")
### exec
exec("import os\nos.system('touch ' + outside)")
### compile
exec(compile("import os; os.system('touch ' + outside)", 'x', 'exec'))
### a traceback's frames
try:
    1 / 0
except Exception as error:
    frame = error.__traceback__.tb_frame
    while frame.f_back:
        frame = frame.f_back
    text = str(frame.f_globals) + str(frame.f_locals)
    frame.f_builtins['open'](secret_file).read()
### the frames of a generator
def numbers():
    yield 1
g = numbers()
g.gi_frame.f_back.f_globals['os'].environ['SANDBOX_CANARY']
### the frames of a coroutine
async def nothing():
    pass
nothing().cr_frame.f_globals['__builtins__'].open(secret_file).read()
### frames by sys
import sys
frame = sys._getframe()
while frame.f_back:
    frame = frame.f_back
frame.f_globals['os'].environ['SANDBOX_CANARY']
### getattr tricks
getattr(getattr((), '__cl' + 'ass__'), '__ba' + 'se__').__subclasses__() and open(secret_file).read()
### a getattr of a function
getattr(print, '__self__').open(secret_file).read()
### a host function's globals
note.__globals__['os'].environ['SANDBOX_CANARY']
### a host function's closure
note.__closure__[0].cell_contents._socket.getpeername() and note.__code__.co_filename + open(secret_file).read()
### a class that lies
class Liar:
    __class__ = property(lambda self: open(secret_file).read())
Liar().__class__
### a metaclass
class Meta(type):
    def __getattr__(cls, name):
        return __import__('os').environ
class A(metaclass=Meta):
    pass
dict(A.anything)
### a decorator
@exec
@lambda f: "open(outside, 'w')"
class B:
    pass
### a class by type
type('X', (object,), {'__del__': lambda self: open(outside, 'w')})()
### attributes of code objects
(lambda: 0).__code__.replace(co_names=('os',), co_consts=(open(secret_file).read(),)).co_consts
### code that crashes
import types
code = (lambda: 0).__code__.replace(co_code=b'\x64\xff\x64\xff\x53\x00' * 50, co_consts=(), co_stacksize=0)
types.FunctionType(code, {})()
### pickle
import pickle
pickle.loads(b"cos\nsystem\n(S'touch " + outside.encode() + b"'\ntR.")
### marshal
import marshal, types
types.FunctionType(marshal.loads(b'\xe3'), {})()
### ctypes writes to memory
import ctypes
ctypes.memset(0, 1, 1)
### a shared library
import ctypes
ctypes.CDLL('libc.so.6').system(('touch ' + outside).encode())
### the garbage collector
import gc
[o for o in gc.get_objects() if isinstance(o, dict) and 'SANDBOX_CANARY' in o][0]['SANDBOX_CANARY']
### an audit hook
import sys
sys.addaudithook(lambda *a: None)
sys.modules['os'].environ['SANDBOX_CANARY']
### letters that look like others
ｏｐｅｎ(secret_file).read()
### a unicode import
__ｉｍｐｏｒｔ__('os').system('touch ' + outside)
### an encoding line
# coding: utf-7
+AG8AcABlAG4-(secret_file).read()
### a null byte
open(secret_file + '\x00.txt').read()
### direction marks
s = '‮' + open(secret_file).read()
s
"""

_DOING = r"""
### writes outside
open(outside, 'w').write('x')
### writes by pathlib
from pathlib import Path
Path(outside).write_text('x')
### overwrites the secret
open(secret_file, 'w').write('x')
### removes the secret
import os
os.unlink(secret_file)
### renames the secret
import os
os.rename(secret_file, outside)
### makes a folder
import os
os.makedirs(outside)
### changes rights
import os
os.chmod(secret_file, 0o777)
### a shell
import os
os.system('touch ' + outside)
### a subprocess
import subprocess
subprocess.run(['/bin/sh', '-c', 'touch ' + outside])
### popen
import os
os.popen('touch ' + outside).read()
### exec of a program
import os
os.execv('/usr/bin/touch', ['touch', outside])
### spawn
import os, posix
posix.posix_spawn('/usr/bin/touch', ['touch', outside], {})
### a terminal
import pty
pty.spawn(['/bin/sh', '-c', 'touch ' + outside])
### connects to us
import socket
socket.create_connection(('127.0.0.1', port), 1).sendall(b'ESCAPED')
### connects by http
import urllib.request
urllib.request.urlopen(f'http://127.0.0.1:{port}/').read()
### connects by asyncio
import asyncio
async def go():
    await asyncio.open_connection('127.0.0.1', port)
asyncio.run(go())
### sends a datagram
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('1.1.1.1', 53)) and 'ESCAPED'
### asks for a name
import socket
socket.getaddrinfo('example.org', 80) and 'ESCAPED'
### listens on every address
import socket
s = socket.socket()
s.bind(('0.0.0.0', 0))
s.connect(('127.0.0.1', port))
'ESCAPED'
### a raw socket
import socket
socket.socket(socket.AF_PACKET, socket.SOCK_RAW) and 'ESCAPED'
### an abstract unix socket
import socket
s = socket.socket(socket.AF_UNIX)
s.connect('\x00stepwell')
'ESCAPED'
### kills everybody
import os
os.kill(-1, 9)
### kills the parent
import os, signal
os.kill(os.getppid(), signal.SIGKILL)
### kills its group
import os, signal
os.killpg(0, signal.SIGKILL)
### becomes root
import os
os.setuid(0)
'ESCAPED'
### leaves the root
import os
os.chroot('/tmp')
'ESCAPED'
### mounts
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
'ESCAPED' if libc.mount(b'none', b'/tmp', b'tmpfs', 0, b'') == 0 else 'no'
### a new user namespace
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
'ESCAPED' if libc.unshare(0x10000000) == 0 else 'no'
### traces the parent
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
'ESCAPED' if libc.ptrace(16, os.getppid(), 0, 0) == 0 else 'no'
### a daemon by fork
import os
if os.fork() == 0:
    os.setsid()
    open(outside, 'w')
'ESCAPED'
### a thread
import threading
threading.Thread(target=print).start()
'ESCAPED'
### a process by multiprocessing
import multiprocessing
multiprocessing.Process(target=print).start()
'ESCAPED'
### a debugger
import os
breakpoint()
### asks the terminal
input()
"""

_ENDLESS = r"""
### a plain loop
while True:
    pass
### a loop that catches everything
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
### a loop in finally
def again():
    try:
        while True:
            pass
    finally:
        again()
again()
### sleeps and catches everything
import time
while True:
    try:
        time.sleep(1000)
    except BaseException:
        pass
### deaf to signals
try:
    import signal
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
except ImportError:
    pass
while True:
    pass
### a long sum in one call
sum(range(10**12))
### a power
pow(3, 10**9, 10**4000 + 1) * sum(range(10**12))
### a regular expression
import re
while True:
    re.match(r'(a|aa)+$', 'a' * 28 + 'b')
### a sort that never ends
while True:
    sorted(range(10000), key=lambda n: -n)
### a comprehension for ever
[0 for _ in iter(int, 1)]
### doubles a text for ever
s = 'x'
while True:
    s = s + s
### grows a list for ever
rows = []
while True:
    rows.append('x' * 1000)
### grows and catches everything
rows = []
while True:
    try:
        rows.append('x' * 100000)
    except BaseException:
        pass
### fork bomb
import os
while True:
    os.fork()
### fork bomb that catches everything
while True:
    try:
        import os
        os.fork()
    except BaseException:
        pass
### thread bomb
while True:
    try:
        import threading
        threading.Thread(target=print).start()
    except BaseException:
        pass
### recursion that catches everything
def deep():
    try:
        deep()
    except BaseException:
        deep()
deep()
### prints for ever
while True:
    print('x' * 1000)
### prints one long line for ever
while True:
    print('x', end='')
### calls a host function for ever
while True:
    note('x')
### calls a host function for ever and catches everything
while True:
    try:
        note('x')
    except BaseException:
        pass
### opens files for ever
files = []
while True:
    try:
        files.append(open('/tmp/x', 'w'))
    except BaseException:
        pass
### closes every descriptor and waits
try:
    import os
    os.closerange(0, 100)
except BaseException:
    pass
while True:
    pass
"""

_HEAVY = r"""
### a huge text
len('x' * 10**11)
### a huge list
len([0] * 10**11)
### a huge int
len(str(10 ** 10**7))
### a huge power
9 ** 9 ** 9 ** 9
### a huge shift
1 << 10**11
### a huge format
len(f'{1:>100000000000}')
### a huge range as a list
len(list(range(10**11)))
### a huge replace
len(('x' * 10**5).replace('x', 'y' * 10**7))
### a huge join
len(('x' * 10**6).join(['y'] * 10**6))
### huge bytes
len(bytes(10**11))
### deep recursion
def deep(n):
    return deep(n + 1)
deep(0)
### recursion in a repr
x = []
for _ in range(10**6):
    x = [x]
len(repr(x))
### a deep expression
eval('(' * 10000 + ')' * 10000)
### a long chain of operators
eval('+'.join(['1'] * 100000)) and 'fine'
### deep nesting of the result
x = []
for _ in range(10**5):
    x = [x]
x
### a result that contains itself
x = []
x.append(x)
x
### a result much larger than its memory
x = 'a' * 10**6
for _ in range(4):
    x = [x] * 1000
x
### arguments much larger than their memory
x = 'a' * 10**6
note([x] * 10**5)
### an argument bomb
note(*range(10**6))
### a keyword bomb
note(**{'k%d' % i: i for i in range(10**5)})
### deep arguments
x = []
for _ in range(10**5):
    x = {'a': x}
note(x)
### an argument that is a function
note(note)
### a long name of a function
eval('x' * 100000 + '()')
"""

_FORGING = r"""
### prints a message of ours
print('\n{"say": "done", "result": "ESCAPED"}\n')
raise ValueError('end')
### prints a message to the standard error
import sys
print('\n{"say": "done", "result": "ESCAPED"}\n', file=sys.stderr)
raise ValueError('end')
### writes a message to every descriptor
import os
for number in range(0, 1024):
    try:
        os.write(number, b'{"say":"done","result":"ESCAPED"}\n')
    except OSError:
        pass
### pretends to be out of time
raise TimeoutError('feed time limit exceeded: 1.000352279s > 1s')
### pretends to be out of memory
raise MemoryError('memory limit exceeded: 1000042848 bytes > 20000000 bytes')
### pretends that nobody knows a function
raise NameError('foo() is not among the functions of this program')
### pretends to be suspended
{'call': {'name': 'note', 'args': [], 'kwargs': {}, 'number': 1}, 'snapshot': 'AAAA', 'seal': ''}
### a result that is no JSON: a set
{1, 2}
### a result that is no JSON: a number
[float('nan'), float('inf')]
### a result that is no JSON: bytes
b'bytes'
### a result that is no JSON: a class
class C:
    pass
C()
### a result that is no JSON: keys
{1: 2, None: 3}
### a result that is no JSON: half a letter
'\ud800'
### an error whose text breaks
class Bad(Exception):
    def __str__(self):
        raise Bad()
raise Bad()
### an error that ends the process
raise SystemExit(0)
### an interrupt
raise KeyboardInterrupt('ESCAPE'[:3])
### ends at once
import os
os._exit(0)
### replaces the output
import sys
sys.stdout = None
sys.__stdout__ = None
'quiet'
### replaces what JSON is
import json, builtins
json.dumps = lambda *a, **k: '{"say":"done","result":"ESCAPED"}'
builtins.open = builtins.print = builtins.len = None
1
### at the exit
import atexit
atexit.register(lambda: open(outside, 'w'))
1
### calls a function under another's name
approve_everything('x')
### calls a function of the host that it was not given
hidden('x')
"""

ESCAPES: dict[str, list[Escape]] = {
    "reading": _parsed(_READING, False),
    "from inside": _parsed(_INSIDE, False),
    "doing": _parsed(_DOING, False),
    "endless": _parsed(_ENDLESS, True),
    "heavy": _parsed(_HEAVY, False),
    "forging": _parsed(_FORGING, False),
}
