#!/bin/sh
# Makes a bootable image of a small guest: small-image.sh DIR/small.qcow2
# It is the boot loader and the kernel of the Debian guest image, DIR/debian.qcow2, with a root of
# busybox in memory, whose process 1 is small-init.sh. Under emulation it boots in a tenth of the
# time that systemd and cloud-init take. Nothing is mounted.
set -eu

out=$1 guest=${1%/*}/debian.qcow2
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d /var/tmp/seedbed-small.XXXXXX)
trap 'rm -rf "$work"' EXIT INT TERM
root=$work/root
at='?offset=1048576' # of the image's only partition

qemu-img convert -f qcow2 -O raw "$guest" "$work/guest.raw"
from() { debugfs -R "$*" "$work/guest.raw$at" 2>/dev/null; }
version=$(from ls -p /usr/lib/modules | cut -d/ -f6 | grep '^[0-9]' | head -n 1)
mkdir -p "$root/bin" "$root/etc" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$work/disk" "$work/usr/lib/modules"
from rdump "/usr/lib/modules/$version" "$work/usr/lib/modules"
from dump "/boot/vmlinuz-$version" "$work/disk/vmlinuz"
# debugfs succeeds also if it finds nothing.
[ -n "$version" ] && [ -s "$work/disk/vmlinuz" ] || { echo "small-image: $guest has no kernel where Debian has it" >&2; exit 1; }

# The drivers that are not in the kernel itself, in the order in which they are loaded: what one needs is behind it.
modules=$work/usr/lib/modules/$version
drivers='virtio_pci virtio_net virtio_blk button evdev'
for driver in $drivers; do
	grep -qE "/$driver\\.ko" "$modules/modules.dep" "$modules/modules.builtin" ||
		{ echo "small-image: the kernel $version has no $driver" >&2; exit 1; }
done
for driver in $drivers; do
	sed -n "s|:||; /^[^ ]*\\/$driver\\.ko/p" "$modules/modules.dep" | tr ' ' '\n' | tac
done | awk 'NF && !seen[$0]++' | while read -r file; do
	cp "$modules/$file" "$root/etc/"
	echo "/etc/${file##*/}" >>"$root/etc/drivers"
done
cp /bin/busybox "$root/bin/"
printf 'hosts: files dns\nservices: files\n' >"$root/etc/nsswitch.conf" # a static program cannot load others
install -m 755 "$here/small-init.sh" "$root/init"
ln -s /init "$root/etc/lease"
(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null) | gzip -1 >"$work/disk/initrd.img"
"$here/bootable.sh" "$work/disk" 64 "$out" net.ifnames=0 rdinit=/init
