"""The backend of torch.compile(model, backend="rift"): inference on the CPU, by measured dispatch.

    options={"dispatch": "measure" | "again" | "ours", "inductor": False}   see dispatch.Options

Whatever our compiler refuses runs on torch's own kernels, and the logger `rift` says why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import fx

from rift.errors import WrongUsage
from rift_compiler.dispatch import Dispatcher, Options
from rift_compiler.torch_graph import graph_of

log = logging.getLogger("rift")
DISPATCH = ("measure", "again", "ours")


def rift(
    module: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """A callable for a captured graph. Raises WrongUsage for options that do not exist."""
    chosen = read_options(options or {}, mode)
    training = torch.is_grad_enabled() and any(
        v.requires_grad for v in inputs if isinstance(v, torch.Tensor)
    )
    if training:
        log.warning(
            "rift: torch's own kernels run, because gradients are recorded; "
            "for inference call the model under torch.no_grad()"
        )
        return module.forward
    return Dispatcher(graph_of(module), chosen)


def read_options(options: Mapping[str, Any], mode: str | None) -> Options:
    """The options of torch.compile. Raises WrongUsage for what is unknown."""
    if mode is not None:
        raise WrongUsage(f"backend rift: mode={mode!r} is Inductor's; use options={{...}}")
    known = [f.name for f in fields(Options)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise WrongUsage(
            f"backend rift: unknown options {', '.join(unknown)}: expected {', '.join(known)}"
        )
    chosen = Options(**options)
    if chosen.dispatch not in DISPATCH:
        raise WrongUsage(
            f"backend rift: dispatch={chosen.dispatch!r}: expected one of {', '.join(DISPATCH)}"
        )
    if not isinstance(chosen.inductor, bool):
        raise WrongUsage(f"backend rift: inductor={chosen.inductor!r}: expected True or False")
    return chosen
