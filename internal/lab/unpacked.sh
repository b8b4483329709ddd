#!/bin/sh
# Fetches and unpacks a package: unpacked.sh OUTPUT-DIR PACKAGE [SUITE]
# Without one, the suite is this machine's own. Nothing is installed, so no service starts. apt checks it as any package, with lists of its own, so this machine's are not touched. The mirror
# is that of this machine's apt configuration.
set -eu

out=$1 package=$2
own=$(. /etc/os-release && echo "$VERSION_CODENAME")
suite=${3:-$own}
mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
	awk -v s="$own" '$1 == s && $2 == "main" { print $3; exit }')
[ -n "$mirror" ] || { echo "unpacked: apt knows no mirror for $own main" >&2; exit 1; }

work=$(mktemp -d /var/tmp/seedbed-unpacked.XXXXXX)
trap 'rm -rf "$work"' EXIT INT TERM
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$work/sources.list"
apt() {
	apt-get -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root \
		-o Acquire::Languages=none "$@" >>"$work/log" 2>&1 || { tail -20 "$work/log" >&2; exit 1; }
}
apt update
(cd "$work" && apt download "$package/$suite")
dpkg-deb -x "$work"/*.deb "$work/root"

mkdir -p "$(dirname "$out")"
# Where another test has been quicker, its folder stays.
mv -T "$work/root" "$out" 2>/dev/null || [ -d "$out" ]
