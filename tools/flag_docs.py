"""Prints docs/flags.md: every FLAGS_ name, whether it is honoured, and how or why not.

    .venv/bin/python tools/flag_docs.py > docs/flags.md
"""
import _trireme as _C

MEANING = {'honoured': 'The engine does what they ask.',
           'not needed': 'They may be set, and nothing changes: the engine does without, or has no such part.',
           'refused': 'Only the default may be set; anything else is an error that says this.'}


def page():
    text = ('# Flags\n\nSet by `fluid.set_flags({...})` or by environment variables of these names before the '
            'import. Written by\n`make docs`.\n')
    flags = _C.list_flags()
    for use, meaning in MEANING.items():
        text += f'\n## {use.capitalize()}\n\n{meaning}\n\n| flag | default | |\n|---|---|---|\n'
        for flag in flags:
            if flag['use'] == use:
                text += f"| `{flag['name']}` | `{flag['default']!r}` | {flag['why']} |\n"
    return text


if __name__ == '__main__':
    print(page(), end='')
