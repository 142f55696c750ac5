"""Distillation of fluid.contrib.slim, which is not built."""
from ....compiler import not_built

__all__ = ['DistillationStrategy', 'FSPDistiller', 'L2Distiller', 'SoftLabelDistiller']

_INSTEAD = 'build teacher and student in one Program, with stop_gradient on the teacher, and add the distance to the loss'
DistillationStrategy = not_built('slim.distillation.DistillationStrategy', _INSTEAD)
FSPDistiller = not_built('slim.distillation.FSPDistiller', _INSTEAD)
L2Distiller = not_built('slim.distillation.L2Distiller', _INSTEAD)
SoftLabelDistiller = not_built('slim.distillation.SoftLabelDistiller', _INSTEAD)
