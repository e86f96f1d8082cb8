"""PyTorch to fused kernels, by rewriting, through a small stack of readable IRs.

    compile(fn_or_module, example_inputs, target="cpu", dynamic=None) -> Compiled
    Unsupported   what a refusal raises: the op, its argument and the model's source line

See api.compile for shapes and element types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rift_compiler.errors import Unsupported

if TYPE_CHECKING:
    from rift_compiler.api import Compiled, compile

__all__ = ["Compiled", "Unsupported", "compile"]


def __getattr__(name: str) -> Any:
    """compile and Compiled are imported on use: they need torch, which takes seconds."""
    if name in ("compile", "Compiled"):
        from rift_compiler import api

        return getattr(api, name)
    raise AttributeError(name)
