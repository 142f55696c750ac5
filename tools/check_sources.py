#!/usr/bin/env python3
"""Checks that sources begin with what they are for, and that no function is longer than a page.

    tools/check_sources.py [file ...]

Without files it takes those that git knows. The first line of a source is a comment (in Python a docstring
may be it, in scripts it follows `#!`). A function has at most 100 lines, from its name to its closing brace.
A table may have more, since it is read by rows and not from front to back: functions that fill the op table
are recognised by their argument (Registry&), any other says so in the line above it, with a comment that
begins with `A table:`.
"""

import ast
import pathlib
import re
import subprocess
import sys

MOST_LINES = 100
CPP = {".h", ".cc", ".cu", ".cuh"}
HASHES = {".py", ".sh", ".cmake", ".txt"}
SKIPPED = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])'""",
    re.DOTALL)
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum)\b[^()]*$|extern\s*$")


def blanked(text):
    """The text with comments, literals and preprocessor lines turned into spaces; lines stay."""
    def spaces(match):
        return re.sub(r"[^\n]", " ", match.group())
    text = SKIPPED.sub(spaces, text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", spaces, text, flags=re.MULTILINE)


def cpp_functions(text):
    """(first line, last line) of every function body that stands in no other."""
    code = blanked(text)
    line, begun, head, depth, opened = 1, 1, "", 0, None
    ended = None  # the function before, in case an initialiser list goes on behind a brace
    for mark in re.finditer(r"[{};]|\n|[^{};\n]+", code):
        token = mark.group()
        if token == "\n":
            line += 1
            head += " "
            continue
        if opened is not None:
            depth += {"{": 1, "}": -1}.get(token, 0)
            if depth == 0:
                ended, opened, head = (opened, line), None, ""
            continue
        if token == "{":
            stripped = head.strip()
            goes_on = ended and (stripped.startswith(",") or not stripped)
            if goes_on or ("(" in stripped and not SCOPE.search(stripped)):
                opened, depth = (ended[0] if goes_on else begun), 1
                if goes_on:
                    ended = None
            head = ""
        elif token in "};":
            head = ""
        else:
            if not head.strip() and token.strip():
                begun = line
                if ended and not token.strip().startswith(","):
                    yield ended
                    ended = None
            head += token
            continue
        if opened is None and ended:
            yield ended
            ended = None
    if ended:
        yield ended


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno


def is_table(lines, first):
    above = first - 2
    while above >= 0 and re.match(r"\s*(//|#)", lines[above]):
        if re.match(r"\s*(//|#) A table:", lines[above]):
            return True
        above -= 1
    head = " ".join(lines[first - 1:first + 2])
    return bool(re.match(r"\s*(static )?void \w+\(Registry& ", head))


def long_functions(path, text):
    lines = text.splitlines()
    found = python_functions if path.suffix == ".py" else cpp_functions
    for first, last in found(text):
        length = last - first + 1
        if length > MOST_LINES and not is_table(lines, first):
            yield f"{path}:{first}: a function of {length} lines; cut it, {MOST_LINES} are enough"


def first_line(path, text):
    lines = text.splitlines() or [""]
    at = 1 if lines[0].startswith("#!") and len(lines) > 1 else 0
    begins = ("// ", "/*") if path.suffix in CPP else ("# ", '"""', 'r"""')
    if text.strip() and not lines[at].startswith(begins):
        yield f"{path}:{at + 1}: the first line does not say what the file is for"


def ours():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            check=True, capture_output=True, text=True).stdout
    for name in listed.split("\0"):
        path = pathlib.Path(name)
        is_source = path.suffix in CPP | HASHES - {".txt"} or path.name == "CMakeLists.txt"
        if is_source and path.is_file():
            yield path


def main():
    wrong, count = [], 0
    for path in [pathlib.Path(name) for name in sys.argv[1:]] or ours():
        text = path.read_text()
        count += 1
        wrong += first_line(path, text)
        if path.suffix in CPP | {".py"}:
            wrong += long_functions(path, text)
    print("\n".join(wrong + [f"sources: {count} files, {len(wrong)} wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
