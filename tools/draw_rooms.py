#!/usr/bin/env python3
"""Draws the rooms and who includes whom, from the sources, as an SVG picture on standard output.

    tools/draw_rooms.py > docs/rooms.svg

A room stands above every room that it includes. A line is left out where a longer way says the same.
"""

import pathlib

from check_includes import INCLUDE, KNOWS, room_of, sources

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 112, 34, 28, 46, 16


def included_rooms(root):
    """{room: rooms that one of its files includes}, of rooms that have files."""
    found = {}
    for room in KNOWS:
        for path in sources(root, room):
            names = (match.group(1) for match in map(INCLUDE.match, path.read_text().splitlines())
                     if match)
            found.setdefault(room, set()).update(room_of(name) for name in names if "/" in name)
    return {room: {other for other in others if other in found and other != room}
            for room, others in found.items()}


def below(included, room):
    """Every room that can be reached from this one."""
    reached, waiting = set(), list(included[room])
    while waiting:
        other = waiting.pop()
        if other not in reached:
            reached.add(other)
            waiting += included[other]
    return reached


def without_shortcuts(included):
    return {room: {other for other in others
                   if not any(other in below(included, step) for step in others - {other})}
            for room, others in included.items()}


def floor_of(included, room):
    return 1 + max((floor_of(included, other) for other in included[room]), default=-1)


def layout(included):
    """{room: (x, y)} of each box's upper left corner; floors from the top down, centred."""
    floors = {}
    for room in included:
        floors.setdefault(floor_of(included, room), []).append(room)
    widest = max(len(rooms) for rooms in floors.values())
    at = {}
    for floor, rooms in floors.items():
        shift = (widest - len(rooms)) * (WIDTH + GAP_X) / 2
        for i, room in enumerate(sorted(rooms)):
            at[room] = (MARGIN + shift + i * (WIDTH + GAP_X),
                        MARGIN + (max(floors) - floor) * (HEIGHT + GAP_Y))
    size = (2 * MARGIN + widest * (WIDTH + GAP_X) - GAP_X,
            2 * MARGIN + len(floors) * (HEIGHT + GAP_Y) - GAP_Y)
    return at, size


def picture(root):
    included = without_shortcuts(included_rooms(root))
    at, (wide, high) = layout(included)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{high:g}" '
             'font-family="sans-serif" font-size="14">',
             '<rect width="100%" height="100%" fill="white"/>']
    for room in sorted(included):
        x, y = at[room]
        for other in sorted(included[room]):
            to_x, to_y = at[other]
            lines.append(f'<line x1="{x + WIDTH / 2:g}" y1="{y + HEIGHT:g}" '
                         f'x2="{to_x + WIDTH / 2:g}" y2="{to_y:g}" stroke="gray"/>')
    for room in sorted(included):
        x, y = at[room]
        lines.append(f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="4" '
                     'fill="aliceblue" stroke="steelblue"/>')
        lines.append(f'<text x="{x + WIDTH / 2:g}" y="{y + HEIGHT / 2 + 5:g}" '
                     f'text-anchor="middle">{room}</text>')
    return "\n".join(lines + ["</svg>", ""])


def main():
    print(picture(pathlib.Path(__file__).resolve().parent.parent), end="")


if __name__ == "__main__":
    main()
