#!/bin/bash
# The main job: run.sh [--once | --check]. Called by `make run`, which has built
# bin/ and the guest image. It runs on the embedded defaults unless STORAGE=ceph,
# STORE=postgres or COORDINATION=zookeeper say otherwise: those are started for it
# alone. Starts libvirtd when it is not there and the three daemons, posts one
# signed webhook, waits for the guest to report in, and takes down what it
# started. --check only looks whether it could be asked so.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$PWD/bin image=$PWD/.cache/debian.qcow2
once=${1:-}

engines=()
engine() { # engine NAME VALUE DEFAULT OTHER
	case $2 in
	"$3") ;;
	"$4") engines+=("$4") ;;
	*) echo "run: $1=$2 cannot be used: expected $3 (the default) or $4" >&2; exit 2 ;;
	esac
}
engine STORAGE "${STORAGE:=dir}" dir ceph
engine STORE "${STORE:=sqlite}" sqlite postgres
engine COORDINATION "${COORDINATION:=local}" local zookeeper
[ "$(id -u)" = 0 ] || { echo 'run: this needs root: it makes a bridge and starts virtual machines' >&2; exit 1; }
[ "$once" != --check ] || exit 0
state=$(mktemp -d /var/tmp/seedbed-run.XXXXXX)
chmod 0711 "$state" # QEMU's user passes through to the pool
config=$state/seedbed.yaml
cat >"$config" <<YAML
data_dir: $state
run_dir: $state/run
worker: {state: $state/worker, data_dir: $state/known}
libvirt:
  console_dir: $state/console
YAML
[ "$STORAGE" != dir ] || echo "storage: {pools: [{name: default, type: dir, path: $state/pools/default}]}" >>"$config"
mkdir -p "$state/run"
seedbed() { env -u XDG_CONFIG_HOME -u SEEDBED_URL -u SEEDBED_SOCKET HOME="$state" "$bin/seedbed" --socket "$state/run/control.sock" "$@"; }
say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
if ! [ -t 1 ]; then say() { printf '\n== %s\n' "$*"; }; fi

