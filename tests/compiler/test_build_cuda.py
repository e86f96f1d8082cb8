"""CUDA sources compiled here, read back, and launched where there is a driver.

What checks them: nvcc beside NVRTC, cuobjdump beside `ptxas -v`, torch beside the assembler's own
constant folding, and a libcuda that writes down what it is called with.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rift.errors import Blocked, Failed, WrongUsage
from rift_compiler import build_cuda, launch_cuda
from rift_compiler.build_cuda import ARCHITECTURES, CudaBinary, compile_cuda, sass
from rift_compiler.launch_cuda import Argument

NO_DRIVER = launch_cuda.driver_available()

SOURCE = """\
extern "C" __global__ void saxpy(float a, const float* x, float* y, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ __launch_bounds__(256) void reduce(const float* x, float* out, long long n) {
    __shared__ float part[256];
    float sum = 0.0f;
    for (long long i = threadIdx.x; i < n; i += 256) sum += x[i];
    part[threadIdx.x] = sum;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) *out = part[0];
}
"""

# Half precision without a header: bf16 is the upper half of an f32, so reading it is a shift; the
# rest are single PTX instructions (PTX ISA, cvt: .rn is round to nearest even, NaN stays NaN).
CONVERSIONS = """\
__device__ __forceinline__ float rift_f16_to_f32(unsigned short x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}
__device__ __forceinline__ unsigned short rift_f32_to_f16(float x) {
    unsigned short y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float rift_bf16_to_f32(unsigned short x) {
    return __uint_as_float((unsigned int)x << 16);
}
__device__ __forceinline__ unsigned short rift_f32_to_bf16(float x) {
    unsigned short y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
"""


def tool(name: str) -> str | None:
    try:
        return build_cuda._tool(name)
    except Failed:
        return None


needs_nvcc = pytest.mark.skipif(tool("nvcc") is None, reason="nvcc is not installed")
needs_nvdisasm = pytest.mark.skipif(tool("nvdisasm") is None, reason="nvdisasm is not installed")


def entries(home: Path) -> list[Path]:
    return list((home / "cache" / "cuda").iterdir())


@pytest.mark.parametrize("target", ARCHITECTURES)
def test_nvrtc_compiles_and_reports(home: Path, target: str) -> None:
    binary = compile_cuda(SOURCE, target)
    assert f".target {target}" in binary.ptx
    assert ".entry saxpy" in binary.ptx
    assert "\0" not in binary.ptx
    assert binary.cubin.startswith(b"\x7fELF")
    assert binary.compiler.startswith("nvrtc ")
    assert not binary.cached
    kernels = {each.kernel: each for each in binary.resources}
    assert set(kernels) == {"saxpy", "reduce"}
    assert kernels["saxpy"].shared_bytes == 0
    assert kernels["reduce"].shared_bytes == 256 * 4
    assert all(8 <= each.registers <= 40 for each in binary.resources)
    assert all(each.spill_stores_bytes == each.stack_bytes == 0 for each in binary.resources)


def test_second_time_comes_from_the_cache(home: Path) -> None:
    fresh = compile_cuda(SOURCE, "sm_80")
    again = compile_cuda(SOURCE, "sm_80")
    assert again.cached
    assert (again.ptx, again.cubin, again.resources) == (fresh.ptx, fresh.cubin, fresh.resources)
    assert again.seconds == fresh.seconds
    assert len(entries(home)) == 1, "one entry, and no temporary file beside it"
    assert not compile_cuda(SOURCE, "sm_89").cached
    assert not compile_cuda(SOURCE + "\n", "sm_80").cached


@pytest.mark.parametrize("damage", ["empty", "torn", "altered"])
def test_a_damaged_entry_is_compiled_again(home: Path, damage: str) -> None:
    fresh = compile_cuda(SOURCE, "sm_80")
    (entry,) = entries(home)
    whole = entry.read_bytes()
    altered = whole.replace(b'"registers": ', b'"registers": 1', 1)
    entry.write_bytes({"empty": b"", "torn": whole[: len(whole) // 2], "altered": altered}[damage])
    again = compile_cuda(SOURCE, "sm_80")
    assert not again.cached
    assert again.cubin == fresh.cubin
    assert compile_cuda(SOURCE, "sm_80").cached


def test_a_cache_that_cannot_be_written(home: Path) -> None:
    home.mkdir()
    (home / "cache").write_text("a file where the directory should be")
    with pytest.raises(Failed, match="RIFT_HOME"):
        compile_cuda(SOURCE, "sm_80")


@pytest.mark.parametrize("compiler", ["nvrtc", pytest.param("nvcc", marks=needs_nvcc)])
def test_a_bad_source_shows_its_line(home: Path, compiler: str) -> None:
    with pytest.raises(Failed) as caught:
        compile_cuda(SOURCE.replace("y[i];", "z[i];"), "sm_90a", compiler=compiler)
    message = str(caught.value)
    assert message.startswith(f"{compiler} 1")
    assert "sm_90a" in message
    assert 'identifier "z" is undefined' in message
    assert ">    3 |     if (i < n) y[i] = a * x[i] + z[i];" in message
    assert "     4 | }" in message
    assert not (home / "cache").exists()


def test_an_instruction_of_another_target(home: Path) -> None:
    source = 'extern "C" __global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }'
    assert compile_cuda(source, "sm_90a").resources[0].kernel == "k"
    with pytest.raises(Failed, match=r"wgmma\.fence.*sm_120a"):
        compile_cuda(source, "sm_120a")


def test_what_is_refused(home: Path) -> None:
    with pytest.raises(WrongUsage, match=r"'sm_70'.*sm_80, sm_89, sm_90a, sm_120a"):
        compile_cuda(SOURCE, "sm_70")
    with pytest.raises(WrongUsage, match=r"'clang'.*nvrtc, nvcc"):
        compile_cuda(SOURCE, "sm_80", compiler="clang")
    with pytest.raises(Failed, match="no __global__ function"):
        compile_cuda("__device__ int f() { return 1; }", "sm_80")


def test_no_nvcc(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_args, **_options: None)
    with pytest.raises(Failed, match="nvcc is neither"):
        compile_cuda(SOURCE, "sm_80", compiler="nvcc")
    with pytest.raises(Failed, match=r"pip install 'rift-toolkit\[compiler\]'"):
        sass(b"")


@needs_nvcc
@pytest.mark.parametrize("target", ARCHITECTURES)
def test_nvcc_agrees(home: Path, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another compiler (and another version of it) needs about the same registers."""
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "--no-such-option")
    ours = {each.kernel: each for each in compile_cuda(SOURCE, target).resources}
    binary = compile_cuda(SOURCE, target, compiler="nvcc")
    assert binary.compiler.startswith("nvcc ")
    assert f".target {target}" in binary.ptx
    assert {each.kernel for each in binary.resources} == set(ours)
    for each in binary.resources:
        assert abs(each.registers - ours[each.kernel].registers) <= 4
        assert each.shared_bytes == ours[each.kernel].shared_bytes
    assert compile_cuda(SOURCE, target, compiler="nvcc").cached


@needs_nvdisasm
@pytest.mark.parametrize("target", ARCHITECTURES)
def test_sass(home: Path, target: str) -> None:
    text = sass(compile_cuda(SOURCE, target).cubin)
    assert ".text.saxpy" in text
    for instruction in ("FFMA", "LDG.E", "STG.E", "LDS", "STS", "BAR.SYNC"):
        assert instruction in text


@needs_nvdisasm
def test_sass_of_something_else() -> None:
    with pytest.raises(Failed, match="cannot read the cubin"):
        sass(b"not a cubin")


# 96 live values with room for 64 registers: 65,536 for 1,024 threads.
SPILLING = """\
extern "C" __global__ __launch_bounds__(1024) void spills(float* x) {
    float v[96];
    #pragma unroll
    for (int i = 0; i < 96; i++) v[i] = x[i * 1024 + threadIdx.x];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 96; i++) x[i * 1024 + threadIdx.x] = v[i] * v[(i + 1) % 96];
}
"""


@pytest.mark.skipif(tool("cuobjdump") is None, reason="cuobjdump is not installed")
def test_the_report_is_what_the_cubin_says(home: Path, tmp_path: Path) -> None:
    binary = compile_cuda(SPILLING, "sm_80")
    (tmp_path / "k.cubin").write_bytes(binary.cubin)
    command = [tool("cuobjdump") or "", "-res-usage", str(tmp_path / "k.cubin")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (ours,) = binary.resources
    assert ours.spill_stores_bytes > 0
    assert ours.spill_loads_bytes > 0
    for each in (
        f"REG:{ours.registers} ",
        f"STACK:{ours.stack_bytes} ",
        f"SHARED:{ours.shared_bytes} ",
        f"CONSTANT[0]:{ours.constant_bytes} ",
    ):
        assert each in said


def test_parse_resources() -> None:
    """nvcc 13.0's text for a kernel that calls a function that was not inlined, and for sm_90a."""
    text = """\
ptxas info    : 0 bytes gmem, 256 bytes cmem[3]
ptxas info    : Compiling entry function '_Z5otherPi' for 'sm_80'
ptxas info    : Function properties for _Z5otherPi
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 360 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compile time = 36.658 ms
ptxas info    : Compiling entry function 'saxpy' for 'sm_90a'
ptxas info    : Function properties for saxpy
    160 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 31 registers, used 1 barriers, 160 bytes cumulative stack size, 512 bytes smem
ptxas info    : Compile time = 9.654 ms
ptxas info    : Function properties for _Z4slowfi
    24 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""
    assert build_cuda.parse_resources(text) == (
        build_cuda.Resources("_Z5otherPi", 8, 0, 0, 0, 0, 368),
        build_cuda.Resources("saxpy", 31, 4, 12, 160, 512, None),
    )
    with pytest.raises(Failed, match="cannot read"):
        build_cuda.parse_resources(text.replace("31 registers", "many registers"))


# Conversions. `bad` is a sum of comparisons of constants, which the assembler folds: a kernel that
# stores only when `bad` is set has no store left exactly when every conversion is as torch does it.


def constants() -> torch.Tensor:
    """f32 values: any bits, ordinary sizes, ties of both formats, their limits, subnormals."""
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31, (16,), generator=generator).to(torch.int32)
    ties = [1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-8, 1 + 3 * 2**-8, 65519.0, 65520.0, 2.0**-25]
    odd = [0.0, -0.0, 2.0**-24, 1e-45, 3.4e38, float("inf"), float("-inf"), float("nan")]
    plain = 100 * torch.randn(8, generator=generator)
    return torch.cat([bits.view(torch.float32), plain, torch.tensor(ties + odd)])


def f32_literal(x: torch.Tensor) -> str:
    return f"__uint_as_float({int(x.view(torch.int32)) & 0xFFFFFFFF:#x}u)"


def checks(name: str, dtype: torch.dtype) -> list[str]:
    infinity = {"f16": 0x7C00, "bf16": 0x7F80}[name]
    lines = []
    for x in constants():
        want = x.to(dtype)
        bits = int(want.view(torch.int16)) & 0xFFFF
        down = f"rift_f32_to_{name}({f32_literal(x)})"
        up = f"__float_as_uint(rift_{name}_to_f32({bits:#x}))"
        if want.isnan():
            lines += [f"({down} & 0x7fff) <= {infinity:#x}", f"({up} & 0x7fffffff) <= 0x7f800000"]
        else:
            back = int(want.float().view(torch.int32)) & 0xFFFFFFFF
            lines += [f"{down} != {bits:#x}", f"{up} != {back:#x}u"]
    return lines


def compile_checks(target: str, lines: list[str]) -> CudaBinary:
    body = "\n".join(f"bad |= {line};" for line in lines)
    kernel = (
        f'extern "C" __global__ void k(int* out) {{ int bad = 0;\n{body}\nif (bad) *out = 1; }}'
    )
    return compile_cuda(CONVERSIONS + kernel, target)


@needs_nvdisasm
@pytest.mark.parametrize("target", ARCHITECTURES)
def test_conversions_round_as_torch_does(home: Path, target: str) -> None:
    lines = checks("f16", torch.float16) + checks("bf16", torch.bfloat16)
    assert "STG" not in sass(compile_checks(target, lines).cubin)


@needs_nvdisasm
def test_the_check_of_conversions_can_fail(home: Path) -> None:
    ties_to_even, ties_away = "0x3f80", "0x3f81"
    line = f"rift_f32_to_bf16(1.00390625f) != {ties_to_even}"
    assert "STG" not in sass(compile_checks("sm_80", [line]).cubin)
    assert "STG" in sass(compile_checks("sm_80", [line.replace(ties_to_even, ties_away)]).cubin)


@pytest.mark.parametrize(
    ("target", "compiler"),
    [
        *((target, "nvrtc") for target in ARCHITECTURES),
        pytest.param("sm_80", "nvcc", marks=needs_nvcc),  # the oldest target and compiler
    ],
)
def test_conversions_compile(home: Path, target: str, compiler: str) -> None:
    kernel = """extern "C" __global__ void k(unsigned short* h, unsigned short* b) {
        unsigned short half = rift_f32_to_f16(rift_bf16_to_f32(b[0]));
        b[1] = rift_f32_to_bf16(rift_f16_to_f32(h[0]));
        h[1] = half;
    }"""
    ptx = compile_cuda(CONVERSIONS + kernel, target, compiler=compiler).ptx
    for instruction in ("cvt.f32.f16", "cvt.rn.f16.f32", "cvt.rn.bf16.f32"):
        assert instruction in ptx


# Launching.


@pytest.mark.skipif(NO_DRIVER is None, reason="there is a driver")
def test_no_driver() -> None:
    assert NO_DRIVER
    with pytest.raises(Blocked, match="cannot launch CUDA kernels"):
        launch_cuda.Module(b"")


@pytest.mark.skipif(
    NO_DRIVER is not None or not torch.cuda.is_available(),
    reason=str(NO_DRIVER or "torch has no GPU"),
)
def test_launch_on_the_gpu(home: Path) -> None:
    major, minor = torch.cuda.get_device_capability()
    target = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
    if target not in ARCHITECTURES:
        pytest.skip(f"kernels are not compiled for {target}")
    n = 10_000
    x, y = torch.randn(2, n, device="cuda")
    out = torch.zeros(1, device="cuda")
    want = 3.0 * x + y
    stream = torch.cuda.current_stream().cuda_stream
    pointers = {name: Argument("pointer", t.data_ptr()) for name, t in (("x", x), ("y", y))}
    saxpy = [Argument("f32", 3.0), pointers["x"], pointers["y"], Argument("i64", n)]
    total = [pointers["y"], Argument("pointer", out.data_ptr()), Argument("i64", n)]
    with launch_cuda.Module(compile_cuda(SOURCE, target).cubin) as module:
        module.launch("saxpy", (-(-n // 256), 1, 1), (256, 1, 1), saxpy, stream=stream)
        module.launch("reduce", (1, 1, 1), (256, 1, 1), total, 64 * 1024, stream)
        torch.cuda.synchronize()
    torch.testing.assert_close(y, want)
    torch.testing.assert_close(out[0], want.sum(), rtol=1e-4, atol=1e-2)


# A libcuda that has one kernel, `mixed(void*, int64, float, int32)` with 1 KiB of static shared
# memory, and prints the calls it gets. Signatures: CUDA Driver API reference.
FAKE_LIBCUDA = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
typedef unsigned long long u64;
enum { INVALID_VALUE = 1, NOT_FOUND = 500, NO_BINARY = 209 };
static const size_t sizes[4] = {8, 8, 4, 4};

int cuGetProcAddress_v2(const char* name, void** function, int version, u64 flags, int* found) {
    *function = dlsym(RTLD_DEFAULT, name);
    if (!*function) {
        Dl_info self;
        dladdr((void*)cuGetProcAddress_v2, &self);
        *function = dlsym(dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD), name);
    }
    if (found) *found = *function ? 0 : 1;
    return *function ? 0 : NOT_FOUND;
}
int cuGetProcAddress(const char* name, void** function, int version, u64 flags, int* found) {
    return cuGetProcAddress_v2(name, function, version, flags, found);
}
int cuInit(unsigned flags) { return setvbuf(stdout, 0, _IONBF, 0); }
int cuDriverGetVersion(int* version) { return *version = 13050, 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGet(int* device, int ordinal) {
    return ordinal ? 101 : (*device = 0, 0);
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
    return puts("retain"), *context = (void*)7, 0;
}
int cuDevicePrimaryCtxRelease(int device) { return puts("release"), 0; }
static int depth;
int cuCtxPushCurrent(void* context) { return depth++, context == (void*)7 ? 0 : 201; }
int cuCtxPopCurrent(void** context) { return *context = (void*)7, --depth < 0 ? 201 : 0; }
int cuModuleLoadData(void** module, const void* image) {
    if (memcmp(image, "CUBIN", 5)) return NO_BINARY;
    return printf("load depth=%d\n", depth), *module = (void*)11, 0;
}
int cuModuleUnload(void* module) { return printf("unload %d\n", (int)(u64)module), 0; }
int cuModuleGetFunction(void** function, void* module, const char* name) {
    *function = (void*)13;
    return strcmp(name, "mixed") ? NOT_FOUND : 0;
}
int cuFuncGetAttribute(int* value, int attribute, void* function) {
    return *value = 1024, attribute == 1 ? 0 : INVALID_VALUE;
}
int cuFuncGetParamInfo(void* function, size_t index, size_t* offset, size_t* size) {
    if (index >= 4) return INVALID_VALUE;
    return *offset = index * 8, *size = sizes[index], 0;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
    return printf("attribute %d=%d\n", attribute, value), value > 232448 ? INVALID_VALUE : 0;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void* stream, void** p, void** extra) {
    printf("launch %d grid %u,%u,%u block %u,%u,%u shared %u stream %d depth=%d",
           (int)(u64)function, gx, gy, gz, bx, by, bz, shared, (int)(u64)stream, depth);
    printf(" args %llx %lld %a %d\n", *(u64*)p[0], *(long long*)p[1], *(float*)p[2], *(int*)p[3]);
    return bx * by * bz > 1024 ? INVALID_VALUE : 0;
}
int cuGetErrorName(int error, const char** text) {
    *text = error == NOT_FOUND ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR_OTHER";
    return 0;
}
int cuGetErrorString(int error, const char** text) { return *text = "in words", 0; }
"""

DRIVE = """
from rift.errors import Failed
from rift_compiler.launch_cuda import Argument, Module, driver_available

def refused(do):
    try:
        do()
    except Failed as error:
        print(error, flush=True)
    else:
        raise SystemExit("not refused")

assert driver_available() is None
args = [Argument("pointer", 0x7F0123456700), Argument("i64", -(2**40)), Argument("f32", 0.1),
        Argument("i32", -5)]
one = (1, 1, 1)
with Module(b"CUBIN") as module:
    module.launch("mixed", (3, 2, 1), (64, 2, 2), args, 1000, stream=5)
    module.launch("mixed", one, one, args, 48 * 1024 - 1024)
    module.launch("mixed", one, one, args, 48 * 1024 - 1023)
    refused(lambda: module.launch("mixed", one, one, args, 300000))
    refused(lambda: module.launch("mixed", one, (2048, 1, 1), args))
    refused(lambda: module.launch("other", one, one, args))
    refused(lambda: module.launch("mixed", one, one, args[:3]))
    refused(lambda: module.launch("mixed", one, one, [*args[:3], Argument("i32", 2**31)]))
    refused(lambda: module.launch("mixed", one, one, [*args[:3], Argument("i32", 1.5)]))
module.close()
refused(lambda: module.launch("mixed", one, one, args))
refused(lambda: Module(b"PTX..."))
refused(lambda: Module(b"CUBIN", device=1))
"""

SAID = """\
retain
load depth=1
launch 13 grid 3,2,1 block 64,2,2 shared 1000 stream 5 depth=1 args 7f0123456700 -1099511627776 \
0x1.99999ap-4 -5
launch 13 grid 1,1,1 block 1,1,1 shared 48128 stream 0 depth=1 args 7f0123456700 -1099511627776 \
0x1.99999ap-4 -5
attribute 8=48129
launch 13 grid 1,1,1 block 1,1,1 shared 48129 stream 0 depth=1 args 7f0123456700 -1099511627776 \
0x1.99999ap-4 -5
attribute 8=300000
300000 bytes of dynamic shared memory for mixed: CUDA_ERROR_OTHER (in words)
launch 13 grid 1,1,1 block 2048,1,1 shared 0 stream 0 depth=1 args 7f0123456700 -1099511627776 \
0x1.99999ap-4 -5
launching mixed, grid (1, 1, 1), block (2048, 1, 1), 0 bytes shared: CUDA_ERROR_OTHER (in words)
looking for kernel other: CUDA_ERROR_NOT_FOUND (in words)
mixed takes arguments of (8, 8, 4, 4) bytes, got (8, 8, 4)
argument 3 of mixed: 2147483648 does not fit i32
argument 3 of mixed: 1.5 does not fit i32
unload 11
release
cannot launch mixed: its module is closed
retain
release
loading a cubin of 6 bytes on GPU 0: CUDA_ERROR_OTHER (in words)
cuDeviceGet(1): CUDA_ERROR_OTHER (in words)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_what_the_driver_is_called_with(tmp_path: Path) -> None:
    """Beside the test on a GPU: where there is none, a driver that only listens."""
    (tmp_path / "cuda.c").write_text(FAKE_LIBCUDA)
    library = tmp_path / "libcuda.so.1"
    build = ["cc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "cuda.c"), "-ldl"]
    subprocess.run(build, check=True, capture_output=True)
    env = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    command = [sys.executable, "-c", DRIVE]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == SAID
