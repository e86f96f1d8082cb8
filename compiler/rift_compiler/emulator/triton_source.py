"""A @triton.jit function compiled for a named GPU on a machine without one."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rift.errors import Failed, WrongUsage
from rift_compiler.emulator.arguments import Argument, Output
from rift_compiler.emulator.tensor_map import TensorMap

# Triton's names of element types (triton.language, as in a signature's pointers).
_ELEMENTS = {
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "int8": "i8",
    "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "bool": "i1", "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
}  # fmt: skip
_CAPABILITIES = {"sm_80": 80, "sm_86": 86, "sm_89": 89, "sm_90a": 90, "sm_90": 90, "sm_120a": 120,
                 "sm_120": 120}  # fmt: skip
_INSTALL = "pip install 'rift-toolkit[triton]'"
_DIVISOR = 16  # Triton compiles a kernel anew where a number or address is a multiple of it


@dataclass(frozen=True)
class TritonKernel:
    """`args` are the function's, then what Triton adds to them."""

    ptx: str
    entry: str
    block: tuple[int, ...]
    smem_bytes: int
    args: tuple[Argument, ...]


def compile_file(
    path: Path, name: str, args: Sequence[Argument], constants: Sequence[str], target: str,
    warps: int, stages: int, blocks: int,
) -> TritonKernel:  # fmt: skip
    """The function `name` of a Python file. Raises WrongUsage when it has none such."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise WrongUsage(f"cannot import {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if function is None:
        raise WrongUsage(f"{path} has no {name!r}: expected FILE.py:NAME")
    return compile_triton(function, args, _constants(constants), target, warps, stages, blocks)


def _constants(texts: Sequence[str]) -> dict[str, Any]:
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError) as error:
            raise WrongUsage(f"--constant {text}: expected NAME=VALUE") from error
    return found


def compile_triton(
    function: Any, args: Sequence[Argument], constants: Mapping[str, Any], target: str = "sm_80",
    warps: int = 4, stages: int = 3, blocks: int = 1,
) -> TritonKernel:  # fmt: skip
    """A @triton.jit function for these arguments (all but its constexprs, in order).

    Arrays, numbers and TensorMaps (host tensor descriptors) give the signature. blocks: how many
    the grid has, for kernels that need scratch memory in each. Raises Failed when Triton is not
    installed or refuses the function.
    """
    if target not in _CAPABILITIES:
        raise WrongUsage(f"target: expected one of {', '.join(_CAPABILITIES)}, got {target!r}")
    names = getattr(function, "arg_names", None)
    if names is None:
        raise WrongUsage("expected a function decorated with @triton.jit")
    plain = [n for n in names if n not in constants]
    if len(plain) != len(args):
        raise WrongUsage(
            f"{function.__name__} takes {', '.join(plain)} and {len(args)} arguments were given; "
            "constexprs are given by --constant NAME=VALUE"
        )
    given = dict(zip(plain, args, strict=True))
    signature = {n: "constexpr" if n in constants else _type(n, given[n]) for n in names}
    even = {(i,): [["tt.divisibility", _DIVISOR]] for i, n in enumerate(names)
            if n in given and _divisible(given[n])}  # fmt: skip
    fixed = {(names.index(n),): value for n, value in constants.items() if n in names}
    made = _compile(function, signature, fixed, even, target, warps, stages)
    flat = [part for n in plain for part in _parts(given[n])]
    scratch: list[Argument] = []
    for size in (made.metadata.global_scratch_size, made.metadata.profile_scratch_size):
        scratch.append(Output(np.zeros(size * blocks, np.uint8)) if size else None)
    return TritonKernel(
        made.asm["ptx"], made.metadata.name, (warps * 32,), made.metadata.shared, (*flat, *scratch)
    )


def _compile(
    function: Any, signature: dict[str, str], fixed: dict[Any, Any], even: dict[Any, Any],
    target: str, warps: int, stages: int,
) -> Any:  # fmt: skip
    try:
        compiler = importlib.import_module("triton.compiler")
        backends = importlib.import_module("triton.backends.compiler")
    except ImportError as error:
        raise Failed(f"Triton is not installed ({error}): {_INSTALL}") from error
    source = compiler.ASTSource(function, signature, constexprs=fixed, attrs=even)
    gpu = backends.GPUTarget("cuda", _CAPABILITIES[target], 32)
    options = {"num_warps": warps, "num_stages": stages}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compiler.compile(source, target=gpu, options=options)
    except Exception as error:  # Triton raises its own kinds, and LLVM's
        raise Failed(f"Triton does not compile {function.__name__}: {error}") from error


def _array(value: Argument) -> Any:
    return value.array if isinstance(value, (Output, TensorMap)) else value


def _type(name: str, value: Argument) -> str:
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    if isinstance(value, float):
        return "fp32"
    array = _array(value)
    element = _ELEMENTS.get(getattr(getattr(array, "dtype", None), "name", ""))
    if element is None:
        raise WrongUsage(f"argument {name}: a Triton kernel takes no {type(value).__name__} here")
    if isinstance(value, TensorMap):
        return f"tensordesc<{element}[{', '.join(map(str, value.box))}]>"
    return element if isinstance(value, np.generic) else f"*{element}"


def _divisible(value: Argument) -> bool:
    if isinstance(value, (np.ndarray, Output)):
        return True
    is_int = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return is_int and int(value) % _DIVISOR == 0  # type: ignore[arg-type]


def _parts(value: Argument) -> list[Argument]:
    """The arguments of the PTX that one of the function becomes."""
    if not isinstance(value, TensorMap):
        return [value]
    item = value.array.dtype.itemsize
    shape = value.shape or value.array.shape
    strides = value.strides_bytes or value.array.strides
    return [value, *(np.int32(n) for n in shape), *(np.int64(s // item) for s in strides)]
