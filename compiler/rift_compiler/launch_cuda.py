"""Runs the kernels of a cubin on a GPU, through the CUDA driver, beside torch."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from rift.errors import Blocked, Failed

# Shared memory a block gets without asking (CUDA C++ Programming Guide, Compute Capabilities:
# more than 48 KB per block is dynamic and needs an explicit opt-in).
DEFAULT_SHARED_BYTES = 48 * 1024

ARGUMENT_TYPES: dict[str, Any] = {
    "pointer": ctypes.c_uint64,
    "bool": ctypes.c_uint8,
    "u8": ctypes.c_uint8,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}


@dataclass(frozen=True)
class Argument:
    """One kernel argument: `type` is a key of ARGUMENT_TYPES; a pointer's value is its address."""

    type: str
    value: int | float


@dataclass(frozen=True)
class _Kernel:
    handle: Any
    shared_bytes: int  # static
    parameter_bytes: tuple[int, ...]


def driver_available() -> str | None:
    """None when kernels can be launched here, else the reason in words."""
    try:
        driver = _driver()
        (status,) = driver.cuInit(0)
        if status != driver.CUresult.CUDA_SUCCESS:
            return f"the NVIDIA driver does not start: {_describe(driver, status)}"
        status, count = driver.cuDeviceGetCount()
    except ImportError:
        return "cuda-bindings is not installed: pip install 'rift-toolkit[compiler]'"
    except RuntimeError as error:  # libcuda, or a function in it, is not there
        return f"no usable NVIDIA driver: {error}"
    if status != driver.CUresult.CUDA_SUCCESS:
        return f"the NVIDIA driver cannot count GPUs: {_describe(driver, status)}"
    return None if count else "the NVIDIA driver sees no GPU"


class Module:
    """A cubin loaded on one GPU, in the primary context (the one torch uses), until close().

    Raises Blocked when there is no driver or GPU; Failed, with the driver's own words, when any
    call to it fails, as when the cubin is for another architecture.
    """

    def __init__(self, cubin: bytes, device: int = 0) -> None:
        reason = driver_available()
        if reason is not None:
            raise Blocked(f"cannot launch CUDA kernels: {reason}")
        self._driver = _driver()
        self._kernels: dict[str, _Kernel] = {}
        (self._device,) = self._call(f"cuDeviceGet({device})", "cuDeviceGet", device)
        (self._context,) = self._call("", "cuDevicePrimaryCtxRetain", self._device)
        try:
            with self._current():
                doing = f"loading a cubin of {len(cubin)} bytes on GPU {device}"
                (self._module,) = self._call(doing, "cuModuleLoadData", cubin)
        except BaseException:
            self._call("", "cuDevicePrimaryCtxRelease", self._device)
            raise

    def launch(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        args: Sequence[Argument],
        shared_bytes: int = 0,
        stream: int = 0,
    ) -> None:
        """Queues `kernel` on `stream` (torch's Stream.cuda_stream; 0 is the default stream).

        Returns before the kernel ends; what goes wrong inside it shows at a later call.
        `shared_bytes` is the dynamic part. Raises Failed when the arguments are not what the
        kernel takes, or when the driver refuses the launch.
        """
        if self._module is None:
            raise Failed(f"cannot launch {kernel}: its module is closed")
        with self._current():
            entry = self._kernel(kernel)
            packed = _pack(kernel, entry.parameter_bytes, args)
            if entry.shared_bytes + shared_bytes > DEFAULT_SHARED_BYTES:
                name = self._driver.CUfunction_attribute
                wanted = name.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                doing = f"{shared_bytes} bytes of dynamic shared memory for {kernel}"
                self._call(doing, "cuFuncSetAttribute", entry.handle, wanted, shared_bytes)
            doing = f"launching {kernel}, grid {grid}, block {block}, {shared_bytes} bytes shared"
            queue = self._driver.CUstream(stream)
            shape = (*grid, *block, shared_bytes)
            self._call(doing, "cuLaunchKernel", entry.handle, *shape, queue, packed, 0)

    def close(self) -> None:
        """Unloads the cubin and gives up the context; a second call does nothing."""
        if self._module is None:
            return
        module, self._module = self._module, None
        self._kernels.clear()
        with self._current():
            self._call("", "cuModuleUnload", module)
        self._call("", "cuDevicePrimaryCtxRelease", self._device)

    def __enter__(self) -> Module:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def _kernel(self, name: str) -> _Kernel:
        if name not in self._kernels:
            doing = f"looking for kernel {name}"
            (handle,) = self._call(doing, "cuModuleGetFunction", self._module, name.encode())
            shared = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
            (shared_bytes,) = self._call(doing, "cuFuncGetAttribute", shared, handle)
            self._kernels[name] = _Kernel(handle, shared_bytes, self._parameter_bytes(handle))
        return self._kernels[name]

    def _parameter_bytes(self, handle: Any) -> tuple[int, ...]:
        """The size of each parameter; the driver answers an index past the last with an error."""
        sizes: list[int] = []
        while True:
            status, _, size_bytes = self._driver.cuFuncGetParamInfo(handle, len(sizes))
            if status == self._driver.CUresult.CUDA_ERROR_INVALID_VALUE:
                return tuple(sizes)
            _check(self._driver, status, "cuFuncGetParamInfo")
            sizes.append(size_bytes)

    @contextmanager
    def _current(self) -> Iterator[None]:
        """The context is this thread's current one inside, and what it was afterwards."""
        self._call("", "cuCtxPushCurrent", self._context)
        try:
            yield
        finally:
            self._call("", "cuCtxPopCurrent")

    def _call(self, doing: str, name: str, *args: Any) -> tuple[Any, ...]:
        status, *values = getattr(self._driver, name)(*args)
        _check(self._driver, status, doing or name)
        return tuple(values)


def _pack(kernel: str, sizes: tuple[int, ...], args: Sequence[Argument]) -> Any:
    """(values, ctypes), as cuda-bindings wants them; checked, for the driver reads them blindly."""
    types = tuple(ARGUMENT_TYPES[each.type] for each in args)
    given = tuple(ctypes.sizeof(each) for each in types)
    if given != sizes:
        raise Failed(f"{kernel} takes arguments of {sizes} bytes, got {given}")
    for at, (each, ctype) in enumerate(zip(args, types, strict=True)):
        fits = isinstance(each.value, int) and ctype(each.value).value == each.value
        if not (fits or each.type in ("f32", "f64")):
            raise Failed(f"argument {at} of {kernel}: {each.value} does not fit {each.type}")
    return (tuple(each.value for each in args), types) if args else None


def _driver() -> Any:
    """cuda.bindings.driver, by name: it is an optional extra and publishes no types."""
    return importlib.import_module("cuda.bindings.driver")


def _check(driver: Any, status: Any, doing: str) -> None:
    if status != driver.CUresult.CUDA_SUCCESS:
        raise Failed(f"{doing}: {_describe(driver, status)}")


def _describe(driver: Any, status: Any) -> str:
    """`NAME (text)`, as the driver says them."""
    _, name = driver.cuGetErrorName(status)
    _, text = driver.cuGetErrorString(status)
    return f"{name.decode() if name else repr(status)} ({text.decode() if text else 'no text'})"
