package intake

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"seedbed"
)

// The limits of what an instance may have, in addition to those of package seedbed.
const (
	maxSSHKeys = 100
	maxSSHKey  = 16 * seedbed.KiB
	maxParam   = 4096 // bytes of a parameter that only a template reads
)

// shape holds the options that a request may set for an instance.
type shape struct {
	vcpus    int
	memory   seedbed.Bytes
	disk     seedbed.Bytes // zero means the image's size
	userData []byte
	sshKeys  []string

	vendorData   []byte
	vendorInUser bool
	datasource   seedbed.Datasource
	metadata     seedbed.MetadataOptions
	tags         map[string]string
	// bootFrom is what the firmware boots from, as seedbed.CheckBootFrom has it.
	bootFrom string
	// firmware is what the request says starts it; empty leaves that to its image. tpm gives it a TPM.
	firmware seedbed.Firmware
	tpm      bool
	// restart and priority are as seedbed.CheckRestart has them.
	restart  string
	priority int
	// cdrom is the ISO image for the CD-ROM drive, as the request names it.
	cdrom string
	// group is the placement group, as the request or the profile names it.
	group string
	// follow is how the user-data follows its profile. hold and protected are the values in the
	// request; nil leaves the profile's.
	follow          seedbed.Follow
	hold, protected *bool
	// rest are the parameters that only a template can read.
	rest map[string]any
}

