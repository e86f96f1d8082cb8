"""GRUB's settings, against the shells that read them: dash, which is Debian's sh, and bash."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rift.errors import Blocked
from rift_provision import kernel_options
from rift_provision.grub_settings import ADD_TO, VARIABLES, GrubFile, command_line, edit
from rift_provision.kernel_options import Change
from rift_provision.shell_assignments import UNKNOWN, evaluate

SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]
ITSELF = "ITSELF"
NEW = ("intel_iommu=on", "iommu=pt")


def sourced(texts: Sequence[str], shell: str) -> dict[str, str]:
    """What the shell says the variables are after it has read the files."""
    script = "\n".join(texts) + "\n" + "\n".join(f'printf "%s\\0" "${name}"' for name in VARIABLES)
    posix = ["--norc", "--noprofile"] if shell == "bash" else []
    done = subprocess.run(
        [str(shutil.which(shell)), *posix],
        input=script.encode(),
        capture_output=True,
        env={"PATH": "/nowhere"},
    )
    return dict(zip(VARIABLES, done.stdout.decode().split("\0"), strict=False))


def files(*texts: str) -> list[GrubFile]:
    return [GrubFile(f"file{index}", text) for index, text in enumerate(texts)]


def edited(text: str, change: Change, shell: str = "dash") -> str:
    return edit(files(text), change, shell)[0].text


# What may stand in a value: any printable ASCII, in any of the ways to quote it.
CHARS = st.text(st.sampled_from("ab=,.:/ \t$`\"\\'#;&|()<>~!*{}\n-x"), max_size=8)


@st.composite
def quoted(draw: st.DrawFn) -> str:
    text = draw(CHARS)
    kind = draw(st.sampled_from(["single", "double", "backslash", "variable", "plain"]))
    if kind == "single":
        return "'" + text.replace("'", "") + "'"
    if kind == "double":
        return '"' + "".join("\\" + c if c in '$`"\\' else c for c in text) + '"'
    if kind == "backslash":
        return "".join("\\" + c for c in text.replace("\n", ""))
    if kind == "variable":
        name = draw(st.sampled_from([ITSELF, "GRUB_OTHER"]))
        return draw(st.sampled_from(['"${%s}"', '"$%s"', '"a $%s b"'])) % name
    return draw(st.sampled_from(["quiet", "splash", "console=tty0", ""]))


@st.composite
def line(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from([*VARIABLES, "GRUB_OTHER"]))
    value = "".join(draw(st.lists(quoted(), max_size=3))).replace(ITSELF, name)
    return draw(
        st.sampled_from(
            [
                f"{name}={value}",
                f"{name}={value} # a comment with ' and \"",
                f"  export {name}={value}",
                f"#{name}={value!r}",
                f"A=1 {name}={value}",
                f"{name}=x :",
                f"{name}={value};GRUB_OTHER=1",
                "# GRUB_CMDLINE_LINUX='",
                "",
                f"{name}=\\\n{value}",
            ]
        )
    )


FILES = st.lists(st.lists(line(), max_size=5).map("\n".join), min_size=1, max_size=3)


@settings(max_examples=100, deadline=None)
@given(FILES, st.sampled_from(SHELLS))
def test_values_are_what_the_shell_sees(texts: list[str], shell: str) -> None:
    texts = [text + "\n" for text in texts]
    seen = sourced(texts, shell)

    ours = evaluate(texts, shell)

    for name in VARIABLES:
        if UNKNOWN not in ours.value(name):
            assert ours.value(name) == seen[name]


@settings(max_examples=100, deadline=None)
@given(FILES, st.sampled_from(SHELLS))
def test_after_an_edit_the_shell_sees_the_old_words_and_the_new(
    texts: list[str], shell: str
) -> None:
    texts = [text + "\n" for text in texts]
    before = sourced(texts, shell)
    known = evaluate(texts, shell)  # half a quotation is no word to the kernel
    values = [*before.values(), *map(known.value, VARIABLES)]
    assume(not any(value.count('"') % 2 for value in values))

    after = sourced([file.text for file in edit(files(*texts), Change(add=NEW), shell)], shell)

    old = [word for name in VARIABLES for word in before[name].split()]
    new = [word for name in VARIABLES for word in after[name].split()]
    assume(not set(old) & set(NEW))
    assert [word for word in new if word not in NEW] == old
    assert tuple(word for word in new if word in NEW) == NEW


@settings(max_examples=100, deadline=None)
@given(FILES, st.sampled_from(SHELLS), st.data())
def test_a_word_is_taken_out_wherever_it_came_from(
    texts: list[str], shell: str, data: st.DataObject
) -> None:
    texts = [text + "\n" for text in texts]
    line = command_line(files(*texts), shell)
    words = kernel_options.words(line)
    assume(words and UNKNOWN not in line)
    gone = data.draw(st.sampled_from(words))
    try:
        after = [file.text for file in edit(files(*texts), Change(remove=(gone,)), shell)]
    except Blocked:
        return  # it belongs to another variable too, or is half of another word

    seen = sourced(after, shell)

    left = [word for name in VARIABLES for word in kernel_options.words(seen[name])]
    assert gone not in left


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('X="quiet"\n', 'X="quiet a=1"\n'),
        ("X='quiet'\n", "X='quiet a=1'\n"),
        ("X=quiet\n", 'X="quiet a=1"\n'),
        ("X=\n", 'X="a=1"\n'),
        ('X=""\n', 'X="a=1"\n'),
        ("X=''\n", "X='a=1'\n"),
        ('X="quiet" # keep "this"\n', 'X="quiet a=1" # keep "this"\n'),
        ('#X="old"\nX="quiet"\n', '#X="old"\nX="quiet a=1"\n'),
        ('X="old"\nX="quiet"\n', 'X="old"\nX="quiet a=1"\n'),
        ('X="dyndbg=\\"file a +p\\""\n', 'X="dyndbg=\\"file a +p\\" a=1"\n'),
        ('X="a \\\n  b"\n', 'X="a \\\n  b a=1"\n'),
        ('X="$GRUB_CMDLINE_LINUX"\n', 'X="$GRUB_CMDLINE_LINUX a=1"\n'),
        ("", 'X="a=1"\n'),
        ("GRUB_TIMEOUT=5", 'GRUB_TIMEOUT=5\nX="a=1"\n'),
        (
            'X="quiet"\nif true; then X="other"; fi\n',
            'X="quiet"\nif true; then X="other"; fi\nX="$X a=1"\n',
        ),
        ('X="quiet $(uname -r)"\n', 'X="quiet $(uname -r) a=1"\n'),
        ("X=quiet$(uname)\n", 'X=quiet$(uname)\nX="$X a=1"\n'),
        ('case a in a) X="b";; esac\n', 'case a in a) X="b";; esac\nX="$X a=1"\n'),
    ],
)
def test_where_a_word_is_added(before: str, after: str) -> None:
    before, after = before.replace("X", ADD_TO), after.replace("X", ADD_TO)

    assert edited(before, Change(add=("a=1",))) == after


@settings(max_examples=100, deadline=None)
@given(FILES, st.sampled_from(SHELLS))
def test_no_change_changes_no_byte(texts: list[str], shell: str) -> None:
    before = files(*texts)

    assert edit(before, Change(), shell) == before


@pytest.mark.parametrize(
    "text", ['X="quiet"\n', "X='quiet splash' # why\n", 'X="a $B"\n', 'X=""\n']
)
def test_what_was_added_can_be_taken_out_to_the_byte(text: str) -> None:
    before = text.replace("X", ADD_TO)

    assert edited(edited(before, Change(add=NEW)), Change(remove=NEW)) == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('X="quiet iommu=off splash"\n', 'X="quiet splash"\n'),
        ("X='iommu=off'\n", "X=''\n"),
        ("X=iommu=off\n", "X=\n"),
        ('X="iommu=off quiet"\n', 'X="quiet"\n'),
        ('A="iommu=off"\nX="quiet $A"\n', None),
        ('X="quiet"\nX="$X iommu=off"\n', 'X="quiet"\nX="$X"\n'),
        ('X="quiet iommu=off"\nX="$X splash"\n', 'X="quiet"\nX="$X splash"\n'),
    ],
)
def test_how_a_word_is_taken_out(before: str, after: str | None) -> None:
    before = before.replace("X", ADD_TO)
    if after is None:
        with pytest.raises(Blocked, match="edit by hand"):
            edited(before, Change(remove=("iommu=off",)))
    else:
        assert edited(before, Change(remove=("iommu=off",))) == after.replace("X", ADD_TO)


def test_a_plus_is_an_assignment_in_bash_alone() -> None:
    text = f'{ADD_TO}="quiet"\n{ADD_TO}+=" splash"\n'

    assert command_line(files(text), "bash") == "quiet splash"
    assert command_line(files(text), "dash") == "quiet"


def test_the_last_file_that_sets_it_is_edited() -> None:
    """A cloud image's grub.d overrides the main file; one that only adds to it does not."""
    main = f'{ADD_TO}="quiet splash"\n'
    cloud = f'{ADD_TO}="console=tty1 console=ttyS0"\n'
    kdump = f'{ADD_TO}="${ADD_TO} crashkernel=512M"\n'

    made = edit(files(main, cloud, kdump), Change(add=("a=1",)), "dash")

    assert [file.text for file in made] == [
        main,
        f'{ADD_TO}="console=tty1 console=ttyS0 a=1"\n',
        kdump,
    ]


@pytest.mark.parametrize(
    "text", ['X="quiet', "X='quiet", "X=$(echo", "cat <<END\nX=1\nEND\n", "if true; then X=1\n"]
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(Blocked, match="file0"):
        edited(text, Change(add=("a=1",)))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('a "b c" d="e f" g', ["a", '"b c"', 'd="e f"', "g"]),
        ("  console=tty0   console=ttyS0 ", ["console=tty0", "console=ttyS0"]),
        ("", []),
    ],
)
def test_words_of_the_kernel(line: str, words: list[str]) -> None:
    assert kernel_options.words(line) == words


def test_hugepages_belong_to_the_size_before_them() -> None:
    line = "hugepages=8 hugepagesz=1G hugepages=0:4,1:4 hugepagesz=2M hugepages=512"

    assert kernel_options.hugepages(line) == {
        "default": ["hugepages=8"],
        "1G": ["hugepagesz=1G", "hugepages=0:4,1:4"],
        "2M": ["hugepagesz=2M", "hugepages=512"],
    }
