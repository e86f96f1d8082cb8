#!/bin/sh
# Put the tree into the disk's partition, as the root that its files belong to. pack.sh DIRECTORY OFFSET
set -eu
cd "$1"
mkdir tree
tar --extract --numeric-owner --file tree.tar --directory tree
rm tree.tar
mkfs.ext4 -q -F -L root -d tree -E offset="$2",root_owner=0:0 disk.raw "$((($(stat -c %s disk.raw) - $2) / 1024))k"
cp tree/vmlinuz tree/initrd.img .
cp tree/etc/ssh/ssh_host_ed25519_key.pub host_key.pub
rm -r tree
