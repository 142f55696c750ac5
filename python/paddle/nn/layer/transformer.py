"""Attention and the layers of transformers."""
import collections

import _trireme as _C

from ..._style import one, static_style
from .. import functional as F
from .common import Dropout, Linear
from .container import LayerList
from .layers import Layer, _named
from .norm import LayerNorm

__all__ = ['MultiHeadAttention', 'TransformerEncoderLayer', 'TransformerEncoder', 'TransformerDecoderLayer',
           'TransformerDecoder', 'Transformer']


def _convert_attention_mask(attn_mask, dtype):
    """What is added to scores: -1e9 where a mask of truth values or whole numbers is 0."""
    if attn_mask is None or attn_mask.dtype == dtype:
        return attn_mask
    return _C.scale(_C.cast(attn_mask, dtype), 1e9, -1e9)


def _attrs(attr, count):
    """One attribute for each of several parts; a name given once is given to the first part only."""
    if isinstance(attr, (list, tuple)):
        if len(attr) < count:
            raise ValueError(f'{len(attr)} attributes for {count} parts of a transformer layer')
        return list(attr)
    if getattr(attr, 'name', None):
        return [attr] + [_named(attr, None) for _ in range(count - 1)]
    return [attr] * count


class MultiHeadAttention(Layer):
    """softmax(query * key) * value in num_heads pieces of the width, between projections."""

    Cache = collections.namedtuple('Cache', ['k', 'v'])
    StaticCache = collections.namedtuple('StaticCache', ['k', 'v'])

    def __init__(self, embed_dim, num_heads, dropout=0.0, kdim=None, vdim=None, need_weights=False, weight_attr=None,
                 bias_attr=None):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f'MultiHeadAttention: a width of {embed_dim} cannot be cut into {num_heads} heads')
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.dropout, self.need_weights = dropout, need_weights
        self.q_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)
        self.k_proj = Linear(self.kdim, embed_dim, weight_attr, bias_attr)
        self.v_proj = Linear(self.vdim, embed_dim, weight_attr, bias_attr)
        self.out_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)

    def _heads(self, x):
        """[batch, heads, length, head_dim]"""
        return _C.transpose(_C.reshape(x, [0, 0, self.num_heads, self.head_dim]), [0, 2, 1, 3])

    def compute_kv(self, key, value):
        return self._heads(self.k_proj(key)), self._heads(self.v_proj(value))

    def _prepare_qkv(self, query, key, value, cache=None):
        q = self._heads(self.q_proj(query))
        if isinstance(cache, self.StaticCache):
            k, v = cache.k, cache.v
        else:
            k, v = self.compute_kv(key, value)
        if isinstance(cache, self.Cache):
            k, v = _C.concat([cache.k, k], 2), _C.concat([cache.v, v], 2)
            cache = self.Cache(k, v)
        return (q, k, v) if cache is None else (q, k, v, cache)

    @static_style
    def gen_cache(self, key, value=None, type=Cache):
        """What keys and values begin with: those of a memory (StaticCache), or none yet."""
        if type == MultiHeadAttention.StaticCache:
            return self.StaticCache(*self.compute_kv(key, key if value is None else value))
        if value is not None:
            return self.Cache(key, value)
        empty = [_C.fill_constant_batch_size_like(key, [-1, self.num_heads, 0, self.head_dim], self._dtype, 0.0)
                 for _ in (0, 1)]
        return self.Cache(*empty)

    @static_style
    def forward(self, query, key=None, value=None, attn_mask=None, cache=None):
        key = query if key is None else key
        value = query if value is None else value
        q, k, v, *kept = self._prepare_qkv(query, key, value, cache)
        scores = one('matmul_v2', {'X': _C.scale(q, self.head_dim ** -0.5), 'Y': k}, {'trans_y': True})
        if attn_mask is not None:
            scores = _C.elementwise('elementwise_add', scores, _convert_attention_mask(attn_mask, scores.dtype), -1,
                                    None, None)
        weights = _C.softmax(scores)
        if self.dropout:
            weights = F.dropout(weights, self.dropout, training=self.training)
        out = _C.transpose(one('matmul_v2', {'X': weights, 'Y': v}), [0, 2, 1, 3])
        out = self.out_proj(_C.reshape(out, [0, 0, self.embed_dim]))
        outs = [out] + ([weights] if self.need_weights else []) + kept
        return out if len(outs) == 1 else tuple(outs)


