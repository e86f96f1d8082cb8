"""PTX text to a Module."""

from __future__ import annotations

from dataclasses import replace

from rift.errors import WrongUsage
from rift_compiler.emulator import lex
from rift_compiler.emulator.parse_operands import operand
from rift_compiler.emulator.ptx import (
    Close,
    Function,
    Instruction,
    Label,
    Module,
    Name,
    Not,
    Open,
    Registers,
    Statement,
    Targets,
    Variable,
)
from rift_compiler.emulator.reader import Reader
from rift_compiler.emulator.types import TYPES

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
        read.next()
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
        found = _variables(read)
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
    body = _body(read)
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
        found += _variables(read, end=False)
        read.take(",")
    return tuple(found)


def _variables(read: Reader, end: bool = True) -> list[Variable]:
    """`.space [.align n] .type name[n] [= {...}], ...;`"""
    space = read.next().text[1:]
    align, kind, width = 0, "", 1
    while read.peek().kind == "dotted":
        word = read.next().text[1:]
        if word == "align":
            align = read.integer()
        elif word in ("v2", "v4"):
            width = int(word[1])
        elif word == "attribute":
            read.skip_group("(", ")")
        elif word in TYPES:
            kind = word
        elif word not in ("ptr", "global", "const", "shared", "local", "param", "generic"):
            raise read.error("a type", f".{word}")
    if not kind:
        raise read.error("a type", read.peek().text)
    found = [_variable(read, space, kind, align, width)]
    while end and read.take(","):
        found.append(_variable(read, space, kind, align, width))
    if end:
        read.expect(";")
    return found


def _variable(read: Reader, space: str, kind: str, align: int, width: int) -> Variable:
    line, name = read.peek().line, read.word("a variable's name")
    element = max(1, TYPES[kind].bits // 8)
    count, unknown = width, False
    while read.take("["):
        if read.take("]"):
            unknown = True
            continue
        count *= read.integer()
        read.expect("]")
    initial, pointers = (b"", ()) if not read.take("=") else read.initialiser(kind, element)
    size = max(0 if unknown else count * element, len(initial))
    return Variable(
        line, space, name, kind, align or element * width, size, initial, tuple(pointers)
    )


def _body(read: Reader) -> tuple[Statement, ...]:
    found: list[Statement] = []
    source: tuple[int, int] | None = None
    depth = 1
    while True:
        token = read.next_or_fail("a closing brace")
        if token.text == "{":
            depth += 1
            found.append(Open(token.line))
        elif token.text == "}":
            depth -= 1
            if depth == 0:
                return tuple(found)
            found.append(Close(token.line))
        elif token.kind == "dotted":
            read.back()
            if token.text == ".loc":
                source = _loc(read)
            else:
                found += _directive(read)
        elif token.kind == "word" and read.peek().text == ":":
            read.next()
            found.append(_label(read, token))
        elif token.text != ";":
            read.back()
            found.append(replace(_instruction(read), source=source))


def _loc(read: Reader) -> tuple[int, int]:
    read.next()
    file, line, _ = read.integer(), read.integer(), read.integer()
    while read.take(","):
        if read.next().text == "function_name":
            read.next()
            if read.take("+"):
                read.integer()
        else:  # inlined_at
            for _ in range(3):
                read.integer()
    return file, line


def _label(read: Reader, token: lex.Token) -> Label | Targets:
    if read.peek().text != ".branchtargets":
        return Label(token.line, token.text)
    read.next()
    names = [read.word("a label")]
    while read.take(","):
        names.append(read.word("a label"))
    read.expect(";")
    return Targets(token.line, token.text, tuple(names))


def _directive(read: Reader) -> list[Statement]:
    token = read.peek()
    if token.text == ".reg":
        read.next()
        return _registers(read)
    if token.text in (".local", ".shared", ".param", ".global", ".const"):
        return list(_variables(read))
    if token.text == ".pragma":
        read.next()
        read.next()
        read.expect(";")
        return []
    raise read.error("a directive of a function's body", token.text)


def _registers(read: Reader) -> list[Statement]:
    kind = read.next().text[1:]
    if kind not in TYPES:
        raise read.error("a register type", kind)
    found: list[Statement] = []
    while True:
        line, name, count = read.peek().line, read.word("a register"), None
        if read.take("<"):
            count = read.integer()
            read.expect(">")
        found.append(Registers(line, kind, name, count))
        if not read.take(","):
            break
    read.expect(";")
    return found


def _instruction(read: Reader) -> Instruction:
    guard: Name | Not | None = None
    if read.take("@"):
        negated = read.take("!")
        name = Name(read.word("a predicate"))
        guard = Not(name) if negated else name
    token = read.next()
    if token.kind != "word":
        raise read.error("an instruction", token.text)
    modifiers = []
    while read.peek().kind == "dotted":
        modifiers.append(read.next().text[1:])
    operands = []
    while not read.take(";"):
        operands.append(operand(read))
        if not read.take(",") and read.peek().text not in (";", "("):
            raise read.error("a comma or a semicolon", read.peek().text)
    return Instruction(token.line, token.text, tuple(modifiers), tuple(operands), guard)
