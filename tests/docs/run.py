"""Runs every SQL block of the documentation as a reader would: with psql, from top to bottom, each document in a
database of its own.

    ```sql                must run without an error
    ```sql fails=42501    must end in exactly this SQLSTATE
    ```text               right after either: what psql prints for it

Usage: run.py [DOCUMENT...]; without one, README.md and docs/*.md. The server is that of PGHOST, PGPORT and PGUSER.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from textwrap import indent

ROOT = Path(__file__).resolve().parents[2]
PSQL = Path(os.environ.get("PG_BIN", "")) / "psql"
HANG_GUARD_S = 300
MARK = "--- next block ---"
# `verbose` puts the SQLSTATE behind the level; the code and the place in the source are taken out again for the reader.
LEVEL = re.compile(r"^(ERROR|FATAL|PANIC):  (?:([0-9A-Z]{5}): )?", re.M)
LOCATION = re.compile(r"^LOCATION:  .*\n?", re.M)


@dataclass
class Block:
    line: int
    sql: str
    fails: str | None
    expected: str | None = None


def fences(document: Path):
    """The fenced blocks as (line, info string, content, whether only blank lines stand between it and the last one)."""
    content, adjacent = None, False
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        if content is None and line.startswith("```"):
            begin, info, content = number, line.removeprefix("```").strip(), []
        elif content is not None and line.rstrip() == "```":
            yield begin, info, "\n".join(content), adjacent
            content, adjacent = None, True
        elif content is not None:
            content.append(line)
        elif line.strip():
            adjacent = False
    if content is not None:
        raise SystemExit(f"{document}:{begin}: this block is never closed")


def blocks(document: Path) -> list[Block]:
    found, last = [], None
    for line, info, content, adjacent in fences(document):
        language, _, option = info.partition(" ")
        if language == "sql":
            fails = re.fullmatch(r"fails=([0-9A-Z]{5})", option)
            if option and not fails:
                raise SystemExit(f"{document}:{line}: what does `{info}` mean?")
            last = Block(line, content, fails and fails[1])
            found.append(last)
            continue
        if language == "text" and last and adjacent:
            last.expected = content
        last = None
    return found


def psql(database: str, script: str) -> subprocess.CompletedProcess:
    settings = {"PGOPTIONS": "-c client_min_messages=error -c lc_messages=C", "PGTZ": "UTC", "PGCLIENTENCODING": "UTF8"}
    return subprocess.run(
        [PSQL, "-X", "-q", "-v", "VERBOSITY=verbose", "-P", "pager=off", "-d", database],
        input=script, env=os.environ | settings, capture_output=True, encoding="utf-8", timeout=HANG_GUARD_S,
    )


def run(database: str, document: list[Block]) -> list[tuple[str, str]]:
    """What each block printed and complained of; shorter than the document where a block did not end."""
    # One session, as the reader's would be. The last mark proves that the last block ended: an open quote or a lost
    # connection swallows it.
    mark = f"\\echo {MARK}\n\\warn {MARK}\n"
    done = psql(database, mark + mark.join(f"{block.sql}\n" for block in document) + mark)
    printed, complained = (stream.split(f"{MARK}\n")[1:] for stream in (done.stdout, done.stderr))
    return list(zip(printed, complained))[:-1]


def shown(text: str) -> list[str]:
    """Lines without what Markdown and psql differ in: blank lines, and blanks at the end of a line."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def judge(block: Block, printed: str, complained: str) -> str | None:
    """What is wrong; None where all is well."""
    codes = [code or "none" for _, code in LEVEL.findall(complained)]
    for_reader = LOCATION.sub("", LEVEL.sub(r"\1:  ", complained))
    if block.fails is None and complained.strip():
        return for_reader
    if block.fails is not None and codes != [block.fails]:
        return f"SQLSTATE {' '.join(codes) or '00000'} instead of {block.fails}\n{for_reader}"
    if block.expected is not None:
        want, got = shown(block.expected), shown(printed + for_reader)
        if want != got:
            pairs = zip_longest(want, got, fillvalue="(nothing)")
            return "\n".join(f"wanted {w}\ngot    {g}" for w, g in pairs if w != g)
    return None


def main(names: list[str]) -> int:
    documents = [Path(name).resolve() for name in names] or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    passed = failed = 0
    for document in documents:
        todo = blocks(document)
        if not todo:
            continue
        database = "docs_" + re.sub(r"\W", "_", document.stem.lower())
        made = psql("postgres", f'DROP DATABASE IF EXISTS {database};\nCREATE DATABASE {database} TEMPLATE template0;')
        if made.returncode or made.stderr:
            raise SystemExit(made.stderr)
        try:
            results = run(database, todo)
        finally:
            psql("postgres", f"DROP DATABASE {database} WITH (FORCE)")
        for block, result in zip_longest(todo, results):
            fault = judge(block, *result) if result else "it, or a block before it, did not come to its end"
            if fault is None:
                passed += 1
            else:
                failed += 1
                print(f"FAILED  {os.path.relpath(document, ROOT)}:{block.line}", indent(fault.strip(), "    "), sep="\n")
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0 or passed == 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
