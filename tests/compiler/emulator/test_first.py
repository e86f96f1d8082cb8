"""A vector add, from CUDA and from the command line, and what bad input gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rift.cli import main
from rift.errors import WrongUsage
from rift_compiler.emulator import Output, launch

VADD = """
extern "C" __global__ void vadd(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
"""
PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 p, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  .reg .f32 %f<2>;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra DONE;
  mad.wide.u32 %rd2, %r2, 4, %rd1;
  ld.global.f32 %f1, [%rd2];
  add.f32 %f1, %f1, %f1;
  st.global.f32 [%rd2], %f1;
DONE:
  ret;
}
"""


def test_vector_add(run_cuda: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(1000, np.float32), rng.random(1000, np.float32)
    c = np.zeros(1000, np.float32)

    result = run_cuda(VADD, 8, 128, [a, b, Output(c), 1000])

    assert np.array_equal(c, a + b)
    assert result.findings == ()
    assert result.counts.executed["ld.global"] == 2000
    assert [line.sectors for line in result.counts.lines] == [125, 125, 125]


def test_arrays_that_are_read_only_stay_so(run_cuda: Any) -> None:
    a = np.ones(32, np.float32)
    a.flags.writeable = False

    result = run_cuda(
        "__global__ void k(float* a) { a[threadIdx.x] = 2; }", 1, 32, [a], checks="bounds"
    )

    assert [f.kind for f in result.findings] == ["bounds"]
    assert a.max() == 1


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, a, c = tmp_path / "vadd.cu", tmp_path / "a.npy", tmp_path / "c.npy"
    source.write_text(VADD)
    np.save(a, np.arange(100, dtype=np.float32))
    given = [str(source), "--grid", "4", "--block", "32", "--arg", f"in:{a}", "--arg", f"in:{a}"]

    with pytest.raises(SystemExit) as end:
        main(["emulate", *given, "--arg", f"out:{c}:float32:100", "--arg", "i32:100", "--json"])

    assert end.value.code == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []
    assert np.array_equal(np.load(c), 2 * np.arange(100, dtype=np.float32))


def test_command_with_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, a = tmp_path / "twice.ptx", tmp_path / "a.npy"
    source.write_text(PTX)
    np.save(a, np.zeros(20, np.float32))

    with pytest.raises(SystemExit) as end:
        main(["emulate", str(source), "--block", "32", "--arg", f"inout:{a}", "--arg", "i32:32"])

    assert end.value.code == 1
    assert "bounds: PTX line 17" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("add.f32", "addd.f32"), "line 18: unknown instruction: addd.f32"),
        (("add.f32", "add.rq.f32"), r"line 18: \.rq is not supported"),
        (("add.f32", "add.f33"), "line 18: these modifiers are not supported"),
        (("%f1, %f1, %f1", "%f1, %f9, %f1"), "unknown name %f9"),
        (("%f1, %f1, %f1", "%f1, %rd1, %f1"), "%rd1 has 64 bits"),
        (("%f1, %f1, %f1", "%f1, %f1"), "expected 3 operands, got 2"),
        (("bra DONE", "bra GONE"), "unknown name GONE"),
        (("ld.global.f32 %f1, [%rd2]", "ld.global.f32 %f1, [%rd2"), "expected ']'"),
        (("ld.param.u32 %r1, [n]", "ld.param.u32 %r1, [n+4]"), "offset 4 is outside"),
        ((".target sm_80", ""), "no .target"),
        (("ret;\n}", "ret;"), "expected a closing brace"),
    ],
)
def test_bad_text(change: tuple[str, str], message: str) -> None:
    text = PTX.replace(*change)
    with pytest.raises(WrongUsage, match=message):
        launch(text, "twice", 1, 32, [np.zeros(32, np.float32), 32])


def test_names_do_not_reach_cpp() -> None:
    text = PTX.replace("%f<2>", "system<2>").replace("%f1", "system1")
    a = np.ones(32, np.float32)
    assert launch(text, "twice", 1, 32, [a, 32]).findings == ()
    assert a.min() == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entry": "none"}, "no entry 'none' in the PTX; it has: twice"),
        ({"args": [np.zeros(4, np.float32)]}, "takes 2 arguments"),
        ({"args": [np.zeros(4, np.float32), np.float64(1)]}, "of 4 bytes, got float64 1.0"),
        ({"args": [5.5, 3]}, "argument 0"),
        ({"args": [np.zeros(4, np.float32), 2**40]}, "got int 1099511627776"),
        ({"args": [np.zeros((4, 4), np.float32).T, 3]}, "not contiguous"),
        ({"block": 2048}, "expected at most"),
        ({"block": (64, 32)}, "2048 threads"),
        ({"grid": (1, 70000)}, "grid: expected at most"),
        ({"grid": 0}, "grid: expected"),
        ({"smem_bytes": 200_000}, "a block of sm_80 may have"),
        ({"checks": "everything"}, "got 'everything'"),
    ],
)
def test_bad_launch(change: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"entry": "twice", "grid": 1, "block": 32,
                                "args": [np.zeros(32, np.float32), 32]} | change  # fmt: skip
    with pytest.raises(WrongUsage, match=message):
        launch(PTX, **given)  # type: ignore[arg-type]


def test_what_a_file_says_moves_no_cursor(run_ptx: Any, capfd: pytest.CaptureFixture[str]) -> None:
    text = PTX.replace("add.f32", "addd.f32 /* \x1b[2J */")
    with pytest.raises(WrongUsage) as refused:
        launch(text, "twice", 1, 32, [np.zeros(32, np.float32), 32])
    assert "addd.f32" in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_printf(run_cuda: Any, capfd: pytest.CaptureFixture[str]) -> None:
    source = """
    extern "C" int printf(const char*, ...);
    __global__ void k(double x) {
      if (threadIdx.x == 3) printf("\\033[2J%d of %5.2f%% %lld %x\\n", threadIdx.x, x, -5ll, 255);
    }"""
    assert run_cuda(source, 1, 32, [2.5]).findings == ()
    assert capfd.readouterr().err == "?[2J3 of  2.50% -5 ff\n"


def test_endless_kernel_is_stopped(run_ptx: Any) -> None:
    result = run_ptx("L: bra L;", [], [], block=64, limit_s=0.2)

    assert [f.kind for f in result.findings] == ["limit"]
    assert "64 threads (0..63) at line" in result.findings[0].message


def test_many_registers_and_large_call_buffers_fit(run_ptx: Any) -> None:
    """A thread's stack is as large as its PTX can need: values must survive a rendezvous."""
    count = 3000
    body = [f".reg .b32 %r<{count}>, %t; .reg .b64 %p; .param .b8 big[400000];"]
    body.append("mov.u32 %t, %tid.x; ld.param.u64 %p, [out]; mad.wide.u32 %p, %t, 4, %p;")
    body += [f"add.u32 %r{i}, %t, {i};" for i in range(count)]
    body.append("st.param.b32 [big+399996], %t; bar.warp.sync -1; ld.param.b32 %t, [big+399996];")
    body += [f"xor.b32 %t, %t, %r{i};" for i in range(count)]
    body.append("st.global.u32 [%p], %t;")
    out = np.zeros(32, np.uint32)

    assert run_ptx("\n".join(body), [out], [".u64 out"], block=32).findings == ()

    want = [t ^ np.bitwise_xor.reduce(t + np.arange(count)) for t in range(32)]
    assert out.tolist() == want
