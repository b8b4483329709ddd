#!/bin/sh
# Makes the data directory of an empty PostgreSQL cluster: postgres-cluster.sh OUTPUT-DIR BIN-DIR
# It belongs to the user postgres. Copies of it are clusters of their own.
set -eu

out=$1 bin=$2
work=$(mktemp -d /var/tmp/seedbed-postgres.XXXXXX)
trap 'rm -rf "$work"' EXIT INT TERM
chown postgres: "$work"
cd "$work" # which the user postgres may enter
setpriv --reuid=postgres --regid=postgres --init-groups \
	"$bin/initdb" -D "$work/data" -A trust -E UTF8 --locale=C.UTF-8 -N >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }

mkdir -p "$(dirname "$out")"
# Where another test has been quicker, its cluster stays.
cp -a "$work/data" "$out.$$"
mv -T "$out.$$" "$out" 2>/dev/null || { rm -rf "$out.$$"; [ -d "$out" ]; }
