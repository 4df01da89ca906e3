"""Replies as models write them, well formed and not, with what has to be read in each.

`calls` are (tool, arguments); `errors` the kinds in order; `text` the prose that is left, or None where it does not
matter; `thoughts` and `quoted` the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runtime.tools.reply import CallErrorKind as Kind

Calls = tuple[tuple[str, dict[str, Any]], ...]


@dataclass(frozen=True)
class Case:
    """One reply."""

    name: str
    reply: str
    calls: Calls = ()
    errors: tuple[Kind, ...] = ()
    text: str | None = None
    thoughts: tuple[str, ...] = ()
    quoted: tuple[str, ...] | None = None


def written(content: str) -> Calls:
    """One write of `content` to a.html."""
    return (("file_system", {"action": "write", "path": "a.html", "content": content}),)


def write(content: str) -> str:
    """The call of `written`."""
    return f"<file_system>\n<action>write</action>\n<path>a.html</path>\n<content>{content}</content>\n</file_system>"


LIST = "<file_system><action>list</action></file_system>"
LISTED: Calls = (("file_system", {"action": "list"}),)
NOW: Calls = (("clock", {}),)
UTC = "<clock><zone>UTC</zone></clock>"
IN_UTC: Calls = (("clock", {"zone": "UTC"}),)
RM = "<shell><command>rm -rf .</command></shell>"
ONE_LINE_RM = f"`{RM}`"

GOOD = (
    Case("prose alone", "Nothing to do.", text="Nothing to do."),
    Case("empty", "", text=""),
    Case("blank", " \n\n ", text=""),
    Case("a call alone", LIST, LISTED, text=""),
    Case("a call in prose", f"First.\n{LIST}\nThen.", LISTED, text="First.\n\nThen."),
    Case("prose on the same line", f"a {LIST} b", LISTED, text="a  b"),
    Case("two calls in order", f"{LIST}\n{UTC}", (*LISTED, *IN_UTC), text=""),
    Case("the same call twice", f"{UTC}{UTC}", (*IN_UTC, *IN_UTC)),
    Case("no arguments", "<clock></clock>", NOW),
    Case("no arguments, with white space", "<clock>\n\n</clock>", NOW),
    Case("self-closing", "<clock/>", NOW),
    Case("self-closing with a blank", "<clock />", NOW),
    Case("an empty parameter", "<clock><zone/></clock>", (("clock", {"zone": ""}),)),
    Case("blanks in tags", "<clock ><zone >UTC</zone ></clock >", IN_UTC),
    Case("a line break in a tag", "<clock\n><zone\n>UTC</zone\n></clock\n>", IN_UTC),
    Case("windows lines", "<clock>\r\n<zone>UTC</zone>\r\n</clock>\r\n", IN_UTC),
    Case("indented", "    <clock>\n        <zone>UTC</zone>\n    </clock>", IN_UTC),
    Case("in a list", f"1. look\n   - {LIST}\n2. go", LISTED),
    Case("wrapped", f"<tool_call>\n{UTC}\n</tool_call>", IN_UTC, text=""),
    Case("a choice with white space", "<file_system><action>\n  list\n</action></file_system>", LISTED),
    Case(
        "values in any order",
        "<search><limit> 2 </limit><query>x</query></search>",
        (("search", {"query": "x", "limit": 2}),),
    ),
    Case(
        "a truth value",
        "<file_system><action>list</action><recursive>True</recursive></file_system>",
        (("file_system", {"action": "list", "recursive": "True"}),),
    ),
    Case(
        "a JSON truth value",
        "<file_system><action>list</action><recursive>true</recursive></file_system>",
        (("file_system", {"action": "list", "recursive": True}),),
    ),
    Case(
        "a list",
        "<file_system><action>list</action><lines>[1, 2]</lines></file_system>",
        (("file_system", {"action": "list", "lines": [1, 2]}),),
    ),
    Case(
        "null",
        "<file_system><action>list</action><lines>null</lines></file_system>",
        (("file_system", {"action": "list", "lines": None}),),
    ),
    Case("unknown markup is prose", "<b>Bold</b> & <i>more</i> < 3", text="<b>Bold</b> & <i>more</i> < 3"),
    Case(
        "an end in the prose behind a value that names its tag",
        f"{write('use the <content> tag')} Then </content> ends it. {UTC}",
        (*written("use the <content> tag"), *IN_UTC),
        text="Then </content> ends it.",
    ),
    Case("a mention in prose", f"The <clock> tool tells time. {UTC}", IN_UTC),
    Case("comparisons", "if a <clock and b> c: x < y > z", text="if a <clock and b> c: x < y > z"),
    Case("a stray closing tag", "done</clock>", text="done</clock>"),
    Case("parameters without a tool", "<action>list</action>", text="<action>list</action>"),
    Case(
        "unicode",
        "Gruß <search><query>naïve – 東京 🙂</query></search>",
        (("search", {"query": "naïve – 東京 🙂"}),),
        text="Gruß",
    ),
)

BYTE_FOR_BYTE = (
    "  indented\n\tand tabbed\n\n",
    "<html>\n<body class='x'>\n  <p>a &amp; b</p>\n</body></html>",
    "if a < b && c > d: x <<= 1",
    "a & b &lt; &#60;",
    "]]>",
    "a[b[0]]>1",
    "</clock>",
    "</shell> and <shell>",
    f"docs: {UTC}",
    f"docs: {RM}",
    LIST,
    write("inner"),
    "<content>x</content>",
    "<a><content>x</content><content>y</content></a>",
    "use the <content> tag",
    "</action></path>",
    "<action>read</action><path>/etc/passwd</path>",
    "```python\nprint('<clock/>')\n```",
    "```\nan open fence",
    "one ` tick",
    "> quoted",
    "<think>not a thought</think>",
    "</think>",
    "<example>open",
    "<!-- a comment -->",
    "<!-- open",
    "x <![CDATA[ y ]]> z",
    "\r\n\r\n",
    "trailing \\",
    "<",
    "</",
    "<content",
    "\x00\x1b",
    '{"json": [1, 2]}',
)

CDATA = (
    Case("CDATA", write("<![CDATA[a</content>b]]>"), written("a</content>b")),
    Case("CDATA with white space around", write("\n  <![CDATA[a]]>\n"), written("a")),
    Case("CDATA split in two", write("<![CDATA[a]]]]><![CDATA[>b]]>"), written("a]]>b")),
    Case("CDATA with its end inside", write("<![CDATA[a[b[0]]>1]]>"), written("a[b[0]]>1")),
    Case(
        "CDATA with a whole call",
        write(f"<![CDATA[</content></file_system>{RM}]]>"),
        written(f"</content></file_system>{RM}"),
    ),
    Case("CDATA in CDATA", write("<![CDATA[<![CDATA[x]]>"), written("<![CDATA[x")),
    Case("CDATA of nothing", write("<![CDATA[]]>"), written("")),
    Case("open CDATA", write("<![CDATA[a") + UTC, (), (Kind.NOT_CLOSED,)),
    Case("open CDATA after a good call", UTC + write("<![CDATA[a"), IN_UTC, (Kind.NOT_CLOSED,)),
)

QUOTED = (
    Case("a code span", f"Write {ONE_LINE_RM} to remove.", text=f"Write {ONE_LINE_RM} to remove.", quoted=("shell",)),
    Case("a code span of two", f"Write ``a ` {RM}`` so", quoted=("shell",)),
    Case("a code span over lines", "Write `<shell>\n<command>x</command>\n</shell>` so", quoted=("shell",)),
    Case("a fence", f"So:\n```xml\n{RM}\n```\nDone. {UTC}", IN_UTC, quoted=("shell",)),
    Case("a tilde fence", f"~~~\n{RM}\n~~~\n{UTC}", IN_UTC, quoted=("shell",)),
    Case("a fence in a fence", f"````\n```\n{RM}\n```\n{RM}\n````\n{UTC}", IN_UTC, quoted=("shell", "shell")),
    Case("tildes in a fence", f"```\n~~~\n{RM}\n```\n{UTC}", IN_UTC),
    Case("an indented fence", f"1. so\n    ```xml\n    {RM}\n    ```\n", quoted=("shell",)),
    Case("a fence in a list", f"- ```xml\n  {RM}\n\n  {RM}\n  ```\n{UTC}", IN_UTC, quoted=("shell", "shell")),
    Case("a fence in a list in a list", f"- 1. ```xml\n     {RM}\n\n     ```\n{UTC}", IN_UTC, quoted=("shell",)),
    Case("a mark of a list does not close a fence", f"```\n- ```\n  {RM}\n```\n{UTC}", IN_UTC, quoted=("shell",)),
    Case("a fence outside does not close one in a list", f"- ```\n  x\n```\n{RM}", (), (Kind.OPEN_QUOTE,)),
    Case("a code span over a fence behind words", f"x`{RM}```xml\n` {UTC}", IN_UTC, quoted=("shell",)),
    Case("a code span of three over lines", f"a ```b` {RM}\nc``` {UTC}", IN_UTC, quoted=("shell",)),
    Case("a tag that would hide a fence", f"a <x \n\n~~~\n> {RM}\n~~~\n{UTC}", IN_UTC, quoted=("shell",)),
    Case("a code span ends with its item of a list", f"`\n- {ONE_LINE_RM}\n{UTC}", IN_UTC, quoted=("shell",)),
    Case("a fence behind words", f"So: ```xml\n{RM}\n```\n{UTC}", (), (Kind.OPEN_QUOTE,)),
    Case("a fence that ends behind words", f"```xml\n{RM}```\n{UTC}", (), (Kind.OPEN_QUOTE,)),
    Case("three ticks on one line", f"Write ```{RM}``` so. {UTC}", IN_UTC, quoted=("shell",)),
    Case("an open fence", f"```\n{RM}", (), (Kind.OPEN_QUOTE,)),
    Case("an open fence without calls", "```\nx", text="```\nx"),
    Case("a fence with words does not close", f"```\nx\n``` y\n{RM}\n```\n{UTC}", IN_UTC, quoted=("shell",)),
    Case("a block quote", f"> {RM}\n{UTC}", IN_UTC, quoted=("shell",)),
    Case(
        "a block quote of many lines",
        "> <shell>\n> <command>x</command>\n> </shell>\nok",
        text="> <shell>\n> <command>x</command>\n> </shell>\nok",
    ),
    Case("a block quote with a fence", f"> ```\n> x\n{UTC}", IN_UTC),
    Case("an example", f"<example>{RM}</example>{UTC}", IN_UTC, quoted=("shell",)),
    Case("an example with a class", f"<example id='1'>\n{RM}\n</example>{UTC}", IN_UTC),
    Case("examples in examples", f"<example><example>{RM}</example>{RM}</example>{UTC}", IN_UTC),
    Case("an open example", f"<example>{RM}", (), (Kind.OPEN_QUOTE,)),
    Case("code", f"<code>{RM}</code> <pre>{RM}</pre> {UTC}", IN_UTC),
    Case("a comment", f"<!-- {RM} -->{UTC}", IN_UTC, quoted=("shell",)),
    Case("an open comment", f"<!-- {RM}", (), (Kind.OPEN_QUOTE,)),
    Case("CDATA in prose", f"<![CDATA[{RM}]]>{UTC}", IN_UTC),
    Case("a lone tick", f"it`s time: {UTC}", IN_UTC),
    Case("a tick in another paragraph", f"it`s time\n\n{UTC}\n\nisn`t it", IN_UTC),
    Case("an escaped tick does not open", f"\\` {ONE_LINE_RM}", quoted=("shell",)),
    Case("a mention of the tag in ticks", f"I use `<clock>` now: {UTC}", IN_UTC, quoted=("clock",)),
    Case("echoed data", f"<data>\n{RM}\n</data>{UTC}", IN_UTC),
)

THOUGHTS = (
    Case("a thought", f"<think>{RM}</think>Answer", text="Answer", thoughts=(RM,)),
    Case("a thought and a call", f"<think>hm</think>\n{UTC}\nDone", IN_UTC, text="Done", thoughts=("hm",)),
    Case("capitals", "<Think>hm</Think>Answer", text="Answer", thoughts=("hm",)),
    Case("thinking", "<thinking>hm</thinking>Answer", text="Answer", thoughts=("hm",)),
    Case("two thoughts", "<think>a</think>b<think>c</think>d", text="bd", thoughts=("a", "c")),
    Case("an empty thought", "<think></think>Answer", text="Answer"),
    Case("an open thought", f"Answer <think>hm {RM}", (), (Kind.NOT_CLOSED,), text="Answer", thoughts=(f"hm {RM}",)),
    Case(
        "the beginning was in the prompt",
        f"hm {RM}\n</think>\nAnswer {UTC}",
        IN_UTC,
        (Kind.IN_THOUGHT,),
        text="Answer",
        thoughts=(f"hm {RM}",),
    ),
    Case("ended twice", f"<think>hm</think>Answer</think> {UTC}", IN_UTC, text="Answer", thoughts=("hm",)),
    Case(
        "a thought in a thought",
        f"<think>a<think>b</think>{RM}</think>c",
        (),
        (Kind.IN_THOUGHT,),
        text="c",
        thoughts=("a<think>b", RM),
    ),
    Case(
        "a thought names its tag",
        f"<think>a <think> b</think>Answer {UTC}",
        IN_UTC,
        text="Answer",
        thoughts=("a <think> b",),
    ),
    Case("ticks in a thought", f"<think>a ` b</think>` {UTC}", IN_UTC, text="`", thoughts=("a ` b",)),
    Case("a fence in a thought", f"<think>\n```\n</think>\n{UTC}", IN_UTC, thoughts=("```",)),
    Case(
        "an open fence before the end of a thought",
        f"hm\n```\n{RM}\n</think>\nAnswer {UTC}",
        IN_UTC,
        text="Answer",
        thoughts=(f"hm\n```\n{RM}",),
    ),
    Case("a quoted thought", "`<think>` begins it", text="`<think>` begins it"),
    Case("an open call in a thought", "hm <clock></think>Answer", text="Answer", thoughts=("hm <clock>",)),
)

BAD = (
    Case("an unknown tool", "<send_mail><action>send</action></send_mail>", (), (Kind.UNKNOWN_TOOL,), text=""),
    Case("a misspelt tool", f"<file_sytem><action>list</action></file_sytem>{UTC}", IN_UTC, (Kind.UNKNOWN_TOOL,)),
    Case("a tool in capitals", "<Clock><zone>UTC</zone></Clock>", (), (Kind.UNKNOWN_TOOL,)),
    Case(
        "an unknown tool is no call inside",
        f"<mail><action>send</action><body>{RM}</body></mail>",
        (),
        (Kind.UNKNOWN_TOOL,),
    ),
    Case("a page is no unknown tool", "<html><path>x</path></html>", text="<html><path>x</path></html>"),
    Case("an unknown parameter", f"<clock><place>UTC</place></clock>{LIST}", LISTED, (Kind.UNKNOWN_PARAMETER,)),
    Case("an unknown parameter holds a call", f"<clock><place>{RM}</place></clock>", (), (Kind.UNKNOWN_PARAMETER,)),
    Case("a parameter twice", f"<clock><zone>a</zone><zone>b</zone></clock>{LIST}", LISTED, (Kind.REPEATED_PARAMETER,)),
    Case("text for parameters", f"<search>cats</search>{UTC}", IN_UTC, (Kind.STRAY_TEXT,)),
    Case("JSON for parameters", '<search>{"query": "cats"}</search>', (), (Kind.STRAY_TEXT,)),
    Case(
        "text between parameters",
        f"<search><query>a</query> or <limit>2</limit></search>{UTC}",
        IN_UTC,
        (Kind.STRAY_TEXT,),
    ),
    Case("a value closes itself", f"{write('a</content>b')}{UTC}", IN_UTC, (Kind.STRAY_TEXT,)),
    Case(
        "text, then a value with a call",
        f"<file_system>so <content>{RM}</content></file_system>",
        (),
        (Kind.STRAY_TEXT,),
    ),
    Case("no end of the tool", f"<file_system><action>list</action>\n{UTC}", IN_UTC, (Kind.NOT_CLOSED,)),
    Case(
        "no end of the tool, then prose", "<clock><zone>UTC</zone>\nNow wait.", (), (Kind.NOT_CLOSED,), text="Now wait."
    ),
    Case(
        "no end of a value",
        f"<file_system><action>list</action><path>src</file_system>\n{UTC}",
        IN_UTC,
        (Kind.NOT_CLOSED,),
    ),
    Case(
        "no end of a value, then one of the same name",
        "<file_system><action>list</action><path>src</file_system>\n<file_system><action>list</action><path>lib</path></file_system>",
        (("file_system", {"action": "list", "path": "lib"}),),
        (Kind.NOT_CLOSED,),
    ),
    Case("cut in a value", f"{UTC}<file_system><action>write</action><content>docs: {RM}", IN_UTC, (Kind.NOT_CLOSED,)),
    Case(
        "cut in a value that shows a call",
        f"<file_system><action>write</action><content>{LIST} {RM}",
        (),
        (Kind.NOT_CLOSED,),
    ),
    Case("cut in a tag", f"{UTC}<file_system><action>list</acti", IN_UTC, (Kind.NOT_CLOSED,)),
    Case("a misspelt end of a value", f"<clock><zone>UTC</zon></clock>{LIST}", LISTED, (Kind.NOT_CLOSED,)),
    Case("a misspelt end of the tool", f"<clock><zone>UTC</zone></clok>{LIST}", LISTED, (Kind.WRONG_CLOSING,)),
    Case("ends in the wrong order", f"<clock><zone>UTC</clock></zone>{LIST}", LISTED, (Kind.NOT_CLOSED,)),
    Case("attributes", f"<clock zone='UTC'/>{LIST}", LISTED, (Kind.ATTRIBUTES,)),
    Case("attributes and an end", f"<file_system action='list'></file_system>{UTC}", IN_UTC, (Kind.ATTRIBUTES,)),
    Case("attributes of a parameter", f"<clock><zone type='text'>UTC</zone></clock>{LIST}", LISTED, (Kind.ATTRIBUTES,)),
    Case("a call in a call", f"<file_system><action>list</action>{UTC}</file_system>{LIST}", LISTED, (Kind.NESTED,)),
    Case("a bad choice", f"<file_system><action>burn</action></file_system>{UTC}", IN_UTC, (Kind.BAD_ARGUMENTS,)),
    Case("a bad number", "<search><query>x</query><limit>many</limit></search>", (), (Kind.BAD_ARGUMENTS,)),
    Case(
        "a bad list", "<file_system><action>list</action><lines>1, 2</lines></file_system>", (), (Kind.BAD_ARGUMENTS,)
    ),
    Case("not a number", "<search><query>x</query><limit>NaN</limit></search>", (), (Kind.BAD_ARGUMENTS,)),
    Case("a value is missing", f"<search><limit>2</limit></search>{UTC}", IN_UTC, (Kind.BAD_ARGUMENTS,)),
    Case("nothing but the tool", "<search/>", (), (Kind.BAD_ARGUMENTS,)),
    Case("JSON in a tag", '<tool_call>{"name": "clock", "arguments": {}}</tool_call>', (), (Kind.FOREIGN_FORMAT,)),
    Case(
        "invoke",
        '<function_calls><invoke name="clock"><parameter name="zone">UTC</parameter></invoke></function_calls>',
        (),
        (Kind.FOREIGN_FORMAT,),
        text="",
    ),
    Case(
        "three of five are good",
        f"{UTC}<clock><x>1</x></clock>{LIST}<search/>{UTC}",
        (*IN_UTC, *LISTED, *IN_UTC),
        (Kind.UNKNOWN_PARAMETER, Kind.BAD_ARGUMENTS),
    ),
)

CASES = (
    *GOOD,
    *(Case(f"content {content[:40]!r}", write(content), written(content), text="") for content in BYTE_FOR_BYTE),
    *CDATA,
    *QUOTED,
    *THOUGHTS,
    *BAD,
)
