package config

import (
	"fmt"
	"path/filepath"
	"time"

	"seedbed"
)

// Scripts configures how the worker runs provisioning scripts. The limits are both the defaults and
// the maximum that a script's options may set.
type Scripts struct {
	Python    string        `yaml:"python"`
	CPUs      int           `yaml:"cpus"`
	Memory    seedbed.Bytes `yaml:"memory"`
	Processes int           `yaml:"processes"`
	// Time bounds all steps of a script together. Idle bounds the time for which a script waits for
	// an engine that does not come back.
	Time time.Duration `yaml:"time"`
	Idle time.Duration `yaml:"idle"`
	// Output bounds what one prints, Tmp what it keeps in its own /tmp.
	Output seedbed.Bytes `yaml:"output"`
	Tmp    seedbed.Bytes `yaml:"tmp"`
	// Privileged is the host's consent to scripts with that option, which are root of the host.
	Privileged bool `yaml:"privileged"`
	// Show holds files and directories of the host that scripts may read, in addition to the
	// system's own.
	Show []string `yaml:"show"`
}

func defaultScripts() Scripts {
	return Scripts{
		Python: "/usr/bin/python3", CPUs: 2, Memory: 2 * seedbed.GiB, Processes: 512,
		Time: 2 * time.Hour, Idle: 5 * time.Minute, Output: 16 * seedbed.MiB, Tmp: 2 * seedbed.GiB, Show: []string{},
	}
}

// scriptTimeouts returns the timeouts of the stages of a create that runs a script.
func scriptTimeouts() map[string]time.Duration {
	return map[string]time.Duration{
		"collect": time.Minute, "verify": time.Minute, "prepare-script": 2 * time.Minute,
		"setup": 10 * time.Minute, "create": 10 * time.Minute, "prepare": 30 * time.Minute, "install": 2 * time.Hour, "cleanup": 10 * time.Minute,
		"general-cleanup": 5 * time.Minute, "finish": 10 * time.Minute,
	}
}

func (k *checker) scripts(s Scripts) {
	k.need(filepath.IsAbs(s.Python), "scripts.python", s.Python, "an absolute path")
	k.count("scripts.cpus", s.CPUs, 1, 1024)
	k.count("scripts.processes", s.Processes, 16, 1_000_000)
	k.between("scripts.time", s.Time, time.Second, day)
	k.between("scripts.idle", s.Idle, 10*time.Second, day)
	room := func(key string, size seedbed.Bytes) {
		k.need(size >= 64*seedbed.MiB && size <= seedbed.TiB, key, size, "64MiB to 1TiB")
	}
	for i, path := range s.Show {
		clean := filepath.IsAbs(path) && filepath.Clean(path) == path && path != "/"
		k.need(clean, fmt.Sprintf("scripts.show[%d]", i), path, "an absolute path without . and .., and not /")
	}
	room("scripts.memory", s.Memory)
	room("scripts.tmp", s.Tmp)
	k.need(s.Output >= 64*seedbed.KiB && s.Output <= seedbed.GiB, "scripts.output", s.Output, "64KiB to 1GiB")
}
