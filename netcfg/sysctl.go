package netcfg

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"seedbed"
)

// The switches of the kernel that the metadata path rests on (Documentation/networking/ip-sysctl.rst).
const (
	keyFwmarkAccept = "net/ipv4/tcp_fwmark_accept"
	keyForward      = "net/ipv4/ip_forward"
	keyRPFilterAll  = "net/ipv4/conf/all/rp_filter"
)

func keyConf(iface, name string) string { return "net/ipv4/conf/" + iface + "/" + name }

// hostSysctls sets what holds for the whole namespace. Nothing here is ever
// switched off again: others may rely on it by then.
func hostSysctls(p *plan) error {
	if len(p.networks) == 0 {
		return nil
	}
	if err := setSysctl(keyFwmarkAccept, 1); err != nil {
		return err
	}
	if p.nat() {
		return setSysctl(keyForward, 1)
	}
	return nil
}

// bridgeSysctls sets what holds for one bridge.
func bridgeSysctls(bridge string) error {
	if err := setSysctl(keyConf(bridge, "accept_local"), 1); err != nil {
		return err
	}
	all, err := readSysctl(keyRPFilterAll)
	if err != nil {
		return err
	}
	return setSysctl(keyConf(bridge, "rp_filter"), wantRPFilter(all))
}

// wantRPFilter is the bridge's own rp_filter. The kernel takes the greater of
// it and conf/all: where that is strict (1), loose (2) on the bridge wins over
// it without weakening any other interface.
func wantRPFilter(all int) int {
	if all == 1 {
		return 2
	}
	return 0
}

// setSysctl writes a value only when it differs, and reads it back.
func setSysctl(key string, want int) error {
	have, err := readSysctl(key)
	if err != nil || have == want {
		return err
	}
	if err := os.WriteFile(sysctlPath(key), []byte(strconv.Itoa(want)), 0); err != nil {
		return seedbed.Errorf(seedbed.ErrUnavailable, "sysctl %s is %d and cannot be set to %d (%v): set it, or let this program write /proc/sys/net",
			sysctlName(key), have, want, err)
	}
	if have, err = readSysctl(key); err == nil && have != want {
		err = seedbed.Errorf(seedbed.ErrUnavailable, "sysctl %s is %d after %d was written", sysctlName(key), have, want)
	}
	return err
}

func readSysctl(key string) (int, error) {
	b, err := os.ReadFile(sysctlPath(key))
	if os.IsNotExist(err) {
		return 0, seedbed.Errorf(seedbed.ErrNotFound, "sysctl %s does not exist in this kernel", sysctlName(key))
	}
	if err != nil {
		return 0, err
	}
	v, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("sysctl %s: %w", sysctlName(key), err)
	}
	return v, nil
}

func sysctlPath(key string) string { return filepath.Join("/proc/sys", key) }

// sysctlName is the key as sysctl(8) has it; a dot in an interface name becomes a slash.
func sysctlName(key string) string { return strings.NewReplacer("/", ".", ".", "/").Replace(key) }
