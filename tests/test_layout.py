"""The laws of the layout hold: arrows between the folders, style, and imports that do nothing.

An offence is reported as `file:line: what to do instead`. The laws themselves are in scripts/laws.py and
scripts/page_laws.py; here each is also shown to catch what it is made for.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from scripts import laws, page_laws
from scripts.laws import Law, Source

# one process parses the files, for all laws
pytestmark = pytest.mark.xdist_group("laws")

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("store", "runtime", "monikers", "web")
ENTRY_POINTS = ("agents.py", "app.py")
ENTRY_POINT_LINES = 80


def python_files(*folders: str) -> list[Path]:
    """All Python files under some folders of the checkout."""
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def entry_points() -> list[Path]:
    """The composition roots."""
    return [ROOT / name for name in ENTRY_POINTS if (ROOT / name).exists()]


def product() -> list[Path]:
    """Every Python file that a user runs."""
    return [*python_files(*FOLDERS), *entry_points()]


def report(offences: Iterable[str]) -> None:
    """Fail with all offences, one a line."""
    found = list(offences)
    assert not found, "\n" + "\n".join(found)


@cache
def source_of(file: Path) -> Source:
    """A file as the laws read it; parsing all of them takes longer than any law."""
    return Source.read(ROOT, file)


@pytest.fixture(scope="module", autouse=True)
def parsed_files() -> Iterator[None]:
    """Let millions of nodes go when the laws are done: every look for garbage would go through them."""
    yield
    source_of.cache_clear()


def found_by(law: Law, files: Iterable[Path]) -> Iterator[str]:
    """The offences against one law in some files."""
    return (offence for file in files for offence in laws.offences(law, source_of(file)))


# --- the checkout keeps the laws -------------------------------------------------------------------------------------


def test_imports_go_along_the_arrows() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("law", laws.PRODUCT)
def test_the_product_keeps(law: Law) -> None:
    report(found_by(law, product()))


@pytest.mark.parametrize("law", laws.SCRIPTS)
def test_the_scripts_and_benchmarks_keep(law: Law) -> None:
    report(found_by(law, python_files("scripts", "bench", "chaos")))


@pytest.mark.parametrize("law", laws.TESTS)
def test_the_tests_keep(law: Law) -> None:
    report(found_by(law, python_files("tests")))


def test_the_entry_points_only_compose() -> None:
    report(
        f"{file.name}:{lines}: {lines} lines: an entry point composes; move what it does into a folder"
        for file in entry_points()
        if (lines := len(file.read_text().splitlines())) > ENTRY_POINT_LINES
    )


def test_no_script_of_the_page_makes_markup_or_code_from_text() -> None:
    scripts = sorted((ROOT / "web" / "static" / "js").rglob("*.js"))
    report(offence for file in scripts for offence in page_laws.script_offences(relative(file), file.read_text()))


def test_no_template_trusts_text() -> None:
    pages = sorted((ROOT / "web" / "templates").rglob("*.html"))
    report(offence for file in pages for offence in page_laws.template_offences(relative(file), file.read_text()))


def test_importing_any_module_does_nothing() -> None:
    modules = [module_name(file) for file in product()]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "scripts.import_probe", *modules],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    deeds = json.loads(done.stdout)
    report(f"{module}: importing it {deed}: do that in a function" for module in deeds for deed in deeds[module])


def relative(file: Path) -> str:
    """A file's path from the root of the checkout."""
    return file.relative_to(ROOT).as_posix()


def module_name(file: Path) -> str:
    """The name that a file is imported by."""
    return relative(file).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


# --- and the laws catch what they are made for -----------------------------------------------------------------------

HEAD = '"""A file."""\n\nfrom __future__ import annotations\n\n'

