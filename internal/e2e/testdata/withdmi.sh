#!/bin/sh
# withdmi.sh DIR COMMAND…: runs a command as in a virtual machine that has the
# files of DIR/id in /sys/class/dmi/id, and the programs of DIR/bin. "ip netns
# exec" has given it mounts of its own already.
set -eu
dir=$1
shift
mkdir -p "$dir/net"
mount --bind /sys/class/net "$dir/net"
mount -t tmpfs tmpfs /sys/class
mkdir -p /sys/class/net /sys/class/dmi/id
mount --bind "$dir/net" /sys/class/net
cp "$dir"/id/* /sys/class/dmi/id/
mount --bind /dev/null /proc/1/environ # which would say so in a container
PATH=$dir/bin:$PATH exec "$@"
