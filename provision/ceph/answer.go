package ceph

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"

	"seedbed"
)

// parseRoom reads the monitors' answer to "df detail": the size of a pool and its free space, after
// replication and within the pool's quota. known is false until a manager has reported.
func parseRoom(answer []byte, pool string) (size, free seedbed.Bytes, known bool, err error) {
	var a struct {
		Pools []struct {
			Name  string `json:"name"`
			Stats struct {
				Stored   int64 `json:"stored"`
				MaxAvail int64 `json:"max_avail"`
				Quota    int64 `json:"quota_bytes"`
			} `json:"stats"`
		} `json:"pools"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return 0, 0, false, fmt.Errorf("answer of the monitors' df: %w", err)
	}
	for _, p := range a.Pools {
		if p.Name == pool {
			room := p.Stats.MaxAvail
			if p.Stats.Quota > 0 {
				room = min(room, max(p.Stats.Quota-p.Stats.Stored, 0))
			}
			free, size = seedbed.Bytes(room), seedbed.Bytes(room+p.Stats.Stored)
			return size, free, size > 0, nil
		}
	}
	return 0, 0, false, nil
}

// parseFull reads the answer of the monitors' "osd pool ls detail" and reports whether a pool is
// marked as full. The monitors set and clear the mark some seconds after the pool has reached its
// quota or has room again, and the OSDs go by the mark.
func parseFull(answer []byte, pool string) (bool, error) {
	var pools []struct {
		Name  string `json:"pool_name"`
		Flags string `json:"flags_names"`
	}
	if err := json.Unmarshal(answer, &pools); err != nil {
		return false, fmt.Errorf("answer of the monitors' osd pool ls: %w", err)
	}
	for _, p := range pools {
		if p.Name == pool {
			flags := strings.Split(p.Flags, ",")
			return slices.Contains(flags, "full") || slices.Contains(flags, "full_quota"), nil
		}
	}
	return false, nil
}

// parseMonitors reads the monitors' answer to "mon dump" and returns each monitor's address as
// host:port, separated by commas. It prefers addresses of the newer protocol (v2).
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
