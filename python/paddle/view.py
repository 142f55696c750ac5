"""python -m paddle.view SCRIPT_OR_MODEL [-o page.html]: see docs/view.md.

The code is in paddle.viewer: paddle.view itself is a function of 2.6, and importing a module of that name would hide it.
"""
import sys

if __name__ == '__main__':
    from paddle.viewer.__main__ import main
    sys.exit(main())
