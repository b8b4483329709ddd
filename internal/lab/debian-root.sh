#!/bin/sh
# Makes a fresh Debian root: debian-root.sh CACHE DIR PACKAGE… unpacks Debian's
# minimum to DIR and installs the packages there. What debootstrap makes, with
# apt's lists and all downloads, is kept as CACHE: the next time needs no network.
# Needs root and debootstrap. The suite is this machine's own, and the mirror the
# one of its apt configuration.
set -eu

cache=$1 root=$2
shift 2
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
if ! [ -f "$cache" ] || [ "$(cat "$cache.holds" 2>/dev/null)" != "$suite $*" ]; then
	mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
		awk -v s="$suite" '$1 == s && $2 == "main" { print $3; exit }')
	[ -n "$mirror" ] || { echo "debian-root: apt knows no mirror for $suite main" >&2; exit 1; }
	work=$(mktemp -d /var/tmp/seedbed-root.XXXXXX)
	trap 'rm -rf "$work"' EXIT INT TERM
	debootstrap --variant=minbase "$suite" "$work/root" "$mirror" >"$work/log" 2>&1 ||
		{ tail -20 "$work/log" >&2; exit 1; }
	rm -f "$work"/root/var/cache/apt/archives/*.deb
	# What the host knows of its way to the mirror holds there too.
	cp /etc/resolv.conf "$work/root/etc/resolv.conf"
	for f in /etc/apt/apt.conf /etc/apt/apt.conf.d/*proxy*; do
		[ ! -f "$f" ] || cp "$f" "$work/root$f"
	done
	chroot "$work/root" sh -c 'apt-get update && apt-get install -y --no-install-recommends --download-only "$@"' - "$@" >"$work/log" 2>&1 ||
		{ tail -20 "$work/log" >&2; exit 1; }
	mkdir -p "$(dirname "$cache")"
	tar -C "$work/root" -cf "$cache.new" .
	echo "$suite $*" >"$cache.holds"
	mv "$cache.new" "$cache"
fi
mkdir -p "$root"
tar -C "$root" -xf "$cache"
# Nothing that is installed may start a service on the host: only once it is booted.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 0755 "$root/usr/sbin/policy-rc.d"
export DEBIAN_FRONTEND=noninteractive
log=$(chroot "$root" apt-get install -y --no-install-recommends "$@" 2>&1) || { echo "$log" | tail -20 >&2; exit 1; }
rm "$root/usr/sbin/policy-rc.d"
