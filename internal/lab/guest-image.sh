#!/bin/sh
# Makes a bootable Debian guest image: guest-image.sh OUTPUT.qcow2 [SUITE]
# The image is stock Debian but for its package list. It has an MBR, one ext4
# partition and GRUB, and is made without mounting anything. Needs root
# (debootstrap), debootstrap, grub-pc-bin, grub-common, e2fsprogs, fdisk, qemu-utils.
# Without one, the suite is this machine's own. The mirror is that of its apt configuration.
set -eu

out=$1
packages=systemd,systemd-sysv,udev,dbus,ifupdown,isc-dhcp-client,cloud-init,cloud-guest-utils,fdisk,python3-cffi-backend,linux-image-cloud-amd64,netbase,iproute2,openssh-server
own=$(. /etc/os-release && echo "$VERSION_CODENAME")
suite=${2:-$own}
size_mib=2048

mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
	awk -v s="$own" '$1 == s && $2 == "main" { print $3; exit }')
[ -n "$mirror" ] || { echo "guest-image: apt knows no mirror for $own main" >&2; exit 1; }

work=$(mktemp -d /var/tmp/seedbed-guest.XXXXXX)
trap 'rm -rf "$work"' EXIT INT TERM
root=$work/root disk=$work/disk.raw

debootstrap --variant=minbase --include="$packages" "$suite" "$root" "$mirror" >"$work/log" 2>&1 ||
	{ tail -20 "$work/log" >&2; exit 1; }
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
: >"$root/etc/machine-id" # made anew by each guest
mkdir -p "$root/boot/grub"
cat >"$root/boot/grub/grub.cfg" <<'CFG'
set timeout=0
serial --unit=0 --speed=115200
terminal_output serial
linux /vmlinuz root=LABEL=root rw console=ttyS0 quiet
initrd /initrd.img
boot
CFG

truncate -s ${size_mib}M "$disk"
echo 'start=2048, type=83, bootable' | sfdisk -q "$disk"
mkfs.ext4 -q -L root -E offset=1048576 -d "$root" "$disk" $((size_mib - 1))M
grub-mkimage -O i386-pc -p '(hd0,msdos1)/boot/grub' -o "$work/core.img" \
	biosdisk part_msdos ext2 normal linux configfile serial terminal boot
# boot.img without its partition table goes to the MBR, core.img to the gap behind it,
# where boot.img looks for it by default.
dd if=/usr/lib/grub/i386-pc/boot.img of="$disk" bs=440 count=1 conv=notrunc status=none
dd if="$work/core.img" of="$disk" bs=512 seek=1 conv=notrunc status=none

mkdir -p "$(dirname "$out")"
qemu-img convert -f raw -O qcow2 "$disk" "$work/disk.qcow2"
mv "$work/disk.qcow2" "$out.new"
mv "$out.new" "$out"
