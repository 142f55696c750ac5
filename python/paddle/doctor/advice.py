"""What the doctor knows beside the code itself: ways out for names, and calls that are accepted and differ."""
import ast

from ..fluid import core
from .findings import Finding

# The beginning of a name -> what to do instead. The longest one that fits counts.
_WAYS_OUT = {
    'paddle.fluid.dygraph': 'build a Program with fluid.layers and run it with an Executor',
    'paddle.disable_static': 'leave it out, and build a Program under paddle.static.program_guard',
    'paddle.jit': 'the static program is what jit would make: save it with paddle.static.save_inference_model',
    'paddle.grad': 'paddle.static.gradients',
    'paddle.Model': 'a loop over Executor.run',
    'paddle.fluid.recordio_writer': 'keep the samples in text or pickle files (paddle.dataset.common.split) and read '
                                    'them by a DataLoader',
    'paddle.dataset.common.convert': 'paddle.dataset.common.split and cluster_files_reader',
    'paddle.fluid.layers.open_files': 'fluid.io.DataLoader.from_generator over a reader of the files',
    'paddle.fluid.layers.open_recordio_file': 'fluid.io.DataLoader.from_generator over a reader of the file',
    'paddle.fluid.layers.batch': 'paddle.batch around the reader',
    'paddle.fluid.layers.shuffle': 'paddle.reader.shuffle around the reader',
    'paddle.fluid.contrib.trainer': 'a loop over Executor.run',
    'paddle.fluid.contrib.inferencer': 'fluid.io.load_inference_model and Executor.run',
    'paddle.fluid.load_op_library': 'add a row to the op table (CONTRIBUTING.md)',
}


def for_name(name):
    """What to use instead of a name; '' where nothing is known."""
    fitting = [start for start in _WAYS_OUT if name == start or name.startswith(start + '.')]
    return _WAYS_OUT[max(fitting, key=len)] if fitting else ''


def _value(node, name):
    """A constant that is given by name; None where there is none."""
    for keyword in node.keywords:
        if keyword.arg == name and isinstance(keyword.value, ast.Constant):
            return keyword.value.value
    return None


def of_call(full, thing, node):
    """Findings about a call that is there, by what it is given."""
    short = full.rpartition('.')[2]
    found = []
    if thing is core.CUDAPlace and not core.is_compiled_with_cuda():
        found.append(Finding(node.lineno, 'refused', full, 'a program on a CUDAPlace is refused: no GPU can be used on this machine',
                             'fluid.CPUPlace()'))
    if short in ('ParallelExecutor',) and _value(node, 'use_cuda') is True and not core.is_compiled_with_cuda():
        found.append(Finding(node.lineno, 'refused', full, 'use_cuda=True is refused: no GPU can be used on this machine',
                             'use_cuda=False'))
    if short == 'decorate' and _value(node, 'use_pure_fp16') is True:
        found.append(Finding(node.lineno, 'refused', full, 'use_pure_fp16=True is refused: parameters are float32',
                             'leave it False'))
    if short == 'gather' and full.startswith('paddle.fluid') and _value(node, 'overwrite') is not False:
        found.append(Finding(node.lineno, 'differs', full, 'gather adds the gradients of a row that is taken twice, '
                             'the original keeps one of them', 'docs/departures.md says why'))
    if short == 'PipelineOptimizer':
        found.append(Finding(node.lineno, 'differs', full, 'its sections run one after another: training is that of the '
                             'program without it', 'docs/departures.md says why'))
    return found
