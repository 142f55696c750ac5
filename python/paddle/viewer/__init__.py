"""Pages to look at: what the engine made of a program, in one file that can be mailed (docs/view.md).

    python -m paddle.view SCRIPT_OR_MODEL [-o page.html]
"""
from .pages import write_page, write_trace
from .pictures import draw_loss, draw_timeline
from .reports import report
from .watch import Watch

__all__ = ['write_page', 'write_trace', 'report', 'draw_loss', 'draw_timeline', 'Watch']
