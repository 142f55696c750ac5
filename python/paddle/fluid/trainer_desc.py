"""What tells 1.8.5's own trainers how to run a data set: not built, since Executor.train_from_dataset needs none."""
from .compiler import not_built

__all__ = ['TrainerDesc', 'MultiTrainer', 'DistMultiTrainer', 'PipelineTrainer']

_INSTEAD = ('Executor.train_from_dataset(program, dataset, thread=, fetch_list=, print_period=) runs a data set and takes its '
            'settings as arguments')
TrainerDesc = not_built('fluid.TrainerDesc', _INSTEAD)
MultiTrainer = not_built('fluid.MultiTrainer', _INSTEAD)
DistMultiTrainer = not_built('fluid.DistMultiTrainer', _INSTEAD)
PipelineTrainer = not_built('fluid.PipelineTrainer', _INSTEAD)
