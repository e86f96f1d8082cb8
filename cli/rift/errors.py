"""What can go wrong, as one tree. Each leaf is an exit code of the command line.

RiftError
|- Failed          1  it was tried and did not work
|- WrongUsage      2  the command or a file it was given asks for something that does not exist
|- ChangesNeeded   3  a check found something to change first
`- Blocked         4  the machine's state forbids it; nothing was touched

A message says what, which, expected, got, and what to do.
"""

from __future__ import annotations


class RiftError(Exception):
    """Base of every error that is shown to a user without a traceback."""

    exit_code = 1


class Failed(RiftError):
    """Something was tried and did not work."""


class WrongUsage(RiftError):
    """A name, value or file given by the user is wrong."""

    exit_code = 2


class ChangesNeeded(RiftError):
    """A check found that something has to be changed first."""

    exit_code = 3


class Blocked(RiftError):
    """The state of the machine forbids it: refused before anything was touched."""

    exit_code = 4
