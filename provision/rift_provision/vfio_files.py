"""The files that give PCI functions to vfio-pci at the earliest point of every boot.

Three layers, all by address and only if the same device still sits there:
1. a script in the initramfs, before udev starts and any driver is loaded: it sets driver_override,
   takes the function from a driver that is built into the kernel, and has vfio-pci probe it. It
   works with vfio-pci built in and as a module.
2. a udev rule, for a device that appears later (a rescan, a hot-plug), which also keeps the card
   and the bridges above it out of D3cold.
3. an option of vfio-pci that leaves idle cards in D0.
The script says what it did in /run/rift/bound, which outlives the initramfs.
"""

from __future__ import annotations

from collections.abc import Iterable

from rift_provision.facts import Facts
from rift_provision.facts.files import File
from rift_provision.facts.pci import PciFunction

DRIVER = "vfio-pci"
DEVICES = "/etc/rift/vfio-devices"
RULES = "/etc/udev/rules.d/10-rift-vfio.rules"
MODPROBE = "/etc/modprobe.d/rift-vfio.conf"
HOOK = "/etc/initramfs-tools/hooks/rift-vfio"
# Scripts are run in the order of their names; udev is one of them.
SCRIPT = "/etc/initramfs-tools/scripts/init-top/00-rift-vfio"
DRACUT = "/usr/lib/dracut/modules.d/01rift-vfio"
DRACUT_CONFIG = "/etc/dracut.conf.d/rift-vfio.conf"
PATHS = (
    *(DEVICES, RULES, MODPROBE, HOOK, SCRIPT, DRACUT_CONFIG),
    *(f"{DRACUT}/module-setup.sh", f"{DRACUT}/bind-vfio.sh"),
)
# Where vfio-pci is part of the kernel, modprobe.d is never read.
BUILTIN_D3 = "vfio-pci.disable_idle_d3=1"
HEAD = "# Written by rift provision; rift provision undo takes it away again.\n"

BIND = """#!/bin/sh
# Written by rift provision; rift provision undo takes it away again.
# Gives the PCI functions in a list to vfio-pci, before udev loads any other driver.
PREREQ=""
case "${1:-}" in
prereqs)
    echo "$PREREQ"
    exit 0
    ;;
esac

# In a subshell: dracut reads this file into its own shell.
(
    sys=${RIFT_SYS:-/sys}
    list=${RIFT_DEVICES:-/etc/rift/vfio-devices}
    run=${RIFT_RUN:-/run/rift}
    [ -r "$list" ] || exit 0
    modprobe -q vfio-pci 2>/dev/null # nothing to load where it is built in
    mkdir -p "$run"
    while read -r address ids; do
        case "$address" in '' | '#'*) continue ;; esac
        device=$sys/bus/pci/devices/$address
        if ! [ -e "$device/vendor" ]; then
            echo "$address is not there"
            continue
        fi
        read -r vendor <"$device/vendor"
        read -r id <"$device/device"
        if [ "${vendor#0x}:${id#0x}" != "$ids" ]; then
            echo "$address is ${vendor#0x}:${id#0x}, not $ids: left alone"
            continue
        fi
        echo vfio-pci >"$device/driver_override"
        driver=$(readlink "$device/driver")
        driver=${driver##*/}
        case "$driver" in
        vfio-pci) ;;
        ?*) echo "$address" >"$device/driver/unbind" ;;
        esac
        [ "$driver" = vfio-pci ] || echo "$address" >"$sys/bus/pci/drivers_probe"
        now=$(readlink "$device/driver")
        echo "$address driver ${now##*/}"
    done <"$list" >"$run/bound" 2>&1
)
"""

HOOK_TEXT = """#!/bin/sh
# Written by rift provision; rift provision undo takes it away again.
PREREQ=""
case "${1:-}" in
prereqs)
    echo "$PREREQ"
    exit 0
    ;;
esac
. /usr/share/initramfs-tools/hook-functions
manual_add_modules vfio-pci
mkdir -p "$DESTDIR/etc/rift" "$DESTDIR/etc/udev/rules.d"
cp -p /etc/rift/vfio-devices "$DESTDIR/etc/rift/"
cp -p /etc/udev/rules.d/10-rift-vfio.rules "$DESTDIR/etc/udev/rules.d/"
"""

DRACUT_TEXT = """#!/bin/bash
# Written by rift provision; rift provision undo takes it away again.
check() {
    return 0
}

depends() {
    return 0
}

installkernel() {
    hostonly='' instmods vfio-pci
}

install() {
    inst_simple /etc/rift/vfio-devices
    inst_multiple -o /etc/modprobe.d/rift-vfio.conf
    inst_rules /etc/udev/rules.d/10-rift-vfio.rules
    inst_multiple mkdir readlink modprobe
    inst_hook pre-udev 00 "$moddir/bind-vfio.sh"
}
"""


def binding(functions: Iterable[PciFunction], facts: Facts, initramfs_tool: str) -> dict[str, File]:
    """The files of layers 1 and 2, for a host with initramfs-tools or dracut."""
    functions = tuple(functions)
    files = {DEVICES: _file(_devices(functions)), RULES: _file(_rules(functions, facts))}
    if initramfs_tool == "dracut":
        files[f"{DRACUT}/module-setup.sh"] = _file(DRACUT_TEXT, "0755")
        files[f"{DRACUT}/bind-vfio.sh"] = _file(BIND, "0755")
        files[DRACUT_CONFIG] = _file(f'{HEAD}add_dracutmodules+=" rift-vfio "\n')
    else:
        files[HOOK] = _file(HOOK_TEXT, "0755")
        files[SCRIPT] = _file(BIND, "0755")
    return files


def modprobe(without_nouveau: bool, options: bool) -> dict[str, File]:
    """The file of layer 3, which also keeps nouveau out; none if it would say nothing."""
    lines = ["options vfio-pci disable_idle_d3=1"] if options else []
    lines += ["blacklist nouveau", "options nouveau modeset=0"] if without_nouveau else []
    return {MODPROBE: _file(HEAD + "".join(line + "\n" for line in lines))} if lines else {}


def _devices(functions: tuple[PciFunction, ...]) -> str:
    return HEAD + "".join(f"{one.address} {one.ids}\n" for one in functions)


def _rules(functions: tuple[PciFunction, ...], facts: Facts) -> str:
    override = f', ATTR{{driver_override}}="{DRIVER}"'
    lines = [_rule(one) + override + _awake(one) for one in functions]
    above = sorted({bridge for one in functions for bridge in one.bridges})
    bridges = [one for address in above if (one := facts.function(address))]
    lines += [_rule(one) + _awake(one) for one in bridges]
    return HEAD + "".join(line + "\n" for line in lines)


def _rule(one: PciFunction) -> str:
    return (
        f'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="{one.address}", '
        f'ATTR{{vendor}}=="0x{one.vendor}", ATTR{{device}}=="0x{one.device}"'
    )


def _awake(one: PciFunction) -> str:
    d3cold = ', ATTR{d3cold_allowed}="0"' if one.power.d3cold_allowed is not None else ""
    return ', ATTR{power/control}="on"' + d3cold


def _file(text: str, mode: str = "0644") -> File:
    return File(text, mode, 0, 0)
