#!/bin/busybox sh
# Process 1 of another machine. Its 127.0.0.1 is the host's, so that what listens
# there is reached by the same address. Runs /command and says what it came to.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs dev /dev
$b mount -t tmpfs run /run
$b mkdir /run/lock
for m in virtio_pci virtio_net ext4; do
	modprobe "$m"
done
/lib/systemd/systemd-udevd --daemon
udevadm trigger --type=devices --action=add
udevadm settle
$b ip link set eth0 up
$b ip addr add 10.0.2.15/24 dev eth0
echo 1 >/proc/sys/net/ipv4/conf/eth0/route_localnet
$b ip route add default via 10.0.2.2
$b ip link set lo up
$b ip addr del 127.0.0.1/8 dev lo
$b ip route add 127.0.0.1/32 via 10.0.2.2
sh /command
echo "machine: command ended with status $?"
$b poweroff -f
