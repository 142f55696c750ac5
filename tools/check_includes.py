#!/usr/bin/env python3
"""Checks that includes between rooms point one way, and says which line does not.

    tools/check_includes.py [repository]
"""

import pathlib
import re
import sys

# A room may include itself and the rooms listed here. Nobody includes python. A folder that is listed
# beside its room is a room of its own: a device's kernels stand above the rows that they are for, and
# nobody includes them; they join the op table through a list (add_cpu_kernels, in ir/schema.h).
KNOWS = {
    "core": "",
    "ir": "core",
    "cpu": "core ir",  # ir: the tile programs that it interprets
    "comm": "core cpu",  # cpu: how vectors are added up
    "layers": "core ir",
    "transpiler": "core ir",
    "ops": "core ir cpu comm",
    "cpu/kernels": "core ir cpu comm ops",
    "compile": "core ir cpu comm ops",
    "runtime": "core ir cpu ops compile comm",
    "io": "core ir cpu ops compile comm runtime transpiler",
    "ps": "core ir cpu ops compile comm runtime transpiler",
    "python": "core ir cpu ops compile comm runtime transpiler io ps layers",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def room_of(path):
    """The room of a path inside the repository: the longest that is listed."""
    folders = path.split("/")[:-1]
    names = ("/".join(folders[:n]) for n in range(len(folders), 0, -1))
    return next((name for name in names if name in KNOWS), folders[0])


def sources(root, room):
    """The files of a room, without those of rooms inside it."""
    for path in sorted((root / room).rglob("*")):
        if path.suffix in {".h", ".cc", ".cu", ".cuh"}:
            if room_of(path.relative_to(root).as_posix()) == room:
                yield path


def wrong_includes(root):
    for room, known in KNOWS.items():
        allowed = {room, *known.split()}
        for path in sources(root, room):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                name = match.group(1)
                where = f"{path.relative_to(root)}:{number}"
                if "/" not in name:
                    yield f'{where}: "{name}" does not say its room; write "{room}/{name}"'
                elif room_of(name) not in allowed:
                    others = ", ".join(sorted(allowed - {room})) or "no other room"
                    yield f'{where}: {room} includes "{name}" but may only know {others}'


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    if root.is_file():
        root = root.parent.parent
    wrong = list(wrong_includes(root))
    print("\n".join(wrong + [f"includes: {len(wrong)} wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
