"""torch.export's errors, which are pages long, as one sentence and the model's own line."""

from __future__ import annotations

import io
import logging
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from rift_compiler.errors import Unsupported

_NOT_THE_MODEL = (f"{Path(torch.__file__).parent}/", f"{Path(__file__).parent}/")
_DATA = (
    "what to compute, or a size, depends on the data (a Python if, while, int(), float() or "
    ".item() of a tensor, or an op whose result's size is data)"
)
_ON_DATA = (GuardOnDataDependentSymNode, DataDependentOutputException, DynamicOutputShapeException)
_ON_DATA_TEXT = re.compile(r"data-dependent|Cannot cast FakeTensor|unbacked symbol")


def refusal(error: Exception) -> Unsupported:
    """What to tell the user when torch.export, or a decomposition, gave up."""
    text = str(error)
    line = model_line(text) or model_line("".join(traceback.format_tb(error.__traceback__)))
    if isinstance(error, _ON_DATA) or _ON_DATA_TEXT.search(text):
        return Unsupported(_DATA, line)
    sizes = re.match(r"Constraints violated \((.*?)\)", text)
    if sizes:
        return Unsupported(f"dynamic sizes {sizes[1]}: {_only_for(text)}", line)
    lines = [stripped for raw in text.splitlines() if (stripped := raw.strip())]
    return Unsupported(lines[0] if lines else type(error).__name__, line)


def not_one(text: str) -> frozenset[str]:
    """The dynamic sizes that torch.export would take, were they not allowed to be 1."""
    found = re.findall(
        r"Not all values of (\w+) = .* satisfy the generated guard .* != \d+\.", text
    )
    return frozenset(found)


def _only_for(text: str) -> str:
    """The sizes that torch says the model is good for."""
    found = re.search(r"Suggested fixes:\n(.*?)\n\n", text, re.DOTALL)
    fixes = [s.strip() for s in found[1].splitlines()] if found else []
    asked = [f for f in fixes if not f.startswith("_") and "Dim(" not in f]
    ranges = [f for f in fixes if not f.startswith("_") and "Dim(" in f]
    if not (asked or ranges):
        return text.splitlines()[1].strip(" -") if "\n" in text else text
    return f"the model works only with {', '.join([*asked, *ranges])}"


def model_line(text: str) -> str:
    """The last place of a traceback that is the model's, as file:line; one of torch's own layers
    where it names no other, and empty where it names none."""
    places = re.findall(r'File "([^"]+)", line (\d+)', text)
    places = [p for p in places if not p[0].startswith(_NOT_THE_MODEL[1])]
    own = [p for p in places if not p[0].startswith(_NOT_THE_MODEL[0])]
    layers = [p for p in places if "/torch/nn/" in p[0]]
    path, line = next((group[-1] for group in (own, layers) if group), ("", ""))
    return f"{path.rsplit('/', 1)[-1]}:{line}" if path else ""


@contextmanager
def quiet() -> Iterator[None]:
    """Without what torch.export logs and prints about a failure, which the refusal then says."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)
