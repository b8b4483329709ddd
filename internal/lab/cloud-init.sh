#!/bin/sh
# Fetches and unpacks cloud-init's package of a Debian release: cloud-init.sh OUTPUT-DIR SUITE
# apt checks it as any package, with lists of its own, so this machine's are not touched. The mirror
# is that of this machine's apt configuration.
set -eu

out=$1 suite=$2
own=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
	awk -v s="$own" '$1 == s && $2 == "main" { print $3; exit }')
[ -n "$mirror" ] || { echo "cloud-init: apt knows no mirror for $own main" >&2; exit 1; }

work=$(mktemp -d /var/tmp/seedbed-cloud-init.XXXXXX)
trap 'rm -rf "$work"' EXIT INT TERM
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$work/sources.list"
apt() {
	apt-get -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root \
		-o Acquire::Languages=none "$@" >>"$work/log" 2>&1 || { tail -20 "$work/log" >&2; exit 1; }
}
apt update
(cd "$work" && apt download "cloud-init/$suite")
dpkg-deb -x "$work"/cloud-init_*.deb "$work/root"

mkdir -p "$(dirname "$out")"
# Where another test has been quicker, its folder stays.
mv -T "$work/root" "$out" 2>/dev/null || [ -d "$out" ]
