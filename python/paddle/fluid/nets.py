"""Small compositions of layers."""
from _trireme import (glu, img_conv_group, scaled_dot_product_attention, sequence_conv_pool,
                      simple_img_conv_pool)

__all__ = ['simple_img_conv_pool', 'sequence_conv_pool', 'glu', 'scaled_dot_product_attention',
           'img_conv_group']