class _Block(Layer):
    """What encoder and decoder layers share: attention, norms before or behind, two linear layers."""

    def _set(self, dropout, attn_dropout, act_dropout, normalize_before, activation, settings):
        self._config = settings
        self._attn_dropout = dropout if attn_dropout is None else attn_dropout
        self._act_dropout = dropout if act_dropout is None else act_dropout
        self.normalize_before = normalize_before
        self.activation = getattr(F, activation)

    def _around(self, x, norm, dropout, part):
        """x plus what the part makes of it; the norm stands before the part, or behind the sum."""
        made = part(norm(x) if self.normalize_before else x)
        made, rest = (made[0], made[1:]) if isinstance(made, tuple) else (made, ())
        out = _C.elementwise('elementwise_add', x, dropout(made), -1, None, None)
        return (out if self.normalize_before else norm(out)), rest

    def _fed_forward(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Block):
    """Attention of a sequence to itself, then two linear layers."""

    def __init__(self, d_model, nhead, dim_feedforward, dropout=0.1, activation='relu', attn_dropout=None,
                 act_dropout=None, normalize_before=False, weight_attr=None, bias_attr=None):
        settings = {key: value for key, value in locals().items() if key not in ('self', '__class__')}
        super().__init__()
        self._set(dropout, attn_dropout, act_dropout, normalize_before, activation, settings)
        weights, biases = _attrs(weight_attr, 2), _attrs(bias_attr, 2)
        self.self_attn = MultiHeadAttention(d_model, nhead, self._attn_dropout, weight_attr=weights[0],
                                            bias_attr=biases[0])
        self.linear1 = Linear(d_model, dim_feedforward, weights[1], biases[1])
        self.dropout = Dropout(self._act_dropout)
        self.linear2 = Linear(dim_feedforward, d_model, weights[1], biases[1])
        self.norm1, self.norm2 = LayerNorm(d_model), LayerNorm(d_model)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)

    @static_style
    def forward(self, src, src_mask=None, cache=None):
        src, kept = self._around(src, self.norm1, self.dropout1,
                                 lambda x: self.self_attn(x, x, x, src_mask, cache))
        src, _ = self._around(src, self.norm2, self.dropout2, self._fed_forward)
        return src if cache is None else (src, kept[-1])

    def gen_cache(self, src):
        return self.self_attn.gen_cache(src, type=MultiHeadAttention.Cache)


def _copies(layer, count):
    """The layer itself, and more made like it."""
    return LayerList([layer if i == 0 else type(layer)(**layer._config) for i in range(count)])


