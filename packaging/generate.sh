#!/bin/sh
# Makes the files of the packages that are not programs: generate.sh BIN OUT writes the
# configuration file, the shell completions and the CLI's manual pages to OUT,
# with the programs in BIN.
set -eu
bin=$1 out=$2

mkdir -p "$out/etc" "$out/bash" "$out/zsh" "$out/fish" "$out/man"
"$bin/seedbedd" -example | sed -e 's/^#group: ""$/group: seedbed/' -e 's/^  #group: ""$/  group: seedbed-metadata/' >"$out/etc/seedbed.yaml"
[ "$(grep -cE '^(group: seedbed|  group: seedbed-metadata)$' "$out/etc/seedbed.yaml")" = 2 ] ||
	{ echo 'generate: the example configuration has no two lines #group: "" to set' >&2; exit 1; }
"$bin/seedbed" completion bash >"$out/bash/seedbed"
"$bin/seedbed" completion zsh >"$out/zsh/_seedbed"
"$bin/seedbed" completion fish >"$out/fish/seedbed.fish"
"$bin/seedbed" docs man "$out/man"
