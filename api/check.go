package api

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"seedbed"
)

// The bounds of what may be asked for, besides those of package seedbed.
const (
	minDisk     = seedbed.MiB
	maxUserData = seedbed.MiB
	maxSSHKeys  = 100
	maxListed   = 64
	maxPath     = 4096

	defaultTolerance = 5 * time.Minute
	minTolerance     = time.Second
	// maxTolerance is far less than half the time that deliveries are kept, so
	// that a replay within it is always recognised.
	maxTolerance = 24 * time.Hour
)

func invalid(format string, args ...any) error {
	return seedbed.Errorf(seedbed.ErrInvalid, format, args...)
}

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

func checkImage(req imageRequest) error {
	if err := seedbed.CheckName("image", req.Name); err != nil {
		return err
	}
	if err := seedbed.CheckName("pool", req.Pool); err != nil {
		return err
	}
	if len(req.Path) > maxPath || !path.IsAbs(req.Path) || strings.ContainsFunc(req.Path, control) {
		return invalid("path %q: want the absolute path of an image file on the worker's host", clip(req.Path))
	}
	if req.SHA256 != "" && !digestForm.MatchString(req.SHA256) {
		return invalid("sha256 %q: want 64 lower-case hexadecimal digits", clip(req.SHA256))
	}
	return nil
}

// checkProfile fills in what has a default and refuses what no host could run.
func (s *Server) checkProfile(req profileRequest) (seedbed.Profile, error) {
	ready, err := seedbed.ParseReady(string(req.Ready))
	if err != nil {
		return seedbed.Profile{}, err
	}
	p := seedbed.Profile{
		Name: req.Name, Image: req.Image, VCPUs: req.VCPUs, Memory: req.Memory, DiskSize: req.DiskSize,
		Network: req.Network, SSHKeys: req.SSHKeys, UserData: req.UserData, Ready: ready,
	}
	if p.Network == "" {
		p.Network = s.DefaultNetwork
	}
	if len(p.UserData) == 0 {
		p.UserData = nil // the guest is to get 404, not an empty document
	}
	return p, s.refuseProfile(p)
}

func (s *Server) refuseProfile(p seedbed.Profile) error {
	for _, n := range []struct{ kind, name string }{{"profile", p.Name}, {"image", p.Image}, {"network", p.Network}} {
		if err := seedbed.CheckName(n.kind, n.name); err != nil {
			return err
		}
	}
	err := cmp.Or(seedbed.CheckVCPUs(p.VCPUs), seedbed.CheckMemory(p.Memory), seedbed.CheckDisk("disk_size", p.DiskSize))
	switch {
	case err != nil:
		return err
	case p.DiskSize != 0 && p.DiskSize < minDisk:
		return invalid("disk_size is %s: want at least %s, or 0 for the image's own", p.DiskSize, minDisk)
	case len(p.SSHKeys) > maxSSHKeys:
		return invalid("ssh_keys: %d keys: want at most %d", len(p.SSHKeys), maxSSHKeys)
	case seedbed.Bytes(len(p.UserData)) > maxUserData:
		return invalid("user_data: %d bytes: want at most %s", len(p.UserData), maxUserData)
	}
	for i, key := range p.SSHKeys {
		if err := checkSSHKey(key); err != nil {
			return invalid("ssh_keys[%d]: %s", i, err)
		}
	}
	return s.CheckUserData(p.Ready, p.UserData)
}

type hookRequest struct {
	Name      string        `json:"name"`
	Profiles  []string      `json:"profiles"`
	Actions   []string      `json:"actions"`
	Tolerance time.Duration `json:"tolerance"`
}

func checkHook(req hookRequest) (seedbed.Hook, error) {
	h := seedbed.Hook{Name: req.Name, Profiles: req.Profiles, Actions: req.Actions, Tolerance: req.Tolerance}
	if err := seedbed.CheckName("hook", h.Name); err != nil {
		return h, err
	}
	if len(h.Profiles) > maxListed {
		return h, invalid("profiles: %d names: want at most %d", len(h.Profiles), maxListed)
	}
	for i, p := range h.Profiles {
		if err := seedbed.CheckName("profile", p); err != nil {
			return h, err
		}
		if slices.Contains(h.Profiles[:i], p) {
			return h, invalid("profiles: %q comes twice", p)
		}
	}
	for i, a := range h.Actions {
		if a != "create" && a != "remove" || slices.Contains(h.Actions[:i], a) {
			return h, invalid("actions: %q: want create, remove or both, each once", clip(a))
		}
	}
	if h.Tolerance == 0 {
		h.Tolerance = defaultTolerance
	}
	if h.Tolerance < minTolerance || h.Tolerance > maxTolerance {
		return h, invalid("tolerance %s: want nanoseconds that are %s to %s, or 0 for %s", h.Tolerance, minTolerance, maxTolerance, defaultTolerance)
	}
	return h, nil
}

func control(r rune) bool { return r < ' ' || r == 0x7f }
