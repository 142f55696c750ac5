"""Trainer under the name that it had before it was fluid.contrib.trainer."""
from .contrib.trainer import (BeginEpochEvent, BeginStepEvent, CheckpointConfig, EndEpochEvent, EndStepEvent,
                              Trainer)

__all__ = ['BeginEpochEvent', 'BeginStepEvent', 'CheckpointConfig', 'EndEpochEvent', 'EndStepEvent', 'Trainer']
