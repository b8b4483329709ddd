#!/bin/sh
# Keeps what debootstrap installs a machine from: debootstrap-tarball.sh OUTPUT PACKAGE,…
# makes it when it is not there for these packages, and prints the suite and the
# mirror. The suite is this machine's own, and the mirror the one of its apt
# configuration. Needs root and debootstrap; the second time needs no network.
set -eu

out=$1 packages=$2
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
	awk -v s="$suite" '$1 == s && $2 == "main" { print $3; exit }')
[ -n "$mirror" ] || { echo "debootstrap-tarball: apt knows no mirror for $suite main" >&2; exit 1; }
if ! [ -f "$out" ] || [ "$(cat "$out.holds" 2>/dev/null)" != "$suite $packages" ]; then
	work=$(mktemp -d /var/tmp/seedbed-tarball.XXXXXX)
	trap 'rm -rf "$work"' EXIT INT TERM
	debootstrap --variant=minbase --include="$packages" --make-tarball="$work/packages.tgz" "$suite" "$work/root" "$mirror" >"$work/log" 2>&1 ||
		{ tail -20 "$work/log" >&2; exit 1; }
	mkdir -p "$(dirname "$out")"
	chmod 0644 "$work/packages.tgz"
	mv "$work/packages.tgz" "$out.new"
	rm -f "$out.holds"
	mv "$out.new" "$out"
	echo "$suite $packages" >"$out.holds"
fi
echo "$suite $mirror"
