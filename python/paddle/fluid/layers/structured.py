"""Sequence losses and measures, beam search, and Python functions as ops."""
import inspect

import _trireme as _C

__all__ = ['warpctc', 'edit_distance', 'ctc_greedy_decoder', 'chunk_eval', 'beam_search',
           'beam_search_decode', 'py_func']


def _as_int32(x):
    return x if x.dtype == _C.to_dtype('int32') else _C.cast(x, 'int32')


def warpctc(input, label, blank=0, norm_by_times=False, input_length=None, label_length=None):
    """The CTC loss of unscaled scores: sequences, or padded [time, batch, classes] with lengths."""
    outs = _C.apply('warpctc', {'Logits': input, 'Label': _as_int32(label),
                                'LogitsLength': input_length, 'LabelLength': label_length},
                    {'blank': blank, 'norm_by_times': norm_by_times})
    return outs['Loss'][0]


def edit_distance(input, label, normalized=True, ignored_tokens=None, input_length=None,
                  label_length=None):
    """How far each sequence is from its label: (distances, number of sequences)."""
    if ignored_tokens:
        input, label = (_C.apply('sequence_erase', {'X': x}, {'tokens': list(ignored_tokens)},
                                 layer='edit_distance')['Out'][0] for x in (input, label))
    outs = _C.apply('edit_distance', {'Hyps': input, 'Refs': label, 'HypsLength': input_length,
                                      'RefsLength': label_length}, {'normalized': normalized},
                    stop_gradient=True)
    return outs['Out'][0], outs['SequenceNum'][0]


def ctc_greedy_decoder(input, blank, input_length=None, padding_value=0, name=None):
    """The likeliest class of every step, repeats merged and blanks taken out; with input_length
    (labels, their lengths)."""
    _, indices = _C.topk(input, 1)
    if input_length is None:
        return _C.apply('ctc_align', {'Input': indices},
                        {'blank': blank, 'merge_repeated': True}, name, 'ctc_greedy_decoder',
                        stop_gradient=True)['Output'][0]
    indices = _C.squeeze(indices, [2])
    outs = _C.apply('ctc_align', {'Input': indices, 'InputLength': input_length},
                    {'blank': blank, 'merge_repeated': True, 'padding_value': padding_value}, name,
                    'ctc_greedy_decoder', out_counts={'OutputLength': 1}, stop_gradient=True)
    return outs['Output'][0], outs['OutputLength'][0]


def chunk_eval(input, label, chunk_scheme, num_chunk_types, excluded_chunk_types=None,
               seq_length=None):
    """(precision, recall, F1, chunks inferred, chunks labelled, chunks correct)."""
    outs = _C.apply('chunk_eval', {'Inference': input, 'Label': label, 'SeqLength': seq_length},
                    {'num_chunk_types': num_chunk_types, 'chunk_scheme': chunk_scheme,
                     'excluded_chunk_types': list(excluded_chunk_types or [])}, stop_gradient=True)
    return tuple(outs[slot][0] for slot in ('Precision', 'Recall', 'F1-Score', 'NumInferChunks',
                                            'NumLabelChunks', 'NumCorrectChunks'))


def beam_search(pre_ids, pre_scores, ids, scores, beam_size, end_id, level=0, is_accumulated=True,
                name=None, return_parent_idx=False):
    """One step: (selected_ids, selected_scores), with return_parent_idx also where they came from."""
    outs = _C.apply('beam_search', {'pre_ids': pre_ids, 'pre_scores': pre_scores, 'ids': ids,
                                    'scores': scores},
                    {'level': level, 'beam_size': beam_size, 'end_id': end_id,
                     'is_accumulated': is_accumulated}, name, out_counts={'parent_idx': 1})
    selected = outs['selected_ids'][0], outs['selected_scores'][0]
    return selected + (outs['parent_idx'][0],) if return_parent_idx else selected


def beam_search_decode(ids, scores, beam_size, end_id, name=None):
    """(sentence_ids, sentence_scores) of the arrays that beam_search's steps wrote."""
    outs = _C.apply('beam_search_decode', {'Ids': ids, 'Scores': scores},
                    {'beam_size': beam_size, 'end_id': end_id}, name)
    return outs['SentenceIds'][0], outs['SentenceScores'][0]


def _variables(value, argument):
    if value is None:
        return []
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(item, _C.Variable) for item in items):
        raise TypeError(f'{argument} of py_func should be Variable/list(Variable)/tuple(Variable)')
    return items


def _takes_arguments(function):
    try:
        return bool(inspect.signature(function).parameters)
    except ValueError:  # builtins that do not say
        return True


def _register(function):
    takes = _takes_arguments(function)

    def call(inputs, count):
        results = function(*inputs) if takes else function()
        if not isinstance(results, (list, tuple)):
            results = [results]
        if len(results) != count:
            name = getattr(function, '__name__', repr(function))
            raise ValueError(f'py_func: {name} returned {len(results)} values for {count} outputs')
        return list(results)
    return _C.register_py_func(call)


def py_func(func, x, out, backward_func=None, skip_vars_in_backward_input=None):
    """Runs a Python function as an op.

    func gets the values of x as LoDTensors, and returns a LoDTensor or an array for each variable of
    out, which has its shape and type already. backward_func gets x, out and the gradients of out
    (None for one that does not exist), and returns the gradients of x; without it no gradient flows.
    What either raises comes out of Executor.run.
    """
    for function, argument in ((func, 'func'), (backward_func, 'backward_func')):
        if not callable(function) and (argument == 'func' or function is not None):
            raise TypeError(f'{argument} of py_func must be a function')
    inputs, outputs = _variables(x, 'Input'), _variables(out, 'Output')
    names = {var.name for var in inputs + outputs}
    skipped = []
    for var in skip_vars_in_backward_input and _as_list(skip_vars_in_backward_input) or []:
        name = var if isinstance(var, str) else var.name
        if name not in names:
            raise ValueError(f'Variable {name} is not found in forward inputs and outputs')
        skipped.append(name)
    backward = -1 if backward_func is None else _register(backward_func)
    block = _C.default_main_program().current_block()
    if not outputs:  # an op has an output: this one stays empty
        outputs = [block.create_var(name=_C.generate_name('py_func.nothing'), shape=[1],
                                    dtype='float32', stop_gradient=True)]
    block.append_op(
        type='py_func', inputs={'X': inputs}, outputs={'Out': outputs},
        attrs={'forward_callable_id': _register(func), 'backward_callable_id': backward,
               'backward_skip_vars': skipped})
    return out


def _as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]
