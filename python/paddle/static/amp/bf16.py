"""Mixed precision in bfloat16, whose range is float32's: the loss needs no scaling."""
from ...fluid.contrib.mixed_precision import AutoMixedPrecisionLists, decorate
from ...fluid.contrib.mixed_precision import rewrite_program as _rewrite_program

__all__ = ['AutoMixedPrecisionListsBF16', 'decorate_bf16', 'rewrite_program_bf16']


def AutoMixedPrecisionListsBF16(custom_bf16_list=None, custom_fp32_list=None,
                                custom_fp32_varnames=None):
    return AutoMixedPrecisionLists(custom_bf16_list, custom_fp32_list, custom_fp32_varnames)


def decorate_bf16(optimizer, amp_lists=None, use_pure_bf16=False, use_bf16_guard=None):
    """An optimizer whose minimize trains in bfloat16 and float32."""
    if use_pure_bf16:
        raise NotImplementedError('decorate_bf16: use_pure_bf16 (bfloat16 parameters) is not built '
                                  'yet in Trireme: leave it False, parameters are then float32')
    return decorate(optimizer, amp_lists, init_loss_scaling=1.0, use_dynamic_loss_scaling=False,
                    use_bf16=True)


def rewrite_program_bf16(main_prog, amp_lists=None):
    _rewrite_program(main_prog, amp_lists or AutoMixedPrecisionLists(), 'bfloat16')
