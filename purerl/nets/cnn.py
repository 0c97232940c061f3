"""Convolutional networks for images: the torso before the hidden layers of a default network."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from purerl.nets.initializers import make_initializers
from purerl.spaces import MIN_SIDE, has_channels_first, is_image

_LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # filters, kernel side, stride
_UNITS = 512


class NatureCNN(nn.Module):
    """Network of Mnih et al. (2015): three convolutions and a dense layer, all with ReLU.

    It maps images `[B, H, W, C]`, or stacked grey frames `[B, C, H, W]`, to features `[B, 512]`.
    The channels are the shorter of the first and the last axis. Integers are divided by 255.
    """

    initializer: str = "torch_uniform"
    layer_norm: bool = False  # whether to normalise the channels of each layer before its ReLU

    @nn.compact
    def __call__(self, obs: jax.Array) -> jax.Array:
        """Return the features `[B, 512]`."""
        if has_channels_first(obs.shape[1:]):
            obs = obs.transpose(0, 2, 3, 1)
        x = obs.astype(jnp.float32)
        if jnp.issubdtype(obs.dtype, jnp.integer):
            x = x / 255.0
        for i, (filters, side, stride) in enumerate(_LAYERS):
            shape = (side, side, x.shape[-1], filters)
            kernel_init, bias_init = make_initializers(self.initializer, side**2 * x.shape[-1])
            kernel = self.param(f"kernel_{i}", kernel_init, shape)
            bias = self.param(f"bias_{i}", bias_init, (filters,))
            x = convolve(x, kernel, stride) + bias[None, None, None]
            x = nn.relu(nn.LayerNorm()(x) if self.layer_norm else x)
        x = x.reshape(x.shape[0], -1)
        kernel_init, bias_init = make_initializers(self.initializer, x.shape[-1])
        x = nn.Dense(_UNITS, kernel_init=kernel_init, bias_init=bias_init)(x)
        return nn.relu(nn.LayerNorm()(x) if self.layer_norm else x)


TORSOS = {"nature_cnn": NatureCNN}


def check_torso(torso: Any, obs_shape: tuple[int, ...], normalise_obs: bool) -> None:
    """Refuse an unknown torso, and observations that a torso cannot read."""
    if torso is None:
        return
    if not isinstance(torso, str) or torso not in TORSOS:
        raise ValueError(f"torso must be {', '.join(TORSOS)} or None, got {torso!r}.")
    if not is_image(obs_shape):
        raise ValueError(
            f"torso={torso!r} takes images [H, W, C] or stacked frames [C, H, W] with at least "
            f"{MIN_SIDE} pixels a side, got observations of shape {obs_shape}. Set torso=None for "
            f"flat observations, or enlarge images with gymnasium.wrappers.ResizeObservation."
        )
    if normalise_obs:
        raise ValueError(
            f"normalise_obs=True does not fit torso={torso!r}, which scales images itself: it "
            f"divides integers by 255. Set normalise_obs=False."
        )


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolve(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    """Convolve images with a kernel, without padding.

    The result equals `jax.lax.conv_general_dilated`, and so do the gradients. Inside a loop, such
    as a burst of updates, XLA for CPUs does not rearrange the axes of convolutions. The gradients
    of that function then take ten times longer. The gradients of this function are convolutions
    whose axes are in order: batch, height, width, channels.

    Args:
        x: Images `[B, H, W, C]`.
        kernel: Kernel `[side, side, C, filters]`.
        stride: Step between two positions of the kernel.
    """
    return _convolve(x, kernel, strides=(stride, stride))


def _convolve(x: jax.Array, kernel: jax.Array, **options: Any) -> jax.Array:
    options = {"window_strides": options.pop("strides", (1, 1)), "padding": "VALID"} | options
    axes = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, dimension_numbers=axes, **options)


def _convolve_forwards(x: jax.Array, kernel: jax.Array, stride: int) -> tuple[jax.Array, Any]:
    """Return the convolution, and what its gradients need."""
    return _convolve(x, kernel, strides=(stride, stride)), (x, kernel)


def _convolve_backwards(stride: int, kept: Any, grad: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the gradients of images and kernel from the gradient `[B, h, w, filters]`."""
    x, kernel = kept
    side = len(kernel)
    unused = [(length - side) % stride for length in x.shape[1:3]]  # cropped rows and columns

    turned = kernel[::-1, ::-1].transpose(0, 1, 3, 2)
    around = [(side - 1, side - 1 + rest) for rest in unused]
    grad_x = _convolve(grad, turned, padding=around, lhs_dilation=(stride, stride))

    images = x[:, : x.shape[1] - unused[0], : x.shape[2] - unused[1]].transpose(3, 1, 2, 0)
    grads = _convolve(images, grad.transpose(1, 2, 0, 3), rhs_dilation=(stride, stride))
    return grad_x, grads.transpose(1, 2, 0, 3)


convolve.defvjp(_convolve_forwards, _convolve_backwards)