class TransformerEncoder(Layer):
    """Encoder layers, one after the other."""

    def __init__(self, encoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers, self.num_layers, self.norm = _copies(encoder_layer, num_layers), num_layers, norm

    @static_style
    def forward(self, src, src_mask=None, cache=None):
        src_mask = _convert_attention_mask(src_mask, src.dtype)
        kept = []
        for i, layer in enumerate(self.layers):
            if cache is None:
                src = layer(src, src_mask)
            else:
                src, new = layer(src, src_mask, cache[i])
                kept.append(new)
        src = src if self.norm is None else self.norm(src)
        return src if cache is None else (src, kept)

    def gen_cache(self, src):
        return [layer.gen_cache(src) for layer in self.layers]


class TransformerDecoderLayer(_Block):
    """Attention of a sequence to itself, then to a memory, then two linear layers."""

    def __init__(self, d_model, nhead, dim_feedforward, dropout=0.1, activation='relu', attn_dropout=None,
                 act_dropout=None, normalize_before=False, weight_attr=None, bias_attr=None):
        settings = {key: value for key, value in locals().items() if key not in ('self', '__class__')}
        super().__init__()
        self._set(dropout, attn_dropout, act_dropout, normalize_before, activation, settings)
        weights, biases = _attrs(weight_attr, 3), _attrs(bias_attr, 3)
        self.self_attn = MultiHeadAttention(d_model, nhead, self._attn_dropout, weight_attr=weights[0],
                                            bias_attr=biases[0])
        self.cross_attn = MultiHeadAttention(d_model, nhead, self._attn_dropout, weight_attr=weights[1],
                                             bias_attr=biases[1])
        self.linear1 = Linear(d_model, dim_feedforward, weights[2], biases[2])
        self.dropout = Dropout(self._act_dropout)
        self.linear2 = Linear(dim_feedforward, d_model, weights[2], biases[2])
        self.norm1, self.norm2, self.norm3 = LayerNorm(d_model), LayerNorm(d_model), LayerNorm(d_model)
        self.dropout1, self.dropout2, self.dropout3 = Dropout(dropout), Dropout(dropout), Dropout(dropout)

    @static_style
    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, cache=None):
        own, fixed = cache if cache is not None else (None, None)
        tgt, kept = self._around(tgt, self.norm1, self.dropout1, lambda x: self.self_attn(x, x, x, tgt_mask, own))
        tgt, _ = self._around(tgt, self.norm2, self.dropout2,
                              lambda x: self.cross_attn(x, memory, memory, memory_mask, fixed))
        tgt, _ = self._around(tgt, self.norm3, self.dropout3, self._fed_forward)
        return tgt if cache is None else (tgt, (kept[-1], fixed))

    def gen_cache(self, memory):
        return (self.self_attn.gen_cache(memory, type=MultiHeadAttention.Cache),
                self.cross_attn.gen_cache(memory, memory, type=MultiHeadAttention.StaticCache))


class TransformerDecoder(Layer):
    """Decoder layers, one after the other."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers, self.num_layers, self.norm = _copies(decoder_layer, num_layers), num_layers, norm

    @static_style
    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, cache=None):
        tgt_mask = _convert_attention_mask(tgt_mask, tgt.dtype)
        memory_mask = _convert_attention_mask(memory_mask, memory.dtype)
        kept = []
        for i, layer in enumerate(self.layers):
            if cache is None:
                tgt = layer(tgt, memory, tgt_mask, memory_mask)
            else:
                tgt, new = layer(tgt, memory, tgt_mask, memory_mask, cache[i])
                kept.append(new)
        tgt = tgt if self.norm is None else self.norm(tgt)
        return tgt if cache is None else (tgt, kept)

    def gen_cache(self, memory, do_zip=False):
        cache = [layer.gen_cache(memory) for layer in self.layers]
        return list(zip(*cache)) if do_zip else cache


class Transformer(Layer):
    """An encoder, and a decoder that looks at what it gives."""

    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048,
                 dropout=0.1, activation='relu', attn_dropout=None, act_dropout=None, normalize_before=False,
                 weight_attr=None, bias_attr=None, custom_encoder=None, custom_decoder=None):
        super().__init__()
        self.d_model, self.nhead = d_model, nhead
        how = (d_model, nhead, dim_feedforward, dropout, activation, attn_dropout, act_dropout, normalize_before)
        if custom_encoder is None:
            weights, biases = _attrs(weight_attr, 2), _attrs(bias_attr, 2)
            layer = TransformerEncoderLayer(*how, weights, biases)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, LayerNorm(d_model))
        self.encoder = custom_encoder
        if custom_decoder is None:
            weights, biases = _attrs(weight_attr, 3), _attrs(bias_attr, 3)
            layer = TransformerDecoderLayer(*how, weights, biases)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, LayerNorm(d_model))
        self.decoder = custom_decoder

    @static_style
    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None):
        memory = self.encoder(src, _convert_attention_mask(src_mask, src.dtype))
        return self.decoder(tgt, memory, tgt_mask, memory_mask)

    @static_style
    def generate_square_subsequent_mask(self, length):
        """0 on and below the diagonal, minus infinity above: nobody looks ahead."""
        import numpy
        return _C.assign(numpy.triu(numpy.full([length, length], -numpy.inf, 'float32'), 1))
