"""PTX text to a Module."""

from __future__ import annotations

from dataclasses import replace

from rift.errors import WrongUsage
from rift_compiler.emulator import lex
from rift_compiler.emulator.parse_body import read_body
from rift_compiler.emulator.parse_variables import read_variables
from rift_compiler.emulator.ptx import Function, Module, Variable
from rift_compiler.emulator.reader import Reader

_LINKAGE = (".visible", ".extern", ".weak", ".common")
# Directives that say nothing about what a kernel computes: how many numbers each may take is free.
_TUNING = (
    ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg", ".noreturn",
    ".blocksareclusters",
)  # fmt: skip
# Directives that ask for a cluster of blocks.
_CLUSTER = (".reqnctapercluster", ".explicitcluster", ".maxclusterrank")


def parse(text: str) -> Module:
    """The module of a PTX text. Raises WrongUsage with the line where it is malformed."""
    read = Reader(tuple(lex.tokens(text)))
    version, target = (0, 0), ""
    variables: list[Variable] = []
    functions: dict[str, Function] = {}
    files: dict[int, str] = {}
    while read.peek().kind != "end":
        word = read.peek().text
        if word == ".version":
            read.next()
            version = _version(read)
        elif word == ".target":
            read.next()
            target = read.word("a target")
            while read.take(","):
                read.next()
        elif word == ".address_size":
            read.next()
            if (size := read.integer()) != 64:
                raise read.error("64-bit addresses", str(size))
        elif word == ".file":
            _file(read, files)
        elif word == ".section":
            _section(read)
        else:
            _definition(read, variables, functions)
    if not target:
        raise WrongUsage("not PTX: it has no .target line")
    return Module(version, target, tuple(variables), functions, files, text)


def _version(read: Reader) -> tuple[int, int]:
    text = read.next().text
    try:
        major, minor = text.split(".")
        return int(major), int(minor)
    except ValueError as error:
        raise read.error("a version such as 9.0", text) from error


def _file(read: Reader, files: dict[int, str]) -> None:
    read.next()
    number = read.integer()
    files[number] = read.next().text.strip('"')
    while read.take(","):
        read.integer()


def _section(read: Reader) -> None:
    """Debug sections are skipped whole."""
    while read.peek().text != "{":
        read.next_or_fail("a section's opening brace")
    depth = 0
    while True:
        text = read.next_or_fail("a closing brace").text
        depth += (text == "{") - (text == "}")
        if depth == 0:
            return


def _definition(read: Reader, variables: list[Variable], functions: dict[str, Function]) -> None:
    linkage = set()
    while read.peek().text in _LINKAGE:
        linkage.add(read.next().text)
    word = read.peek().text
    if word in (".func", ".entry"):
        function = _function(read)
        held = functions.get(function.name)
        if held is None or held.body is None:
            functions[function.name] = function
        elif function.body is not None:
            raise WrongUsage(f"PTX line {function.line}: {function.name} is defined twice")
    elif word in (".global", ".const", ".shared"):
        found = read_variables(read)
        variables += [replace(v, extern=".extern" in linkage) for v in found]
    else:
        raise read.error("a definition (.entry, .func, .global, .const, .shared)", word)


def _function(read: Reader) -> Function:
    line = read.peek().line
    entry = read.next().text == ".entry"
    returns = () if entry else _params(read)
    name = read.word("a function's name")
    params = _params(read)
    max_threads = _attributes(read)
    if read.take(";"):
        return Function(line, name, entry, returns, params, None)
    read.expect("{")
    body = read_body(read)
    return Function(line, name, entry, returns, params, body, max_threads)


def _attributes(read: Reader) -> int | None:
    """What follows a function's parameters; the most threads a block may have, where it says."""
    found: int | None = None
    while (word := read.peek().text).startswith("."):
        read.next()
        if word in _CLUSTER:
            sizes = _integers(read)
            if word == ".reqnctapercluster" and any(n != 1 for n in sizes):
                raise read.error("clusters of one block", f"{word} {sizes}")
        elif word in _TUNING:
            sizes = _integers(read)
            if word in (".maxntid", ".reqntid"):
                found = 1
                for n in sizes:
                    found *= n
        elif word == ".pragma":
            read.next()
            read.expect(";")
        else:
            raise read.error("a function's attribute", word)
    return found


def _integers(read: Reader) -> list[int]:
    found = []
    while read.peek().kind == "number":
        found.append(read.integer())
        read.take(",")
    return found


def _params(read: Reader) -> tuple[Variable, ...]:
    found: list[Variable] = []
    if not read.take("("):
        return ()
    while not read.take(")"):
        if read.peek().text == ".reg":
            raise read.error(".param", ".reg parameters (not supported)")
        found += read_variables(read, end=False)
        read.take(",")
    return tuple(found)
