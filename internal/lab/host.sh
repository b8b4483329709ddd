#!/bin/bash
# Process 1 of another hypervisor on this machine, called in fresh mount, network
# and pid namespaces. It keeps from the host what two libvirtds would share:
# sockets, state, logs and configuration. Says "ready", and ends with its
# standard input; with it ends all that runs in its namespaces.
set -eu

mount --make-rprivate /
mount -t proc proc /proc
for dir in /run /var/lib/libvirt /var/log/libvirt /var/cache/libvirt; do
	mount -t tmpfs -o mode=755 tmpfs "$dir"
done
# The interfaces of its own network, and the control groups of all.
mkdir /run/cgroup
mount --rbind /sys/fs/cgroup /run/cgroup
umount -l /sys
mount -t sysfs sysfs /sys
mount --rbind /run/cgroup /sys/fs/cgroup
umount -l /run/cgroup
cp -a /etc/libvirt /run/etc-libvirt
rm -rf /run/etc-libvirt/{qemu,secrets} # the host's own domains, networks and keys
echo 'cgroup_controllers = []' >>/run/etc-libvirt/qemu.conf # both libvirtds would call their domains' the same
mount --bind /run/etc-libvirt /etc/libvirt
ip link set lo up
echo ready
# Not cat(1): this process has to take leave of daemons that end, and bash does.
read -r _ || true