CAUGHT: dict[Law, list[str]] = {
    laws.no_global: ["def f():\n    global x\n    x = 1\n"],
    laws.no_silent_except: [
        "try:\n    f()\nexcept Exception:\n    pass\n",
        "try:\n    f()\nexcept:\n    raise\n",
        "for x in y:\n    try:\n        f()\n    except (ValueError, BaseException):\n        continue\n",
        "def f():\n    try:\n        return g()\n    except Exception:\n        return None\n",
        "with contextlib.suppress(Exception):\n    f()\n",
    ],
    laws.imports_on_top: ["def f():\n    import json\n", "async def f():\n    from store import ids\n"],
    laws.no_mutable_default: ["def f(x=[]): ...\n", "def f(*, x=dict()): ...\n", "f = lambda x={}: x\n"],
    laws.filters_only: [
        "table.query().where(f\"id = '{x}'\")\n",
        'table.delete("id = %s" % x)\n',
        'table.update({}, where="id = " + x)\n',
        'table.count_rows(filter="id = {}".format(x))\n',
        'def f():\n    condition = f"id = {x}"\n    return table.query().where(condition)\n',
        'table.query().where(" and ".join(parts))\n',
    ],
    laws.nothing_unsafe: [
        "import pickle\n",
        "from marshal import loads\n",
        "eval(x)\n",
        "yaml.load(x)\n",
        "Markup(x)\n",
    ],
    laws.clock_only: [
        "time.time()\n",
        "time.monotonic()\n",
        "datetime.now(UTC)\n",
        "datetime.datetime.utcnow()\n",
        "import random\n",
        "from uuid import uuid4\n",
        "from time import perf_counter\n",
        "field(default_factory=datetime.now)\n",
    ],
    laws.no_fakes: [
        "from runtime.testing import FakeClock\n",
        "from runtime import testing\n",
        "import runtime.testing\n",
    ],
    laws.one_door_out: [
        "import httpx2\n",
        "import httpx2 as web\n",
        "from httpx2 import AsyncClient\n",
        "import requests.sessions\n",
        "from aiohttp import web\n",
        "import urllib.request\n",
        "from urllib import request\n",
        "from http import client\n",
        "from http.client import HTTPConnection\n",
        "import openai\n",
        "import mcp\n",
        "from mcp import Client\n",
        "from mcp.client.streamable_http import streamable_http_client\n",
    ],
    laws.no_sleep: [
        "time.sleep(1)\n",
        "await asyncio.sleep(0.1)\n",
        "from time import sleep\n",
        "page.wait_for_timeout(5)\n",
    ],
}

LET_THROUGH: dict[Law, list[str]] = {
    laws.no_silent_except: [
        "try:\n    f()\nexcept KeyError:\n    pass\n",
        "try:\n    f()\nexcept Exception as error:\n    log.warning('it failed', error=error)\n",
    ],
    laws.filters_only: [
        "table.query().where(filters.equals('id', f'{a}:{b}') & condition)\n".replace("f'{a}:{b}'", "step_id"),
        "seen.update(f'{x}' for x in y)\n",
        "digest.update(f'{x}'.encode())\n",
    ],
    laws.clock_only: ["clock.now()\n", "self._clock.monotonic()\n", "time.strftime('%H')\n"],
    laws.no_sleep: ["await asyncio.sleep(0)\n", "await clock.sleep(3)\n"],
    laws.one_door_out: [
        "from urllib.parse import quote\nimport urllib.parse\n",
        "from http import HTTPStatus\nimport http\n",
        "import httptools\n",
    ],
    laws.no_mutable_default: ["def f(x=()): ...\n", "def f(x=None): ...\n"],
}


def cases(table: dict[Law, list[str]]) -> list[tuple[Law, str]]:
    """Each law with each of its examples."""
    return [(law, example) for law, examples in table.items() for example in examples]


@pytest.mark.parametrize(("law", "example"), cases(CAUGHT))
def test_a_law_catches(law: Law, example: str) -> None:
    assert laws.offences(law, Source.parse("store/example.py", HEAD + example))


@pytest.mark.parametrize(("law", "example"), cases(LET_THROUGH))
def test_a_law_lets_through(law: Law, example: str) -> None:
    assert not laws.offences(law, Source.parse("store/example.py", HEAD + example))


