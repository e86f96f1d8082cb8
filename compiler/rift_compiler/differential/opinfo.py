"""Cases from PyTorch's own operator samples: the OpInfos that its test-suite runs on.

Needs what torch's internal test modules import: expecttest and NumPy.
"""

from __future__ import annotations

import importlib
import itertools
import random
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils import _pytree as pytree

from rift_compiler.differential.compare import Case

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool)
MOST_READ = 2000  # samples looked at for one operator and dtype; max_pool2d has 1440

_ELEMENTWISE = """
add sub mul div/no_rounding_mode div/trunc_rounding div/floor_rounding true_divide floor_divide
remainder fmod rsub __radd__ __rsub__ __rmul__ __rdiv__ __rmod__ __rpow__ pow float_power neg
positive abs sign sgn signbit exp exp2 expm1 log log2 log10 log1p logaddexp logaddexp2 xlogy sqrt
rsqrt reciprocal square sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh sinc
deg2rad rad2deg sigmoid logit erf erfc erfinv lgamma ceil floor round round/decimals_0
round/decimals_3 round/decimals_neg_3 trunc frac clamp clamp_min clamp_max maximum minimum fmax
fmin max/binary min/binary where masked_fill lerp addcmul addcdiv hypot copysign isnan isinf
isfinite isposinf isneginf isclose eq ne lt le gt ge logical_and logical_or logical_not
logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift
nan_to_num heaviside
"""
_NEURAL = """
relu relu6 leaky_relu elu celu selu gelu silu mish hardtanh hardsigmoid hardswish softplus
softsign logsigmoid threshold tanhshrink hardshrink softshrink glu prelu softmin
softmin/with_dtype cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss
binary_cross_entropy binary_cross_entropy_with_logits kl_div cosine_similarity pairwise_distance
normalize layer_norm rms_norm group_norm batch_norm instance_norm local_response_norm linear
bilinear embedding conv1d conv2d conv3d conv_transpose1d conv_transpose2d
scaled_dot_product_attention pad/constant pad/reflect pad/replicate pad/replicate_negative
pad/circular pixel_shuffle pixel_unshuffle avg_pool1d avg_pool2d max_pool1d max_pool2d
adaptive_avg_pool2d interpolate/nearest interpolate/nearest-exact interpolate/linear
interpolate/bilinear interpolate/bicubic interpolate/area one_hot dropout unfold
"""
_REDUCTIONS = """
sum mean prod amax amin max/reduction_no_dim max/reduction_with_dim min/reduction_no_dim
min/reduction_with_dim argmax argmin any all var var/unbiased var_mean var_mean/unbiased std
std/unbiased std_mean std_mean/unbiased norm norm/fro norm/inf linalg.norm linalg.vector_norm
logsumexp softmax softmax/with_dtype log_softmax log_softmax/with_dtype cumsum cumprod cummax
cummin logcumsumexp count_nonzero nansum nanmean aminmax median topk sort argsort trace
"""
_PRODUCTS = """
matmul __rmatmul__ mm bmm mv dot vdot inner addmm addmm/decomposed addmv addr addbmm baddbmm
einsum outer kron tensordot linalg.multi_dot linalg.vecdot
"""
_LAYOUT = """
view view_as reshape reshape_as permute transpose t movedim expand expand_as squeeze
squeeze/multiple unsqueeze flatten ravel unflatten narrow select slice __getitem__ index_select
gather take take_along_dim split split/list_args split_with_sizes chunk unbind stack cat hstack
vstack dstack column_stack flip fliplr flipud roll rot90 repeat repeat_interleave tile diagonal
diag diag_embed tril triu unfold broadcast_to broadcast_tensors tensor_split
meshgrid/list_of_tensors meshgrid/variadic_tensors scatter scatter_add index_add contiguous clone
select_scatter slice_scatter diff
"""
_CREATION = """
zeros_like ones_like full_like zeros ones full new_zeros new_ones new_full arange linspace eye
tril_indices triu_indices to float half bfloat16 double int long short char byte bool
"""

OPS: tuple[str, ...] = (
    *_ELEMENTWISE.split(),
    *("nn.functional." + name for name in _NEURAL.split()),
    *_REDUCTIONS.split(),
    *_PRODUCTS.split(),
    *_LAYOUT.split(),
    *_CREATION.split(),
)

# OpInfo's own callable sets the random seed: not an operation, and nothing random is asked for.
DIRECT: Mapping[str, Callable[..., Any]] = {
    "nn.functional.dropout": F.dropout,
    "nn.functional.scaled_dot_product_attention": F.scaled_dot_product_attention,
}
# Samples that draw random numbers, or that train.
LEFT_OUT: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "nn.functional.dropout": lambda given: bool(given.get("training", True) and given.get("p", 1)),
    "nn.functional.scaled_dot_product_attention": lambda given: bool(given.get("dropout_p")),
    "nn.functional.batch_norm": lambda given: bool(given.get("training")),
}
# Which of equal elements they return an index to is not defined: dtypes in which samples have ties
# are left out.
TIES = frozenset({"topk", "sort", "argsort", "median"})


