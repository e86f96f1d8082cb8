"""What the compiler raises when it will not compile something."""

from __future__ import annotations

from rift.errors import RiftError


class Unsupported(RiftError):
    """A refusal: the op, the argument or type of it that is not supported, and the model's line."""

    def __init__(self, what: str, source: str = "") -> None:
        super().__init__(f"unsupported: {what}" + (f" (at {source})" if source else ""))