@pytest.mark.parametrize(("text", "count"), [("", 0), ('"""Only words."""\n', 0), (HEAD, 0), ("x = 1\ny = 2\n", 2)])
def test_a_module_explains_itself(text: str, count: int) -> None:
    assert len(laws.offences(laws.explained, Source.parse("store/example.py", text))) == count


def test_a_law_spares_its_one_place() -> None:
    text = HEAD + "time.time()\n"
    assert laws.offences(laws.clock_only, Source.parse("store/other.py", text))
    assert not laws.offences(laws.clock_only, Source.parse("store/clock.py", text))


def test_a_hidden_import_is_spared_by_name() -> None:
    text = HEAD + "def f():\n    from eventlet import tpool\n"
    assert laws.offences(laws.imports_on_top, Source.parse("web/other.py", text))
    assert not laws.offences(laws.imports_on_top, Source.parse("web/bridge.py", text))


def test_only_one_file_opens_mcp_over_http() -> None:
    text = HEAD + "from mcp import Client\n"
    assert not laws.offences(laws.one_door_out, Source.parse("runtime/tools/mcp/link.py", text))
    for opens in ["from mcp.client.streamable_http import x\n", "import httpx2\n", "import mcp.client.auth\n"]:
        assert laws.offences(laws.one_door_out, Source.parse("runtime/tools/mcp/link.py", HEAD + opens))
    text = HEAD + "from mcp.client.streamable_http import x\n"
    assert not laws.offences(laws.one_door_out, Source.parse("runtime/tools/mcp/http.py", text))


def test_only_the_models_folder_speaks_to_models() -> None:
    text = HEAD + "import openai\n"
    assert laws.offences(laws.one_door_out, Source.parse("runtime/tools/other.py", text))
    assert not laws.offences(laws.one_door_out, Source.parse("runtime/llm/other.py", text))
    text = HEAD + "import httpx2\n"
    assert laws.offences(laws.one_door_out, Source.parse("runtime/llm/other.py", text))
    assert not laws.offences(laws.one_door_out, Source.parse("runtime/tools/fetch/fetcher.py", text))


@pytest.mark.parametrize(
    ("check", "text", "count"),
    [
        (page_laws.script_offences, "node.innerHTML = text;", 1),
        (page_laws.script_offences, "  // never innerHTML\n * nor eval(x)", 0),
        (page_laws.script_offences, "node.insertAdjacentHTML('beforeend', text);", 1),
        (page_laws.script_offences, "document.write(text); eval(text)", 2),
        (page_laws.script_offences, "setTimeout('go()', 1); new Function(text)", 2),
        (page_laws.script_offences, "node.textContent = text; retrieval(x);", 0),
        (page_laws.template_offences, "<p>{{ text | safe }}</p>", 1),
        (page_laws.template_offences, '<p style="color: red" onclick="go()">', 2),
        (page_laws.template_offences, "<p>\n<script>\ngo()\n</script>", 1),
        (page_laws.template_offences, '<script src="/static/js/a.js"></script>', 0),
        (page_laws.template_offences, '<script type="application/json">{{ value | tojson }}</script>', 0),
        (page_laws.template_offences, '<a class="button" data-style="x" data-on="y">', 0),
    ],
)
def test_a_page_law(check: Callable[[str, str], Iterator[str]], text: str, count: int) -> None:
    assert len(list(check("web/example", text))) == count


def test_the_probe_sees_what_an_import_does(tmp_path: Path) -> None:
    (tmp_path / "acts.py").write_text(
        "import threading\nprint('hello')\nopen('left.txt', 'w').close()\n"
        "threading.Thread(target=threading.Event().wait, args=(60,), daemon=True, name='busy').start()\n"
    )
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from scripts import import_probe as probe; "
    code += "probe.ROOT = probe.Path.cwd(); probe.main(['acts'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (deeds,) = json.loads(done.stdout).values()
    assert sorted(deed.split()[0] for deed in deeds) == ["open", "printed", "started"]
