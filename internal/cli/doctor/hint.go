package doctor

import (
	"os"
	"os/exec"
	"path/filepath"

	"seedbed/internal/config"
)

// system is what hints depend on: how programs are started on this host.
type system struct {
	systemd string   // exists while systemd manages the host (sd_booted(3))
	units   []string // directories of unit files
	beside  string   // the directory of this program
	find    func(name string) (string, error)
}

func thisSystem() system {
	s := system{systemd: "/run/systemd/system", units: []string{"/etc/systemd/system", "/lib/systemd/system"}, find: exec.LookPath}
	if path, err := os.Executable(); err == nil {
		s.beside = filepath.Dir(path)
	}
	return s
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// unit reports whether systemd can start that unit.
func (s system) unit(name string) bool {
	if !exists(s.systemd) {
		return false
	}
	for _, dir := range s.units {
		if exists(filepath.Join(dir, name+".service")) {
			return true
		}
	}
	return false
}

// program returns the path of a program: beside this one, or in PATH or where administrators' are.
func (s system) program(name string) string {
	if path := filepath.Join(s.beside, name); s.beside != "" && exists(path) {
		return path
	}
	for _, at := range []string{name, "/usr/sbin/" + name} {
		if path, err := s.find(at); err == nil {
			return path
		}
	}
	return ""
}

// start says how a daemon of Seedbed is started on this host, with the configuration file.
func (s system) start(daemon, file string) string {
	if s.unit(daemon) {
		return "systemctl start " + daemon + ", or read its log: journalctl -u " + daemon
	}
	path := s.program(daemon)
	if path == "" {
		return "install " + daemon + ", and start it"
	}
	if file != config.DefaultPath {
		path += " -config " + file
	}
	return "start it: " + path
}

// startLibvirt says how libvirt is started on this host, or installed.
func (s system) startLibvirt() string {
	install := ""
	if s.program("libvirtd") == "" {
		install = "apt install libvirt-daemon-system qemu-system-x86"
		if exists(s.systemd) {
			return install // which starts it
		}
		install += " && "
	}
	if exists(s.systemd) {
		return "systemctl start libvirtd virtlogd"
	}
	return install + "virtlogd -d && libvirtd -d"
}
