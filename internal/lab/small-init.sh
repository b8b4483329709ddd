#!/bin/busybox sh
# Process 1 of the small guest, and what its DHCP client calls. It does what a guest that tests need
# does of its own: it takes a lease, reads its instance ID and its user-data, runs those that are a
# shell script, and phones home as user-data say.
PATH=/bin
b=busybox # whose wget ends by a fault if it is given a time limit itself
imds=http://169.254.169.254

case ${1:-} in
bound)
	$b ip addr add "$ip/$mask" dev "$interface"
	set -- ${staticroutes:-${router:+0.0.0.0/0 $router}}
	while [ $# -ge 2 ]; do
		case $2 in
		0.0.0.0) $b ip route add "$1" dev "$interface" ;;
		*) $b ip route add "$1" via "$2" ;;
		esac
		shift 2
	done
	echo "search ${search:-$domain}" >/etc/resolv.conf
	for server in $dns; do
		echo "nameserver $server" >>/etc/resolv.conf
	done
	exit
	;;
?*) exit ;;
esac

$b mount -t proc proc /proc
$b --install -s /bin
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
exec >/dev/console 2>&1
while read -r driver; do
	insmod "$driver"
done </etc/drivers
# Any key or button ends it; Debian's kernel calls the power button one.
for button in /dev/input/event*; do
	(head -c 1 "$button" >/dev/null && poweroff -f) &
done
ip link set lo up
ip link set eth0 up
until udhcpc -q -f -n -t 5 -i eth0 -s /etc/lease; do
	# A network with IPv6 alone says by router advertisements what there is.
	if ip -6 addr show dev eth0 scope global | grep -q inet6; then
		imds='http://[fd00:ec2::254]'
		echo 'nameserver fd00:ec2::253' >/etc/resolv.conf
		break
	fi
	sleep 1
done
# A bridged network's other DHCP server names no route to the metadata, which the wire has.
case $imds in
*169.254*) ip route get 169.254.169.254 >/dev/null 2>&1 || ip route add 169.254.169.254 dev eth0 ;;
esac
until id=$(timeout 10 wget -q -O - $imds/latest/meta-data/instance-id); do
	sleep 1
done
echo "small: instance $id"
timeout 10 wget -q -O /tmp/user-data $imds/latest/user-data
awk '/^#!\/bin\/sh/ { on = 1 } /^--/ { on = 0 } on' /tmp/user-data >/tmp/script
sh /tmp/script
url=$(sed -n 's|^ *url: *\(http://[^ "]*\).*|\1|p' /tmp/user-data | head -n 1)
if [ -n "$url" ]; then
	until timeout 10 wget -q -O - --post-data "instance_id=$id&hostname=$(timeout 10 wget -q -O - $imds/latest/meta-data/local-hostname)" "$url"; do
		sleep 3
	done
fi
echo 'small: up'
while :; do
	sleep 3600
done
