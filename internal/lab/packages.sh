#!/bin/sh
# Installs what building, running and testing Seedbed needs on Debian, when it is
# not there yet: packages.sh [WHAT…], each run, test, deb, bench, script, an engine of a
# larger installation (ceph, postgres, zookeeper), or dnsmasq, which the guests' resolver
# is measured beside. Needs root only if something is missing.
set -eu

run="gcc libc6-dev pkg-config libvirt-dev librados-dev librbd-dev libvirt-daemon libvirt-daemon-system libvirt-clients
	qemu-system-x86 qemu-utils iproute2 nftables debootstrap e2fsprogs fdisk grub-common grub-pc-bin procps openssh-client"
deb="gcc libc6-dev pkg-config libvirt-dev librados-dev librbd-dev make dpkg-dev debhelper"
ceph="ceph-mon ceph-mgr ceph-osd ceph-common qemu-block-extra radosgw"
postgres=postgresql
zookeeper="zookeeper default-jre-headless"
dnsmasq=dnsmasq-base
script="python3 debootstrap e2fsprogs xfsprogs btrfs-progs dosfstools fdisk"
test="$run $deb $ceph $postgres $zookeeper $script
	ovmf lintian systemd radvd frr rbd-nbd busybox-static udhcpc isc-dhcp-client dhcpcd-base dnsmasq-base iputils-ping curl cloud-init cloud-guest-utils
	python3-lxml swtpm swtpm-tools mtools systemd-boot-efi"

want=
for what in "${@:-test}"; do
	case $what in
	run | deb | test | script | ceph | postgres | zookeeper | dnsmasq) eval "want=\"\$want \$$what\"" ;;
	dir | sqlite | local) ;; # the embedded defaults need nothing
	bench) ;;                # nothing but Go
	*) echo "packages: expected run, test, deb, bench, script, ceph, postgres, zookeeper or dnsmasq, not $what" >&2; exit 2 ;;
	esac
done

missing=
for p in $want; do
	dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || missing="$missing $p"
done

# Any Node.js 18 or later will do, wherever it comes from.
[ "${1:-test}" != test ] || command -v npm >/dev/null || missing="$missing nodejs npm"

# Go 1.21 or later is enough: it fetches the toolchain that go.mod names.
if ! command -v go >/dev/null && ! ls /usr/local/go/bin/go /usr/lib/go-1.2[1-9]/bin/go >/dev/null 2>&1; then
	. /etc/os-release
	if [ "$VERSION_CODENAME" = bookworm ]; then
		missing="$missing golang-1.23-go"
		backports=yes
	else
		missing="$missing golang-go"
	fi
fi
[ -n "$missing" ] || exit 0

[ "$(id -u)" = 0 ] || { echo "packages: run as root, or install:$missing" >&2; exit 1; }
echo "installing:$missing"
log=$(mktemp)
trap 'rm -f "$log" "${list:-}"' EXIT
apt-get update >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
if [ "${backports:-}" = yes ] && ! apt-cache show golang-1.23-go >/dev/null 2>&1; then
	mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
		awk '$1 == "bookworm" && $2 == "main" { print $3; exit }')
	list=/etc/apt/sources.list.d/seedbed-build-backports.list
	echo "deb $mirror bookworm-backports main" >"$list"
	apt-get update >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
fi
case " $missing " in
*" cloud-init "*) # the tests want its programs; it must not set up this machine at the next boot
	mkdir -p /etc/cloud
	touch /etc/cloud/cloud-init.disabled
	;;
esac
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >"$log" 2>&1 ||
	{ tail -30 "$log" >&2; exit 1; }