class _Hole:
    """Stands for a tensor in a sample's arguments."""

    def __repr__(self) -> str:
        return "tensor"


HOLE = _Hole()


def cases(
    name: str, samples: int = 6, device: str = "cpu", dtypes: Sequence[torch.dtype] = DTYPES
) -> Iterator[Case]:
    """At most `samples` cases of an operator for each dtype; the same in every run.

    Chosen to differ in keywords first, then in other constants, in ranks, in shapes and strides.
    Raises KeyError where `name` is not in PyTorch's table.
    """
    for op in _table()[name]:
        for dtype in dtypes:
            if dtype in op.supported_dtypes(device) and (name not in TIES or dtype in FLOATS[:2]):
                yield from _cases(name, op, dtype, samples, device)


def unknown(names: Sequence[str] = OPS) -> list[str]:
    """The names that PyTorch's table does not have."""
    return [name for name in names if name not in _table()]


@contextmanager
def seeded(name: str) -> Iterator[None]:
    """Random numbers that depend on the name alone; the generators are as before at the end."""
    seed = zlib.crc32(name.encode())
    state = random.getstate()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(state)


@cache
def _table() -> Mapping[str, Sequence[Any]]:
    with warnings.catch_warnings():
        # Raised when these modules are imported, by what they import.
        warnings.simplefilter("ignore", DeprecationWarning)
        module = importlib.import_module("torch.testing._internal.common_methods_invocations")
    table: dict[str, list[Any]] = {}
    for op in module.op_db:
        variant = f"/{op.variant_test_name}" if op.variant_test_name else ""
        table.setdefault(op.name + variant, []).append(op)
    return table


def _cases(name: str, op: Any, dtype: torch.dtype, samples: int, device: str) -> Iterator[Case]:
    short = str(dtype).removeprefix("torch.")
    with seeded(f"{name} {short}"):
        # Not op.sample_inputs: it would seed again, the same for every sample.
        offered = op.sample_inputs_func(op, device, dtype, False)
        given = [
            sample
            for sample in itertools.islice(offered, MOST_READ)
            if name not in LEFT_OUT or not LEFT_OUT[name](sample.kwargs)
        ]
    parted = [_parted(sample) for sample in given]
    for number in _spread([part.traits for part in parted], samples):
        part = parted[number]
        yield Case(
            label=f"{short} #{number} {part}",
            function=part.function(DIRECT.get(name, op.op)),
            args=part.tensors,
        )


@dataclass(frozen=True)
class _Parted:
    """A sample's arguments, tensors apart from constants: the tensors become the inputs."""

    leaves: tuple[Any, ...]
    spec: Any
    tensors: tuple[Tensor, ...]
    keywords: tuple[str, ...]

    def function(self, op: Callable[..., Any]) -> Callable[..., Any]:
        def call(*tensors: Tensor) -> Any:
            fill = iter(tensors)
            leaves = [next(fill) if leaf is HOLE else leaf for leaf in self.leaves]
            first, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
            return op(first, *args, **kwargs)

        return call

    @property
    def traits(self) -> tuple[str, ...]:
        """What tells samples apart, the most telling first."""
        return (
            str(self.keywords),
            str(self.leaves),
            str([tensor.dim() for tensor in self.tensors]),
            str([(tensor.shape, tensor.stride()) for tensor in self.tensors]),
        )

    def __str__(self) -> str:
        shapes = [str(tuple(tensor.shape)) for tensor in self.tensors]
        first, args, kwargs = pytree.tree_unflatten(list(self.leaves), self.spec)
        constants = [str(value) for value in (first, *args) if value is not HOLE]
        constants += [f"{key}={value}" for key, value in kwargs.items()]
        return " ".join(shapes + constants)


def _parted(sample: Any) -> _Parted:
    leaves, spec = pytree.tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
    return _Parted(
        leaves=tuple(HOLE if isinstance(leaf, Tensor) else leaf for leaf in leaves),
        spec=spec,
        tensors=tuple(leaf for leaf in leaves if isinstance(leaf, Tensor)),
        keywords=(str(len(sample.args)), *sorted(sample.kwargs)),
    )


def _spread(traits: Sequence[tuple[str, ...]], most: int) -> list[int]:
    """Positions of the samples to take: first one of each first trait, then of each second, ..."""
    chosen: list[int] = []
    for depth in range(1, len(traits[0]) + 1 if traits else 0):
        seen = {traits[number][:depth] for number in chosen}
        fresh: dict[tuple[str, ...], int] = {}
        for number, trait in enumerate(traits):
            if trait[:depth] not in seen:
                fresh.setdefault(trait[:depth], number)
        chosen += _evenly(list(fresh.values()), most - len(chosen))
    rest = [number for number in range(len(traits)) if number not in set(chosen)]
    return sorted(chosen + _evenly(rest, most - len(chosen)))


def _evenly(numbers: list[int], most: int) -> list[int]:
    """At most that many, spread over the list; the first is among them."""
    if len(numbers) <= most:
        return numbers
    return [numbers[i * len(numbers) // most] for i in range(most)]
