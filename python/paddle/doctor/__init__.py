"""The doctor: reads scripts and model files without running them, and says what of them works here.

    python -m paddle.doctor PATH... [--batch N] [--shape NAME=1,3,224,224]

A path is a script, a model file (__model__, *.pdmodel) or a folder with either. docs/doctor.md says more.
"""
from .findings import Finding
from .models import check_model
from .scripts import check_script

__all__ = ['Finding', 'check_model', 'check_script']
