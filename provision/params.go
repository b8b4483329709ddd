package provision

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"seedbed"
)

// The bounds of what an instance may have, besides those of package seedbed.
const (
	maxSSHKeys = 100
	maxSSHKey  = 16 * seedbed.KiB
)

// shape is what a request may choose of an instance.
type shape struct {
	vcpus    int
	memory   seedbed.Bytes
	disk     seedbed.Bytes // zero means the image's size
	userData []byte
	sshKeys  []string
}

// params sets the fields of a shape by parameter name.
var params = map[string]func(*shape, any) error{
	"vcpus": func(s *shape, v any) error {
		n, ok := whole(v)
		if !ok {
			return seedbed.Errorf(seedbed.ErrInvalid, "param vcpus is %s: want a whole number from 1 to %d", kindOf(v), seedbed.MaxVCPUs)
		}
		s.vcpus = int(min(n, seedbed.MaxVCPUs+1))
		return nil
	},
	"memory": func(s *shape, v any) (err error) { s.memory, err = size("memory", v); return err },
	"disk": func(s *shape, v any) (err error) {
		if s.disk, err = size("disk", v); err == nil && s.disk == 0 {
			err = seedbed.Errorf(seedbed.ErrInvalid, "param disk is 0: want a size of at least the image's, or no param for the profile's")
		}
		return err
	},
	"user_data": func(s *shape, v any) error {
		text, ok := v.(string)
		if !ok {
			return seedbed.Errorf(seedbed.ErrInvalid, "param user_data is %s: want a string", kindOf(v))
		}
		s.userData = []byte(text)
		return nil
	},
	"ssh_keys": func(s *shape, v any) error {
		s.sshKeys = nil
		switch list := v.(type) {
		case []string:
			s.sshKeys = slices.Clone(list)
			return nil
		case []any:
			for _, e := range list {
				key, ok := e.(string)
				if !ok {
					return seedbed.Errorf(seedbed.ErrInvalid, "param ssh_keys has an element that is %s: want authorized_keys lines as strings", kindOf(e))
				}
				s.sshKeys = append(s.sshKeys, key)
			}
			return nil
		}
		return seedbed.Errorf(seedbed.ErrInvalid, "param ssh_keys is %s: want an array of authorized_keys lines", kindOf(v))
	},
}

// shapeOf is the profile's shape with the request's parameters in place of its own.
func shapeOf(p seedbed.Profile, given map[string]any) (shape, error) {
	s := shape{vcpus: p.VCPUs, memory: p.Memory, disk: p.DiskSize, userData: p.UserData, sshKeys: p.SSHKeys}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		set, ok := params[name]
		if !ok {
			return shape{}, seedbed.Errorf(seedbed.ErrInvalid, "param %q is unknown: want %s", clip(name), strings.Join(slices.Sorted(maps.Keys(params)), ", "))
		}
		if err := set(&s, given[name]); err != nil {
			return shape{}, err
		}
	}
	return s, s.check()
}

func (s shape) check() error {
	if err := cmp.Or(seedbed.CheckVCPUs(s.vcpus), seedbed.CheckMemory(s.memory), seedbed.CheckDisk("disk", s.disk)); err != nil {
		return err
	}
	if len(s.sshKeys) > maxSSHKeys {
		return seedbed.Errorf(seedbed.ErrInvalid, "ssh_keys has %d keys: want at most %d", len(s.sshKeys), maxSSHKeys)
	}
	for i, key := range s.sshKeys {
		if len(strings.Fields(key)) < 2 || len(key) > int(maxSSHKey) || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return seedbed.Errorf(seedbed.ErrInvalid, "ssh_keys has at position %d no authorized_keys line: want one line such as \"ssh-ed25519 AAAA… name\", at most %s", i+1, maxSSHKey)
		}
	}
	return nil
}

// size reads a size: a string such as "2GiB", or a whole number of bytes.
func size(param string, v any) (seedbed.Bytes, error) {
	if s, ok := v.(string); ok {
		b, err := seedbed.ParseBytes(s)
		if err != nil {
			return 0, seedbed.Errorf(seedbed.ErrInvalid, "param %s: %s", param, err)
		}
		return b, nil
	}
	n, ok := whole(v)
	if !ok || n < 0 {
		return 0, seedbed.Errorf(seedbed.ErrInvalid, "param %s is %s: want a size such as \"2GiB\", or a whole number of bytes", param, kindOf(v))
	}
	return seedbed.Bytes(n), nil
}

// whole reads a number as a JSON decoder or a Go caller may give it. Above 2^53
// a float64 is not exact, so such a number is not taken.
func whole(v any) (int64, bool) {
	switch n := v.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case float64:
		return int64(n), n == math.Trunc(n) && math.Abs(n) <= 1<<53
	case json.Number:
		i, err := n.Int64()
		return i, err == nil
	}
	return 0, false
}

// kindOf describes a JSON value without repeating it.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any, []string:
		return "an array"
	case map[string]any:
		return "an object"
	}
	if n, ok := whole(v); ok && n < 0 {
		return "negative"
	}
	return "a number that does not fit"
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
