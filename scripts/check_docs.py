"""Check that the docs speak of what is there: links lead somewhere, and settings in docs and code are the same.

A setting is any name STEPWELL_... that stands in the product's Python files, and each field of a settings class with
the prefix STEPWELL_. It has to be described in docs/settings.md or README.md, and no page may name one that does not
exist.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("store", "runtime", "monikers", "web", "agents.py", "app.py")
DESCRIBED_IN = ("docs/settings.md", "README.md")
LEFT_OUT = {"node_modules", "bench-results", "test-artifacts"}
PREFIX = "STEPWELL_"
SETTING = re.compile(rf"\b{PREFIX}[A-Z0-9]+(?:_[A-Z0-9]+)*\b(?!_|\*)")
CODE_BLOCK = re.compile(r"^(?P<fence>```|~~~).*?^(?P=fence)[^\n]*$", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\]\(\s*<?(?P<target>[^()\s<>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)
HEADING = re.compile(r"^#{1,6}\s+(?P<text>.+?)\s*#*$", re.MULTILINE)


def main() -> int:
    """Print every fault; 1 if there are any."""
    faults = [*broken_links(ROOT), *setting_faults(ROOT)]
    for fault in faults:
        print(fault)
    if not faults:
        print(f"docs: {len(pages(ROOT))} pages, {len(settings_in_code(ROOT))} settings, all in order")
    return 1 if faults else 0


def pages(root: Path) -> list[Path]:
    """All Markdown files of the checkout itself."""
    files = (file for file in root.rglob("*.md") if not hidden(file.relative_to(root)))
    return sorted(files)


def hidden(path: Path) -> bool:
    """Whether a path belongs to a tool or to data rather than to the project."""
    return any(part.startswith((".", "data")) or part in LEFT_OUT for part in path.parts)


# --- links -----------------------------------------------------------------------------------------------------------


def broken_links(root: Path) -> Iterator[str]:
    """Links to files and headings that do not exist; addresses on the web are not visited."""
    for page in pages(root):
        text = without_code(page.read_text())
        for link in LINK.finditer(text):
            target = link["target"]
            if not ELSEWHERE.match(target) and not leads_somewhere(page, target):
                line = text.count("\n", 0, link.start()) + 1
                yield f"{page.relative_to(root)}:{line}: the link to {target} leads nowhere: mend it or remove it"


def without_code(text: str) -> str:
    """The text with its code blanked out, line by line, so that line numbers stay."""
    return CODE_SPAN.sub(blank, CODE_BLOCK.sub(blank, text))


def blank(found: re.Match[str]) -> str:
    """Nothing but the line ends of what was found."""
    return "\n" * found[0].count("\n")


def leads_somewhere(page: Path, target: str) -> bool:
    """Whether a relative link's file exists and, if it names one, so does the heading."""
    path, _, heading = target.partition("#")
    file = page.parent / path if path else page
    if not file.exists():
        return False
    return not heading or file.suffix != ".md" or heading in headings(file)


def headings(file: Path) -> set[str]:
    """The anchors of a page's headings: lower case, words joined by dashes, other signs dropped."""
    text = CODE_BLOCK.sub(blank, file.read_text())
    plain = (re.sub(r"[^\w\- ]", "", heading["text"].lower()) for heading in HEADING.finditer(text))
    return {words.strip().replace(" ", "-") for words in plain}


# --- settings --------------------------------------------------------------------------------------------------------


def setting_faults(root: Path) -> Iterator[str]:
    """Settings that are not described, and described ones that do not exist."""
    code = settings_in_code(root)
    described = {name for page in DESCRIBED_IN for name in names_in(root / page)}
    for name in sorted(code.keys() - described):
        yield f"{code[name]}: {name} is not described: add it to {DESCRIBED_IN[0]}"
    for page in pages(root):
        for name in sorted(names_in(page) - code.keys()):
            yield f"{page.relative_to(root)}: {name} is not a setting of the code: remove it or correct its name"


def settings_in_code(root: Path) -> dict[str, str]:
    """Each setting of the product with the file that it was found in first."""
    found: dict[str, str] = {}
    for file in product(root):
        for name in sorted(names_in(file) | fields_with_prefix(file)):
            found.setdefault(name, str(file.relative_to(root)))
    return found


def product(root: Path) -> list[Path]:
    """The Python files that a user runs."""
    places = [root / place for place in PRODUCT]
    return sorted(file for place in places for file in ([place] if place.is_file() else place.rglob("*.py")))


def names_in(file: Path) -> set[str]:
    """The settings that a file names in full."""
    return set(SETTING.findall(file.read_text())) if file.exists() else set()


def fields_with_prefix(file: Path) -> set[str]:
    """The settings that come from the fields of a class with `env_prefix="STEPWELL_"`."""
    classes = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef)]
    return {f"{PREFIX}{name.upper()}" for each in classes if has_prefix(each) for name in own_fields(each)}


def has_prefix(definition: ast.ClassDef) -> bool:
    """Whether a class of settings asks for our prefix."""
    given = [node for node in ast.walk(definition) if isinstance(node, ast.keyword) and node.arg == "env_prefix"]
    return any(isinstance(node.value, ast.Constant) and node.value.value == PREFIX for node in given)


def own_fields(definition: ast.ClassDef) -> Iterator[str]:
    """The fields of a settings class that are named by prefix; one with an alias names itself."""
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id != "model_config":
            options = node.value.keywords if isinstance(node.value, ast.Call) else []
            if "ClassVar" not in ast.unparse(node.annotation) and all(it.arg != "validation_alias" for it in options):
                yield node.target.id


if __name__ == "__main__":
    sys.exit(main())
