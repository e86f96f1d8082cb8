#!/bin/sh
# Make a bare Debian tree the server that somebody would hand to `rift provision host`: SSH, sudo,
# GRUB, Python, nothing of libvirt. Run by mmdebstrap: customize.sh TREE PUBLIC_KEY OFFLINE_PACKAGES
set -eu
tree=$1 public_key=$2 packages=$3

echo gpu-host >"$tree/etc/hostname"
printf '127.0.0.1 localhost\n127.0.1.1 gpu-host\n' >"$tree/etc/hosts"
echo 'LABEL=root / ext4 errors=remount-ro 0 1' >"$tree/etc/fstab"
: >"$tree/etc/resolv.conf" # no name is ever looked up: everything it installs is on it

# The network card that SSH comes in by; the SR-IOV one is left alone.
cat >"$tree/etc/systemd/network/management.network" <<'END'
[Match]
Driver=virtio_net
[Network]
Address=10.0.2.15/24
Gateway=10.0.2.2
END
chroot "$tree" systemctl --quiet enable systemd-networkd
chroot "$tree" systemctl --quiet disable systemd-networkd-wait-online apt-daily.timer \
  apt-daily-upgrade.timer man-db.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer dpkg-db-backup.timer 2>/dev/null || :

chroot "$tree" useradd --create-home --shell /bin/bash admin
echo 'admin ALL=(ALL) NOPASSWD: ALL' >"$tree/etc/sudoers.d/admin"
chmod 440 "$tree/etc/sudoers.d/admin"
install -d -m 700 "$tree/home/admin/.ssh"
echo "$public_key" >"$tree/home/admin/.ssh/authorized_keys"
chroot "$tree" chown -R admin:admin /home/admin/.ssh
find "$tree/etc/ssh" -name 'ssh_host_*' ! -name '*ed25519*' -delete

# As the installer leaves it, but for the serial console. No graphics: they take a minute here.
sed -i -e 's/^GRUB_TIMEOUT=.*/GRUB_TIMEOUT=0/' -e 's/^#GRUB_TERMINAL=.*/GRUB_TERMINAL=console/' \
  -e 's/^GRUB_CMDLINE_LINUX=.*/GRUB_CMDLINE_LINUX="console=ttyS0"/' "$tree/etc/default/grub"
# "Targeted" in Debian's installer: a tenth of the drivers, and the same tools.
sed -i 's/^MODULES=.*/MODULES=dep/' "$tree/etc/initramfs-tools/initramfs.conf"

# What provisioning installs comes from a repository on the host itself, so that apt is real and
# no test depends on a mirror.
repository=$tree/srv/debian
install -d "$repository" "$repository/partial"
# shellcheck disable=SC2086
APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get install -qq --yes --download-only --no-install-recommends \
  -o Dir::Cache::archives="$repository" -o APT::Sandbox::User=root $packages >/dev/null
rm -rf "$repository/partial" "$repository/lock"
(cd "$repository" && for deb in *.deb; do
  dpkg-deb --field "$deb"
  printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$deb" "$(stat -c %s "$deb")" "$(sha256sum <"$deb" | cut -d' ' -f1)"
done >Packages)
