"""Evaluators inside programs: superseded by fluid.metrics, not built."""
from .compiler import not_built

__all__ = ['ChunkEvaluator', 'EditDistance', 'DetectionMAP']

ChunkEvaluator = not_built('evaluator.ChunkEvaluator', 'use fluid.metrics.ChunkEvaluator')
EditDistance = not_built('evaluator.EditDistance', 'use fluid.metrics.EditDistance')
DetectionMAP = not_built('evaluator.DetectionMAP', 'use fluid.metrics.DetectionMAP')
