package ceph

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"

	"seedbed"
)

// parseRoom reads the answer of the monitors' "df": the room in a pool, as its
// users count it. known is false until a manager has reported.
func parseRoom(answer []byte, pool string) (size, free seedbed.Bytes, known bool, err error) {
	var a struct {
		Pools []struct {
			Name  string `json:"name"`
			Stats struct {
				Stored   int64 `json:"stored"`
				MaxAvail int64 `json:"max_avail"`
			} `json:"stats"`
		} `json:"pools"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return 0, 0, false, fmt.Errorf("answer of the monitors' df: %w", err)
	}
	for _, p := range a.Pools {
		if p.Name == pool {
			free, size = seedbed.Bytes(p.Stats.MaxAvail), seedbed.Bytes(p.Stats.MaxAvail+p.Stats.Stored)
			return size, free, size > 0, nil
		}
	}
	return 0, 0, false, nil
}

// parseMonitors reads the answer of the monitors' "mon dump": every monitor's
// address, host:port, separated by commas; that of the newer protocol (v2) where it has one.
func parseMonitors(answer []byte) (string, error) {
	var a struct {
		Mons []struct {
			Name  string `json:"name"`
			Addrs struct {
				Vec []struct {
					Type string `json:"type"`
					Addr string `json:"addr"`
				} `json:"addrvec"`
			} `json:"public_addrs"`
		} `json:"mons"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return "", fmt.Errorf("answer of the monitors' mon dump: %w", err)
	}
	var all []string
	for _, m := range a.Mons {
		best := ""
		for _, v := range m.Addrs.Vec {
			if _, _, err := net.SplitHostPort(v.Addr); err == nil && (best == "" || v.Type == "v2") {
				best = v.Addr
			}
		}
		if best != "" {
			all = append(all, best)
		}
	}
	if len(all) == 0 {
		return "", fmt.Errorf("the monitors' mon dump names no monitor with an address")
	}
	return strings.Join(all, ","), nil
}

// human is a size to read, with one decimal.
func human(b seedbed.Bytes) string {
	for _, u := range []struct {
		name string
		size seedbed.Bytes
	}{{"TiB", seedbed.TiB}, {"GiB", seedbed.GiB}, {"MiB", seedbed.MiB}, {"KiB", seedbed.KiB}} {
		if b >= u.size {
			return fmt.Sprintf("%.1f %s", float64(b)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d bytes", b)
}
