"""Layers of no one kind: Linear, Embedding, dropouts, pads, resizing."""
from .. import functional as F
from .layers import Layer

__all__ = ['Identity', 'Linear', 'Embedding', 'Flatten', 'Unflatten', 'Dropout', 'Dropout2D', 'Dropout3D', 'AlphaDropout',
           'Upsample', 'UpsamplingNearest2D', 'UpsamplingBilinear2D', 'Bilinear', 'Pad1D', 'Pad2D', 'Pad3D', 'ZeroPad2D',
           'CosineSimilarity', 'PairwiseDistance', 'Unfold', 'Fold']


class Identity(Layer):
    """Gives what it is given."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input


class Linear(Layer):
    """x times weight [in, out], plus bias."""

    def __init__(self, in_features, out_features, weight_attr=None, bias_attr=None, name=None):
        super().__init__()
        self.weight = self.create_parameter([in_features, out_features], weight_attr)
        self.bias = self.create_parameter([out_features], bias_attr, is_bias=True)
        self.name = name

    def forward(self, input):
        return F.linear(input, self.weight, self.bias, self.name)

    def extra_repr(self):
        return f'in_features={self.weight.shape[0]}, out_features={self.weight.shape[1]}, dtype={self._dtype}'


class Embedding(Layer):
    """Rows of a table."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, sparse=False, weight_attr=None, name=None):
        super().__init__()
        if num_embeddings <= 0 or embedding_dim <= 0:
            raise ValueError(f'Embedding: a table of {num_embeddings} x {embedding_dim} has no elements')
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f'Embedding: padding_idx is {padding_idx}, and there are {num_embeddings} rows')
        self._padding_idx, self._sparse, self._name = padding_idx, sparse, name
        self.weight = self.create_parameter([num_embeddings, embedding_dim], weight_attr)

    def forward(self, x):
        return F.embedding(x, self.weight, self._padding_idx, self._sparse, self._name)

    def extra_repr(self):
        return ', '.join(map(str, self.weight.shape))


class Flatten(Layer):
    """Several dimensions as one."""

    def __init__(self, start_axis=1, stop_axis=-1):
        super().__init__()
        self.start_axis, self.stop_axis = start_axis, stop_axis

    def forward(self, input):
        from ...tensor import flatten
        return flatten(input, self.start_axis, self.stop_axis)


class Unflatten(Layer):
    """One dimension as several."""

    def __init__(self, axis, shape, name=None):
        super().__init__()
        self.axis, self.shape = axis, shape

    def forward(self, input):
        from ...tensor import unflatten
        return unflatten(input, self.axis, self.shape)


class Dropout(Layer):
    """Elements set to 0 in training."""

    def __init__(self, p=0.5, axis=None, mode='upscale_in_train', name=None):
        super().__init__()
        self.p, self.axis, self.mode, self.name = p, axis, mode, name

    def forward(self, input):
        return F.dropout(input, self.p, self.axis, self.training, self.mode, self.name)

    def extra_repr(self):
        return f'p={self.p}, axis={self.axis}, mode={self.mode}'


class _DropoutMaps(Layer):
    _function, _format = None, None

    def __init__(self, p=0.5, data_format=None, name=None):
        super().__init__()
        self.p, self.data_format, self.name = p, data_format or self._format, name

    def forward(self, input):
        return type(self)._function(input, self.p, self.training, self.data_format, self.name)


class Dropout2D(_DropoutMaps):
    """Whole channels of images set to 0 in training."""

    _function, _format = F.dropout2d, 'NCHW'


class Dropout3D(_DropoutMaps):
    """Whole channels of volumes set to 0 in training."""

    _function, _format = F.dropout3d, 'NCDHW'


class AlphaDropout(Layer):
    """Dropout for selu, in training."""

    def __init__(self, p=0.5, name=None):
        super().__init__()
        self.p, self.name = p, name

    def forward(self, input):
        return F.alpha_dropout(input, self.p, self.training, self.name)


class Upsample(Layer):
    """Images of another size."""

    def __init__(self, size=None, scale_factor=None, mode='nearest', align_corners=False, align_mode=0,
                 data_format='NCHW', name=None):
        super().__init__()
        self._how = (size, scale_factor, mode, align_corners, align_mode, data_format, name)

    def forward(self, x):
        return F.interpolate(x, *self._how)


class UpsamplingNearest2D(Upsample):
    """Images of another size, each pixel the nearest one."""

    def __init__(self, size=None, scale_factor=None, data_format='NCHW', name=None):
        super().__init__(size, scale_factor, 'nearest', False, 0, data_format, name)


class UpsamplingBilinear2D(Upsample):
    """Images of another size, each pixel a mean of the four around it."""

    def __init__(self, size=None, scale_factor=None, data_format='NCHW', name=None):
        super().__init__(size, scale_factor, 'bilinear', True, 0, data_format, name)


class Bilinear(Layer):
    """x1 * weight[i] * x2 for every i, plus bias."""

    def __init__(self, in1_features, in2_features, out_features, weight_attr=None, bias_attr=None, name=None):
        super().__init__()
        self.weight = self.create_parameter([out_features, in1_features, in2_features], weight_attr)
        self.bias = self.create_parameter([1, out_features], bias_attr, is_bias=True)
        self._name = name

    def forward(self, x1, x2):
        return F.bilinear(x1, x2, self.weight, self.bias, self._name)


class _Pad(Layer):
    _format, _dims = None, None

    def __init__(self, padding, mode='constant', value=0.0, data_format=None, name=None):
        super().__init__()
        self._pad = [padding] * (2 * self._dims) if isinstance(padding, int) else padding
        self._how = (mode, value, data_format or self._format, name)

    def forward(self, x):
        return F.pad(x, self._pad, *self._how)


class Pad1D(_Pad):
    """Lines with a border."""

    _format, _dims = 'NCL', 1


class Pad2D(_Pad):
    """Images with a border."""

    _format, _dims = 'NCHW', 2


class Pad3D(_Pad):
    """Volumes with a border."""

    _format, _dims = 'NCDHW', 3


class ZeroPad2D(_Pad):
    """Images with a border of zeros."""

    _format, _dims = 'NCHW', 2

    def __init__(self, padding, data_format='NCHW', name=None):
        super().__init__(padding, 'constant', 0.0, data_format, name)


class CosineSimilarity(Layer):
    """The cosine of the angle between two variables along axis."""

    def __init__(self, axis=1, eps=1e-8):
        super().__init__()
        self._axis, self._eps = axis, eps

    def forward(self, x1, x2):
        return F.cosine_similarity(x1, x2, self._axis, self._eps)


class PairwiseDistance(Layer):
    """The p-norm of x - y + epsilon along the last dimension."""

    def __init__(self, p=2.0, epsilon=1e-6, keepdim=False, name=None):
        super().__init__()
        self._how = (p, epsilon, keepdim, name)

    def forward(self, x, y):
        return F.pairwise_distance(x, y, *self._how)


class Unfold(Layer):
    """Every window of an image as one column."""

    def __init__(self, kernel_sizes, dilations=1, paddings=0, strides=1, name=None):
        super().__init__()
        self._how = (kernel_sizes, strides, paddings, dilations, name)

    def forward(self, input):
        return F.unfold(input, *self._how)


class Fold(Layer):
    """The reverse of Unfold."""

    def __init__(self, output_sizes, kernel_sizes, dilations=1, paddings=0, strides=1, name=None):
        super().__init__()
        self._how = (output_sizes, kernel_sizes, strides, paddings, dilations, name)

    def forward(self, input):
        return F.fold(input, *self._how)
