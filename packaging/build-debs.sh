#!/bin/sh
# Builds the Debian packages: build-debs.sh DIST [VERSION]
# The tree is copied and built elsewhere, with the caller's Go caches, so that
# nothing is left in it; what comes out goes to DIST. VERSION replaces that of
# debian/changelog, for the test of upgrades.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
dist=$(cd "$1" && pwd)
version=${2:-}

PATH=$PATH:/usr/local/go/bin
for d in /usr/lib/go-1.2[1-9]/bin; do PATH=$PATH:$d; done
# debhelper gives a build a home of its own.
GOTOOLCHAIN=auto GOCACHE=$(go env GOCACHE) GOMODCACHE=$(go env GOMODCACHE)
GOFLAGS="$(go env GOFLAGS) -buildvcs=false"
export PATH GOTOOLCHAIN GOCACHE GOMODCACHE GOFLAGS

work=$(mktemp -d /var/tmp/seedbed-deb.XXXXXX)
trap 'rm -rf "$work"' EXIT INT TERM
mkdir "$work/seedbed"
tar -c --exclude=./.git --exclude=./.cache --exclude=./bin --exclude=./dist . | tar -x -C "$work/seedbed"
cd "$work/seedbed"
if [ -n "$version" ]; then
	{
		printf 'seedbed (%s) unstable; urgency=medium\n\n  * Built for a test.\n\n' "$version"
		printf ' -- %s  %s\n\n' "$(dpkg-parsechangelog -S Maintainer)" "$(date -R)"
		cat debian/changelog
	} >"$work/changelog"
	mv "$work/changelog" debian/changelog
fi
dpkg-buildpackage -b -us -uc -ui >"$work/log" 2>&1 || { tail -40 "$work/log" >&2; exit 1; }
rm -f "$dist"/seedbed_*.deb "$dist"/seedbed-worker_*.deb "$dist"/seedbed-metadata_*.deb "$dist"/seedbed-cli_*.deb
cp "$work"/*.deb "$dist/"
ls "$dist"/*.deb
