"""The certificate: one step of a program run in every way there is, and held against one another (docs/view.md).

    python -m paddle.certify SCRIPT_OR_MODEL [--feed data.npz] [--record record.npz]
"""
from .comparisons import certify

__all__ = ['certify']