// params sets the fields of a shape by parameter name.
var params = map[string]func(*shape, any) error{
	"vcpus": func(s *shape, v any) error {
		n, ok := whole(v)
		if !ok {
			return seedbed.Errorf(seedbed.ErrInvalid, "param vcpus is %s: expected a whole number from 1 to %d", kindOf(v), seedbed.MaxVCPUs)
		}
		s.vcpus = int(min(n, seedbed.MaxVCPUs+1))
		return nil
	},
	"memory": func(s *shape, v any) (err error) { s.memory, err = size("memory", v); return err },
	"disk": func(s *shape, v any) (err error) {
		if s.disk, err = size("disk", v); err == nil && s.disk == 0 {
			err = seedbed.Errorf(seedbed.ErrInvalid, "param disk is 0: expected at least the size of the image, or no param for the profile's size")
		}
		return err
	},
	"user_data": func(s *shape, v any) (err error) { s.userData, err = document64("user_data", v, false); return err },
	"user_data_base64": func(s *shape, v any) (err error) {
		s.userData, err = document64("user_data_base64", v, true)
		return err
	},
	"vendor_data": func(s *shape, v any) (err error) { s.vendorData, err = document64("vendor_data", v, false); return err },
	"vendor_data_base64": func(s *shape, v any) (err error) {
		s.vendorData, err = document64("vendor_data_base64", v, true)
		return err
	},
	vendorInUser: func(s *shape, v any) error {
		on, ok := v.(bool)
		if !ok {
			return seedbed.Errorf(seedbed.ErrInvalid, "param vendor_data_in_user_data is %s: expected true or false", kindOf(v))
		}
		s.vendorInUser = on
		return nil
	},
	"datasource": func(s *shape, v any) (err error) {
		name, err := word("datasource", v)
		if err == nil {
			s.datasource, err = seedbed.ParseDatasource(name)
		}
		return err
	},
	"tags": func(s *shape, v any) (err error) { s.tags, err = tags(s.tags, v); return err },
	"http_endpoint": func(s *shape, v any) (err error) {
		s.metadata.Endpoint, err = word("http_endpoint", v)
		return err
	},
	"http_tokens": func(s *shape, v any) (err error) {
		s.metadata.Tokens, err = word("http_tokens", v)
		return err
	},
	"http_put_response_hop_limit": func(s *shape, v any) error {
		n, ok := whole(v)
		if !ok || n < 1 || n > seedbed.MaxHopLimit {
			return seedbed.Errorf(seedbed.ErrInvalid, "param http_put_response_hop_limit is out of range or not a number: expected 1 to %d",
				seedbed.MaxHopLimit)
		}
		s.metadata.HopLimit = int(n)
		return nil
	},
	"instance_metadata_tags": func(s *shape, v any) (err error) {
		s.metadata.Tags, err = word("instance_metadata_tags", v)
		return err
	},
	"target_lifecycle_state": func(s *shape, v any) (err error) {
		s.metadata.TargetState, err = word("target_lifecycle_state", v)
		return err
	},
	"userdata": func(s *shape, v any) error {
		text, err := word("userdata", v)
		if err == nil {
			s.follow, err = seedbed.ParseFollow(text, "")
		}
		return err
	},
	"hold":      func(s *shape, v any) (err error) { s.hold, err = truth("hold", v); return err },
	"protected": func(s *shape, v any) (err error) { s.protected, err = truth("protected", v); return err },
	"metadata_by": func(s *shape, v any) (err error) {
		s.metadata.By, err = word("metadata_by", v)
		return err
	},
	"boot_from": func(s *shape, v any) (err error) {
		if s.bootFrom, err = word("boot_from", v); err != nil {
			return err
		}
		return seedbed.CheckBootFrom(s.bootFrom)
	},
	"firmware": func(s *shape, v any) error {
		name, err := word("firmware", v)
		if err == nil {
			s.firmware, err = seedbed.ParseFirmware(name)
		}
		return err
	},
	"tpm": func(s *shape, v any) error {
		on, err := truth("tpm", v)
		if err == nil {
			s.tpm = *on
		}
		return err
	},
	"restart": func(s *shape, v any) (err error) {
		if s.restart, err = word("restart", v); err != nil {
			return err
		}
		return seedbed.CheckRestart(s.restart, 0)
	},
	"restart_priority": func(s *shape, v any) error {
		n, ok := whole(v)
		if !ok {
			return seedbed.Errorf(seedbed.ErrInvalid, "param restart_priority is %s: expected a whole number from %d to %d", kindOf(v),
				-seedbed.MaxPriority, seedbed.MaxPriority)
		}
		s.priority = int(max(min(n, seedbed.MaxPriority+1), -seedbed.MaxPriority-1))
		return seedbed.CheckRestart("", s.priority)
	},
	"cdrom": func(s *shape, v any) (err error) { s.cdrom, err = word("cdrom", v); return err },
	"placement_group": func(s *shape, v any) error {
		group, ok := v.(string)
		if !ok {
			return seedbed.Errorf(seedbed.ErrInvalid, "param placement_group is %s: expected the name of a placement group, or an empty text",
				kindOf(v))
		}
		s.group = group
		return nil
	},
	"instance_id": func(s *shape, v any) (err error) {
		s.metadata.InstanceID, err = word("instance_id", v)
		return err
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
					return seedbed.Errorf(seedbed.ErrInvalid,
						"param ssh_keys has an element that is %s: expected authorized_keys lines as strings", kindOf(e))
				}
				s.sshKeys = append(s.sshKeys, key)
			}
			return nil
		}
		return seedbed.Errorf(seedbed.ErrInvalid, "param ssh_keys is %s: expected an array of authorized_keys lines", kindOf(v))
	},
}

