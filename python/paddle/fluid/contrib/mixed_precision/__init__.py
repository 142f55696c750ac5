"""Mixed precision: ops that gain from half precision compute in it, the loss is scaled."""
import _trireme as _C
from _trireme import AutoMixedPrecisionLists

__all__ = ['decorate', 'AutoMixedPrecisionLists', 'CustomOpLists', 'fp16_guard',
           'cast_model_to_fp16', 'cast_parameters_to_fp16', 'rewrite_program']

CustomOpLists = AutoMixedPrecisionLists


class OptimizerWithMixedPrecision(_C.OptimizerWithMixedPrecision):
    """What decorate returns: minimize casts, scales the loss and updates float32 parameters."""

    def amp_init(self, place, scope=None, test_program=None, use_fp16_test=False):
        """Called after the startup program; parameters are float32 already, so only a program for
        tests is left to be cast."""
        if use_fp16_test and test_program is not None:
            rewrite_program(test_program, AutoMixedPrecisionLists())


def decorate(optimizer, amp_lists=None, init_loss_scaling=2**15, incr_every_n_steps=1000,
             decr_every_n_nan_or_inf=2, incr_ratio=2.0, decr_ratio=0.8,
             use_dynamic_loss_scaling=True, use_pure_fp16=False, use_fp16_guard=None,
             use_bf16=False):
    """An optimizer whose minimize trains in mixed precision."""
    if use_pure_fp16:
        raise NotImplementedError('decorate: use_pure_fp16 (float16 parameters) is not built yet in '
                                  'Trireme: leave it False, parameters are then float32')
    return OptimizerWithMixedPrecision(
        optimizer, amp_lists, init_loss_scaling, incr_every_n_steps, decr_every_n_nan_or_inf,
        incr_ratio, decr_ratio, use_dynamic_loss_scaling, 'bfloat16' if use_bf16 else 'float16')


def rewrite_program(main_prog, amp_lists, dtype='float16'):
    """Casts the inputs of white ops to half precision, and those of black ops back."""
    _C.rewrite_program(main_prog, amp_lists, dtype)


def fp16_guard():
    """Marks ops for use_pure_fp16; mixed precision goes by the lists of ops."""
    from ...framework import name_scope
    return name_scope('__use_fp16__')


def _pure(name):
    def refuse(*args, **kwargs):
        raise NotImplementedError(f'{name}: float16 parameters are not built yet in Trireme: use '
                                  'decorate, which keeps parameters in float32')
    refuse.__name__ = name
    refuse.__doc__ = f'{name}: not built yet.'
    return refuse


cast_model_to_fp16 = _pure('cast_model_to_fp16')
cast_parameters_to_fp16 = _pure('cast_parameters_to_fp16')