declare -A started=()
guest=web$RANDOM # a domain of that name may be there from someone else
job=
take_down() {
	status=$?
	trap - EXIT INT TERM
	set +e
	left=
	if [ $status -ne 0 ] && [ $status -ne 130 ] && [ $status -ne 143 ]; then
		for log in "$state"/*.log; do
			[ -s "$log" ] && { echo "--- last lines of $(basename "$log")"; tail -n 15 "$log"; } >&2
		done
	fi
	[ ${#started[@]} -gt 0 ] && say 'taking down what was started'
	if [ -n "$job" ]; then
		seedbed job cancel "$job" >/dev/null 2>&1 # refused when it has ended
		seedbed job watch "$job" --timeout 60s >/dev/null 2>&1
		if seedbed vm show "$guest" >/dev/null 2>&1; then
			seedbed vm remove "$guest" -y --timeout 60s >/dev/null || left="the virtual machine $guest"
		fi
	fi
	for daemon in seedbedd seedbed-worker seedbed-metadata; do
		[ -n "${started[$daemon]:-}" ] && kill "${started[$daemon]}" && wait "${started[$daemon]}"
	done 2>/dev/null
	if [ -n "${started[seedbed-metadata]:-}" ]; then
		"$bin/seedbed-metadata" --config "$config" --cleanup 2>"$state/cleanup.log" ||
			{ left="${left:+$left and }the bridge seedbed0"; cat "$state/cleanup.log" >&2; }
	fi
	if [ -n "${started[labctl]:-}" ]; then
		timeout 60 tail --pid="${started[labctl]}" -f /dev/null # should it still be starting
		"$bin/labctl" down -record "$state/lab/record.json" >/dev/null || left="${left:+$left and }${engines[*]}"
	fi
	for daemon in libvirtd virtlogd; do
		pid=${started[$daemon]:-}
		[ -n "$pid" ] && kill "$pid" && timeout 10 tail --pid="$pid" -f /dev/null
	done 2>/dev/null
	[ -n "${started[kvm]:-}" ] && chgrp root /dev/kvm && chmod 0600 /dev/kvm
	if [ -n "$left" ]; then
		echo "run: $left could not be removed; see the logs in $state" >&2
		exit 1
	fi
	rm -rf "$state"
	exit $status
}
trap take_down EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

await() { # await SECONDS WHAT COMMAND…: until COMMAND succeeds
	local end=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { echo "run: $what" >&2; exit 1; }
		sleep 0.1
	done
}

if ip link show seedbed0 >/dev/null 2>&1; then
	echo 'run: the bridge seedbed0 already exists: another Seedbed uses it, or was not cleaned up (seedbed-metadata --cleanup)' >&2
	exit 1
fi

say 'libvirt'
# Where udev does not run, /dev/kvm is root's alone. libvirt then takes KVM for
# there while it probes QEMU and for gone when it looks again, and probes anew at every call.
if [ -c /dev/kvm ] && [ "$(stat -c %a:%G /dev/kvm)" = 600:root ] && getent group kvm >/dev/null; then
	chgrp kvm /dev/kvm && chmod 0660 /dev/kvm
	started[kvm]=yes
fi
if ! virsh -c qemu:///system version >/dev/null 2>&1; then
	mkdir -p /run/libvirt && chmod 0755 /run/libvirt # libvirt would make it one that swtpm cannot enter
	if [ ! -S /run/libvirt/virtlogd-sock ] || ! pgrep -x virtlogd >/dev/null; then
		virtlogd -d -p "$state/virtlogd.pid"
		started[virtlogd]=$(<"$state/virtlogd.pid")
	fi
	libvirtd -d -p "$state/libvirtd.pid"
	started[libvirtd]=$(<"$state/libvirtd.pid")
	await 20 'libvirtd does not answer on qemu:///system' virsh -c qemu:///system version
fi
virsh -c qemu:///system version | sed -n 's/^Running hypervisor: /hypervisor: /p; s/^Using library: /library:    /p'

if [ ${#engines[@]} -gt 0 ]; then
	say "${engines[*]}"
	setsid "$bin/labctl" up -record "$state/lab/record.json" -config "$config" "${engines[@]}" &
	started[labctl]=$!
	wait $!
	[ "$STORE" != postgres ] || "$bin/seedbedd" migrate --config "$config"
fi

say 'daemons'
for daemon in seedbedd seedbed-worker seedbed-metadata; do
	# In a session of its own: Ctrl-C is for this script, which takes the guest down first.
	setsid "$bin/$daemon" --config "$config" >"$state/$daemon.log" 2>&1 &
	started[$daemon]=$!
done
await 20 "seedbedd does not answer: see $state/seedbedd.log" seedbed image list
echo "seedbedd, seedbed-worker and seedbed-metadata run; state in $state"

say 'image, profile, webhook'
seedbed image add debian "$image"
cat >"$state/user-data" <<'DATA'
#cloud-config
runcmd:
  - [sh, -c, 'echo "SEEDBED: $(hostname) configured itself" >/dev/console']
  - [sh, -c, 'ip -4 route show | sed "s/^/SEEDBED: route /" >/dev/console']
DATA
seedbed profile add web --image debian --vcpus 2 --memory 1GiB --user-data "$state/user-data" --ready report
seedbed hook add demo --profile web >/dev/null # the secret is kept for hook send

say 'one signed webhook'
answer=$(seedbed hook send demo --data '{"action":"create","name":"'$guest'","profile":"web"}' -f json)
accepted=$(date +%s.%N)
echo "$answer"
job=$(sed -nE 's/.*"job": ?"([^"]+)".*/\1/p' <<<"$answer")
seedbed job watch "$job" & # a signal ends a wait, not a foreground command
wait $!
ready=$(date +%s.%N)

say 'the guest'
seedbed vm show "$guest"
say 'what it was served'
seedbed metadata log "$guest" -n 40
say 'what its user-data printed'
seedbed vm log "$guest" --raw -n 400 | tr -d '\r' | grep '^SEEDBED' || true
say 'its console, last lines'
seedbed vm log "$guest" -n 12

say 'what it ran on'
seedbed doctor --daemon-config "$config" | grep -E '^[a-z]+ +(database|pool|coordination)' || true
say 'the API'
echo "http://127.0.0.1:7370/api/v1 (token in $state/admin.token), webhooks on http://127.0.0.1:7371/hooks/"
echo "or: $bin/seedbed --socket $state/run/control.sock vm list"
awk -v a="$accepted" -v r="$ready" 'BEGIN { printf "\nready_s %.1f s\n", r - a }'
[ -z "$once" ] || exit 0
echo 'Ctrl-C takes everything down.'
while :; do sleep 3600 & wait $!; done
