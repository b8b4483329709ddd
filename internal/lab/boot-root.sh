#!/bin/sh
# Boots systemd in a Debian root: boot-root.sh ROOT. Called in fresh mount, pid,
# cgroup, uts and ipc namespaces and in the network namespace that it shall
# have; becomes its process 1. Nothing of the host's /dev, /run and /sys is written.
set -eu
root=$1

mount --bind "$root" "$root"
mount -t tmpfs dev "$root/dev"
while read -r name major minor; do
	mknod -m 666 "$root/dev/$name" c "$major" "$minor"
done <<'DEVICES'
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
DEVICES
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs run "$root/run"
cd "$root"
mkdir -p oldroot
pivot_root . oldroot
umount -l /oldroot
exec env -i container=seedbed-lab PATH=/usr/sbin:/usr/bin:/sbin:/bin \
	/lib/systemd/systemd --system --unit=multi-user.target --log-target=console --show-status=0 </dev/null
