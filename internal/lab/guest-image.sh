#!/bin/sh
# Makes a bootable Debian guest image: guest-image.sh OUTPUT.qcow2 [SUITE]
# The image is stock Debian but for its package list. Needs root and debootstrap,
# and what bootable.sh does.
# Without SUITE, it is this machine's own. The mirror is that of its apt configuration.
set -eu

out=$1
packages=systemd,systemd-sysv,udev,dbus,ifupdown,isc-dhcp-client,cloud-init,cloud-guest-utils,fdisk,python3-cffi-backend,linux-image-cloud-amd64,netbase,iproute2,openssh-server,qemu-guest-agent
own=$(. /etc/os-release && echo "$VERSION_CODENAME")
suite=${2:-$own}
size_mib=2048

mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
	awk -v s="$own" '$1 == s && $2 == "main" { print $3; exit }')
[ -n "$mirror" ] || { echo "guest-image: apt knows no mirror for $own main" >&2; exit 1; }

work=$(mktemp -d /var/tmp/seedbed-guest.XXXXXX)
trap 'rm -rf "$work"' EXIT INT TERM
root=$work/root

debootstrap --variant=minbase --include="$packages" "$suite" "$root" "$mirror" >"$work/log" 2>&1 ||
	{ tail -20 "$work/log" >&2; exit 1; }
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
: >"$root/etc/machine-id" # made anew by each guest
"$(dirname "$0")/bootable.sh" "$root" "$size_mib" "$out" root=LABEL=root rw
