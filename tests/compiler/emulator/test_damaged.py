"""Damaged PTX: an error that names the line, or a kernel; never anything else."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from rift.errors import WrongUsage
from rift_compiler.build_cuda import compile_cuda
from rift_compiler.emulator.parse import parse
from rift_compiler.emulator.translate import entry_of, translate

CORPUS = Path(__file__).with_name("corpus")
WORDS = ["%r1", "%p1", "0", "-1", "{", "}", "[", "]", ".f32", ".u64", ".v4", '"', "1.5", "%rd2",
         "_", "0f00000000", "99999999999999999999", ";", ",", ".b128", "@", "!", "|"]  # fmt: skip
PLACE = re.compile(r"line \d+|\.target|no entry|--entry")
PIECES = re.compile(r"\s+|[\w%$.:]+|.")


def damaged(lines: list[str], rng: random.Random) -> list[str]:
    out = list(lines)
    for _ in range(rng.choice([1, 1, 2])):
        i = rng.randrange(len(out))
        pieces = PIECES.findall(out[i]) or [""]
        j = rng.randrange(len(pieces))
        pieces[j] = rng.choice([
            "", rng.choice(WORDS), pieces[j] * 2, pieces[j][: len(pieces[j]) // 2],
            rng.choice(PIECES.findall(rng.choice(lines)) or [""]),
        ])  # fmt: skip
        out[i] = "".join(pieces)
    return out


@pytest.mark.parametrize("name", ["pipeline.cu", "specialised.cu"])
def test_damaged_text(name: str) -> None:
    source = (CORPUS / "tools.cuh").read_text() + (CORPUS / name).read_text()
    lines = compile_cuda(source, "sm_90a").ptx.splitlines()
    rng = random.Random(0)
    refusals = []
    for _ in range(60):
        try:
            module = parse("\n".join(damaged(lines, rng)))
            assert translate(module, entry_of(module, "matmul")).source
        except WrongUsage as error:
            refusals.append(str(error))
    assert 10 < len(refusals) < 60
    assert [r for r in refusals if not PLACE.search(r)] == []
