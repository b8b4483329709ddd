#!/bin/sh
# Makes the root of another machine, which is all in its memory: machine.sh DIR
# TARBALL PROGRAM… puts the kernel to DIR/vmlinuz and the root to DIR/root. The
# kernel, its modules, udev and kmod come from the packages in TARBALL
# (debootstrap-tarball.sh); the programs, with the libraries that they need, are
# this machine's own, which is of the same release.
set -eu

dir=$1 tarball=$2
shift 2
root=$dir/root

mkdir -p "$dir/debs" "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib" "$root/usr/lib64" \
	"$root/proc" "$root/sys" "$root/dev" "$root/run" "$root/tmp" "$root/etc" "$root/var/tmp" "$root/var/log/ceph"
for d in bin sbin lib lib64; do
	ln -s usr/$d "$root/$d"
done
ln -s /run "$root/var/run"
ln -s /run/lock "$root/var/lock"

tar -C "$dir/debs" -xzf "$tarball" --strip-components=4 --wildcards \
	'*/linux-image-[0-9]*' '*/kmod_*' '*/libkmod2_*' '*/udev_*'
for deb in "$dir"/debs/*.deb; do
	dpkg-deb --fsys-tarfile "$deb" | tar -C "$root" -x --keep-directory-symlink
done
rm -r "$dir/debs"
mv "$root"/boot/vmlinuz-* "$dir/vmlinuz"
rm -r "$root/boot" "$root/usr/share"

# with copies a program to where it is here, with its libraries.
with() {
	for file in "$1" $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*' || true); do
		[ -e "$root$file" ] || { mkdir -p "$root${file%/*}" && cp -L "$file" "$root$file"; }
	done
}
for program in busybox sh "$@"; do
	with "$(command -v "$program")"
done
for program in "$root/usr/bin/kmod" "$root/usr/bin/udevadm"; do
	for file in $(ldd "$program" | grep -o '/[^ ]*' || true); do
		[ -e "$root$file" ] || { mkdir -p "$root${file%/*}" && cp -L "$file" "$root$file"; }
	done
done
chroot "$root" /sbin/depmod "$(basename "$root"/lib/modules/*)"
printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\ndisk:x:6:\n' >"$root/etc/group"