// shapeOf returns the profile's options with the request's parameters in place of its own.
func shapeOf(p seedbed.Profile, given map[string]any) (shape, error) {
	s := shape{
		vcpus: p.VCPUs, memory: p.Memory, disk: p.DiskSize, userData: p.UserData, sshKeys: p.SSHKeys,
		vendorData: p.VendorData, vendorInUser: p.VendorDataInUserData, datasource: p.Datasource, metadata: p.Metadata, tags: maps.Clone(p.Tags),
		follow: p.Follow, bootFrom: p.BootFrom, group: p.PlacementGroup,
	}
	if err := s.followOf(given); err != nil {
		return shape{}, err
	}
	if s.datasource == "" {
		s.datasource = seedbed.DatasourceEC2
	}
	for _, pair := range documentParams {
		if given[pair[0]] != nil && given[pair[1]] != nil {
			return shape{}, seedbed.Errorf(seedbed.ErrInvalid, "params %s and %s are the same document: expected one of them", pair[0], pair[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		set, ok := params[name]
		if !ok {
			if s.rest == nil {
				s.rest = map[string]any{}
			}
			s.rest[name] = given[name]
			continue
		}
		if err := set(&s, given[name]); err != nil {
			return shape{}, err
		}
	}
	return s, s.check()
}

// followOf pins the user-data of a request that brings documents of its own, because these cannot
// follow anything.
func (s *shape) followOf(given map[string]any) error {
	for _, own := range []string{"user_data", "user_data_base64", "vendor_data", "vendor_data_base64", vendorInUser} {
		if given[own] == nil {
			continue
		}
		if given["userdata"] == string(seedbed.FollowLive) {
			return seedbed.Errorf(seedbed.ErrInvalid, "params userdata and %s contradict each other: what is live is the profile's", own)
		}
		s.follow = seedbed.FollowPinned
	}
	return nil
}

func (s shape) check() error {
	if err := cmp.Or(seedbed.CheckVCPUs(s.vcpus), seedbed.CheckMemory(s.memory), seedbed.CheckDisk("disk", s.disk)); err != nil {
		return err
	}
	if _, err := seedbed.ParseDatasource(string(s.datasource)); err != nil {
		return err
	}
	if err := cmp.Or(s.metadata.Check(), seedbed.CheckTags(s.tags)); err != nil {
		return err
	}
	if len(s.sshKeys) > maxSSHKeys {
		return seedbed.Errorf(seedbed.ErrInvalid, "ssh_keys has %d keys: expected at most %d", len(s.sshKeys), maxSSHKeys)
	}
	for i, key := range s.sshKeys {
		if len(strings.Fields(key)) < 2 || len(key) > int(maxSSHKey) ||
			strings.ContainsFunc(key, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return seedbed.Errorf(seedbed.ErrInvalid,
				"ssh_keys: key %d is not an authorized_keys line: expected one line such as \"ssh-ed25519 AAAA… name\", at most %s", i+1, maxSSHKey)
		}
	}
	return nil
}

// checkRest converts the parameters that a template of the recipe reads to values that it can use,
// and refuses the others.
func (s shape) checkRest(made recipe) error {
	for _, name := range slices.Sorted(maps.Keys(s.rest)) {
		if !made.reads(name) {
			return seedbed.Errorf(seedbed.ErrInvalid, "param %q is unknown: expected %s, or one that a template reads", seedbed.Clip(name),
				strings.Join(slices.Sorted(maps.Keys(params)), ", "))
		}
		switch v := s.rest[name].(type) {
		case bool:
			continue
		case string:
			if len(v) <= maxParam {
				continue
			}
		default:
			if n, ok := whole(v); ok {
				s.rest[name] = n
				continue
			}
		}
		return seedbed.Errorf(seedbed.ErrInvalid,
			"param %s has a value that templates cannot use: expected a string of at most %d bytes, a whole number, true or false",
			seedbed.Clip(name),
			maxParam)
	}
	return nil
}

// backupParams parses the parameters of a request to make a backup.
func backupParams(params map[string]any) (spec seedbed.BackupJob, err error) {
	rest := maps.Clone(params)
	target, ok := rest["target"].(string)
	if delete(rest, "target"); !ok {
		return spec, seedbed.Errorf(seedbed.ErrInvalid, "param target is missing, or is not a string: expected the name of a backup target")
	}
	spec.Target = target
	if full, given := rest["full"]; given {
		if spec.Full, ok = full.(bool); !ok {
			return spec, seedbed.Errorf(seedbed.ErrInvalid, "param full: expected true or false")
		}
		delete(rest, "full")
	}
	if exclude, given := rest["exclude"]; given {
		data, err := json.Marshal(exclude)
		if err == nil {
			err = json.Unmarshal(data, &spec.Exclude)
		}
		if err != nil || len(spec.Exclude) > seedbed.MaxBackupDisks {
			return spec, seedbed.Errorf(seedbed.ErrInvalid, "param exclude: expected a list of the names of at most %d volumes",
				seedbed.MaxBackupDisks)
		}
		delete(rest, "exclude")
	}
	if len(rest) > 0 {
		return spec, seedbed.Errorf(seedbed.ErrInvalid, "param %q is unknown: action %s accepts target, full and exclude",
			seedbed.Clip(slices.Sorted(maps.Keys(rest))[0]), seedbed.DoBackup)
	}
	return spec, seedbed.CheckTargetName(target)
}
