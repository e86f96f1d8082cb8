"""A host as the files it showed: what every parser reads, wherever the files came from.

A tree holds a part of a host's file system (/proc, /sys, /etc, /boot, ...) and, under /commands,
what a few commands printed there. `collector` makes one, on this machine or through SSH; a
directory with such files is one too. Parsers look up paths as the host would: through its links.
"""

from __future__ import annotations

import gzip
import io
import os
import posixpath
import stat
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from rift.errors import Failed

FILE_LIMIT_BYTES = 4 << 20
TREE_LIMIT_BYTES = 256 << 20  # more is not what the collector sends
LINK_LIMIT = 40  # MAXSYMLINKS of Linux


@dataclass(frozen=True)
class Entry:
    """A file: its bytes, and who may do what with it."""

    content: bytes = b""
    mode: int = 0o644
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True)
class Tree:
    """Files and symbolic links by absolute path."""

    files: Mapping[str, Entry]
    links: Mapping[str, str] = field(default_factory=dict)
    _children: dict[str, set[str]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for path in (*self.files, *self.links):
            while path != "/":
                parent, name = posixpath.split(path)
                self._children.setdefault(parent, set()).add(name)
                path = parent

    def resolve(self, path: str) -> str:
        """The path with every link in it followed. Of a link that leads in circles: itself."""
        done, rest, hops = "/", path.strip("/").split("/"), 0
        while rest:
            done = posixpath.normpath(posixpath.join(done, rest.pop(0)))
            if done in self.links and hops < LINK_LIMIT:
                hops += 1
                target = posixpath.join(posixpath.dirname(done), self.links[done])
                done, rest = "/", posixpath.normpath(target).strip("/").split("/") + rest
        return done

    def entry(self, path: str) -> Entry | None:
        """The file at a path."""
        return self.files.get(self.resolve(path))

    def text(self, path: str) -> str | None:
        """A file's text, or None if the host has no such file. Bytes that are no UTF-8 are kept."""
        entry = self.entry(path)
        return entry.content.decode("utf-8", "surrogateescape") if entry else None

    def lines(self, path: str) -> list[str]:
        """A file's lines, none if there is no such file."""
        return (self.text(path) or "").splitlines()

    def value(self, path: str) -> str | None:
        """The one value that a file of sysfs shows, or None if it is absent or empty."""
        return (self.text(path) or "").strip() or None

    def number(self, path: str) -> int | None:
        """The number that a file shows, decimal or 0x..., or None."""
        try:
            return int(self.value(path) or "", 0)
        except ValueError:
            return None

    def names(self, directory: str) -> list[str]:
        """What is in a directory, sorted."""
        return sorted(self._children.get(self.resolve(directory), ()))

    def has(self, path: str) -> bool:
        """Whether there is a file or a directory."""
        found = self.resolve(path)
        return found in self.files or found in self._children

    def target(self, path: str) -> str | None:
        """The last name of where a link leads: a driver, a group's number."""
        parent, name = posixpath.split(path)
        link = self.links.get(posixpath.join(self.resolve(parent), name))
        return posixpath.basename(link) if link else None


def from_tar(data: BinaryIO) -> Tree:
    """The tree in a gzipped tar archive, in memory: nothing is unpacked. Raises Failed."""
    files: dict[str, Entry] = {}
    links: dict[str, str] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(_unzip(data)), mode="r:") as archive:
            for member in archive:
                path = "/" + member.name.strip("/")
                if member.issym():
                    links[path] = member.linkname
                elif file := archive.extractfile(member):
                    files[path] = Entry(file.read(), member.mode, member.uid, member.gid)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise Failed(f"facts: what came is not a whole tar.gz archive: {error}") from error
    return Tree(files, links)


def _unzip(data: BinaryIO) -> bytes:
    """All of it up to its checksum, so that half an archive is none, within a limit."""
    with gzip.GzipFile(fileobj=data) as file:
        whole = file.read(TREE_LIMIT_BYTES + 1)
    if len(whole) > TREE_LIMIT_BYTES:
        raise Failed(f"facts: more than {TREE_LIMIT_BYTES >> 20} MiB of files")
    return whole


def from_directory(root: Path) -> Tree:
    """The tree that lies under a directory, without following its links out of it."""
    files: dict[str, Entry] = {}
    links: dict[str, str] = {}
    for directory, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = Path(directory, name)
            inside = "/" + path.relative_to(root).as_posix()
            if path.is_symlink():
                links[inside] = os.readlink(path)
            elif stat.S_ISREG((seen := path.stat()).st_mode) and seen.st_size <= FILE_LIMIT_BYTES:
                mode = stat.S_IMODE(seen.st_mode)
                files[inside] = Entry(path.read_bytes(), mode, seen.st_uid, seen.st_gid)
    return Tree(files, links)


def to_tar(tree: Tree) -> bytes:
    """The tree as a gzipped tar archive, to record a host."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for path, target in sorted(tree.links.items()):
            link = tarfile.TarInfo(path.lstrip("/"))
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        for path, entry in sorted(tree.files.items()):
            file = tarfile.TarInfo(path.lstrip("/"))
            file.size, file.mode = len(entry.content), entry.mode
            file.uid, file.gid = entry.uid, entry.gid
            archive.addfile(file, io.BytesIO(entry.content))
    return data.getvalue()
