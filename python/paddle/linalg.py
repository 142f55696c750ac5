"""paddle.linalg: what sums and products give; decompositions are not built."""
from ._style import not_here as _not_here
from .tensor.linalg import corrcoef, cov, matrix_power, multi_dot, norm

__all__ = ['norm', 'multi_dot', 'matrix_power', 'cov', 'corrcoef']

for _name in ('cholesky', 'cholesky_solve', 'cond', 'det', 'eig', 'eigh', 'eigvals', 'eigvalsh',
              'householder_product', 'inv', 'lstsq', 'lu', 'lu_unpack', 'matrix_rank', 'pca_lowrank', 'pinv', 'qr',
              'slogdet', 'solve', 'svd', 'triangular_solve'):
    globals()[_name] = _not_here(f'linalg.{_name}', 'compute it with numpy and feed the result, or use '
                                                    'paddle.static.py_func')
