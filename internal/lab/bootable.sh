#!/bin/sh
# Makes a disk that boots from what a folder holds: bootable.sh ROOT MIB OUTPUT.qcow2 KERNEL-ARGUMENT…
# It has an MBR, GRUB and one ext4 partition with the label root, of MIB in all. ROOT has vmlinuz and
# initrd.img. Nothing is mounted. Needs grub-pc-bin, grub-common, e2fsprogs, fdisk, qemu-utils.
set -eu

root=$1 size_mib=$2 out=$3
shift 3
work=$(mktemp -d /var/tmp/seedbed-bootable.XXXXXX)
trap 'rm -rf "$work"' EXIT INT TERM
disk=$work/disk.raw

# no_timer_check: a kernel that is emulated on a busy machine may find that its timer does not work, and panic.
mkdir -p "$root/boot/grub"
cat >"$root/boot/grub/grub.cfg" <<CFG
set timeout=0
serial --unit=0 --speed=115200
terminal_output serial
linux /vmlinuz console=ttyS0 quiet no_timer_check $*
initrd /initrd.img
boot
CFG
truncate -s "${size_mib}M" "$disk"
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
