package libvirt

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"seedbed"
)

// Usage is the load of this host.
type Usage struct {
	// Load is the load average over a minute.
	Load float64
	// MemoryFree is how much could be given to processes without swapping.
	MemoryFree seedbed.Bytes
}

// ReadUsage reads the load of this host (proc(5): loadavg, meminfo).
func ReadUsage() (u Usage, err error) {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return u, err
	}
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return u, err
	}
	if u.Load, err = ParseLoad(string(load)); err != nil {
		return u, err
	}
	u.MemoryFree, err = ParseMemAvailable(string(memory))
	return u, err
}

// ParseLoad reads the load average over a minute from /proc/loadavg.
func ParseLoad(text string) (float64, error) {
	first, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil || !(load >= 0 && load < 1e9) { // nor NaN
		return 0, fmt.Errorf("/proc/loadavg begins with %.20q: expected a number", first)
	}
	return load, nil
}

// ParseMemAvailable reads MemAvailable from /proc/meminfo.
func ParseMemAvailable(text string) (seedbed.Bytes, error) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		if name != "MemAvailable" {
			continue
		}
		number, unit, _ := strings.Cut(strings.TrimSpace(value), " ")
		kib, err := strconv.ParseUint(number, 10, 50)
		if err != nil || unit != "kB" {
			return 0, fmt.Errorf("MemAvailable in /proc/meminfo is %.40q: expected a number of kB", strings.TrimSpace(value))
		}
		return seedbed.Bytes(kib) * seedbed.KiB, nil
	}
	return 0, fmt.Errorf("/proc/meminfo has no MemAvailable")
}
