package webhook

import (
	"errors"
	"slices"
	"strings"

	"seedbed"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// payload is the body of a delivery:
// {"action":"create","name":"web1","profile":"small","params":{"vcpus":2}}.
type payload struct {
	Action  string         `json:"action"`
	Name    string         `json:"name"`
	Profile string         `json:"profile"`
	Image   string         `json:"image"`
	Params  map[string]any `json:"params"`
	Node    string         `json:"node"`
	// Network is a name or, for network-add and network-set, a map.
	Network any                  `json:"network"`
	NICs    []seedbed.NICRequest `json:"nics"`
	Groups  []string             `json:"security_groups"`
	// Volume is for volume-add, volume-resize, volume-set, volume-move and volume-attach.
	Volume map[string]any `json:"volume"`
	// Instance is for address-associate, volume-attach and volume-detach. NIC is for address-associate, where nil means the first NIC, and
	// for nic-remove and nic-set.
	Instance string `json:"instance"`
	NIC      *int   `json:"nic"`
	// The job options, as text; Priority may be a whole number.
	OnFailure string `json:"on_failure"`
	Priority  any    `json:"priority"`
	After     string `json:"after"`
	// For a create; nil means the value of the profile.
	Hold      *bool `json:"hold"`
	Protected *bool `json:"protected"`
	// Expires and AtExpiry are as in seedbed.Request.
	Expires  string `json:"expires"`
	AtExpiry string `json:"at_expiry"`
}

// decode decodes a verified body: one JSON object with known members, each at most once and spelled
// exactly, and nothing after it. The error names the member, as a JSON pointer, and never its
// value.
func decode(body []byte) (payload, error) {
	var p payload
	if jsontext.Value(body).Kind() != '{' {
		return p, errors.New("the body is not a JSON object")
	}
	err := json.Unmarshal(body, &p, json.RejectUnknownMembers(true))
	if err == nil {
		return p, nil
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(e, jsontext.ErrDuplicateName) {
			return p, errors.New("member " + place(e.JSONPointer) + " is given twice")
		}
		return p, errors.New("the body is not valid JSON near " + place(e.JSONPointer))
	}
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		if errors.Is(e, json.ErrUnknownName) {
			return p, errors.New("member " + place(e.JSONPointer) + " is unknown: expected " + memberNames())
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(string(e.JSONPointer), "/"), "/")
		if m, ok := memberOf(name); ok {
			return p, errors.New("member " + place(e.JSONPointer) + " has the wrong type: expected " + m.want)
		}
		return p, errors.New("member " + place(e.JSONPointer) + " has the wrong type")
	}
	return p, errors.New("the body is not valid JSON")
}

func place(p jsontext.Pointer) string {
	if p == "" {
		return "its start or end"
	}
	return seedbed.Clip(string(p))
}

// request checks that all required members are set, and parses the job options. ErrInvalid names
// the member.
func (p payload) request() (asked, error) {
	switch {
	case p.Action == "":
		return asked{}, invalid("action is missing: expected one of %s", strings.Join(seedbed.Actions(), ", "))
	case p.Name == "":
		return asked{}, invalid("name is missing")
	case jobless(p.Action):
		return p.changeRequest()
	}
	if ofVolume(p.Action) {
		return p.volumeRequest()
	}
	network, isName := p.Network.(string)
	switch {
	case p.Volume != nil:
		return asked{}, invalid("volume is for actions on volumes: it cannot be set with %s", seedbed.Clip(p.Action))
	case p.Network != nil && !isName:
		return asked{}, invalid("network is of another type: expected the name of a network with %s", seedbed.Clip(p.Action))
	case p.Instance != "" || p.NIC != nil && !ofNIC(p.Action):
		return asked{}, invalid("instance is for %s, %s and %s, and nic for the first, %s and %s: they cannot be set with %s",
			seedbed.DoAddressAssociate, seedbed.DoVolumeAttach, seedbed.DoVolumeDetach, seedbed.DoNICSet, seedbed.DoNICRemove,
			seedbed.Clip(p.Action))
	case ofNIC(p.Action) && p.Params != nil:
		return asked{}, invalid("%s has no params: expected name, nics and nic", p.Action)
	case makes(p.Action) && p.Profile == "" && p.Image == "" && p.Params["cdrom"] == nil: // which comes with a blank disk
		return asked{}, invalid("profile is missing: expected a profile or an image")
	case !makes(p.Action) && (p.Hold != nil || p.Protected != nil || p.Image+network+p.Expires+p.AtExpiry != "" ||
		p.Node != "" && p.Action != seedbed.DoMigrate && p.Action != seedbed.DoClone || p.NICs != nil && !ofNIC(p.Action) || p.Groups != nil):
		return asked{}, invalid("hold, protected, expires, at_expiry, node, image, network, nics and security_groups are for create and plan, "+
			"node also for %s and %s, and nics also for %s and %s: they cannot be set with %s", seedbed.DoMigrate, seedbed.DoClone,
			seedbed.DoNICAdd, seedbed.DoNICSet, seedbed.Clip(p.Action))
	}
	options, err := p.options()
	if err != nil {
		return asked{}, err
	}
	return asked{Request: seedbed.Request{
		Action: p.Action, Name: p.Name, Profile: p.Profile, Image: p.Image, Params: p.Params, Node: p.Node, Network: network, NICs: p.NICs,
		NIC: p.NIC, SecurityGroups: p.Groups,
		Hold: p.Hold, Protected: p.Protected, Expires: p.Expires, AtExpiry: p.AtExpiry, JobOptions: options,
	}}, nil
}

// options returns the job options.
func (p payload) options() (o seedbed.JobOptions, err error) {
	if o.OnFailure, err = seedbed.ParseOnFailure(p.OnFailure); err != nil {
		return o, err
	}
	if p.Priority != nil {
		text, ok := priorityText(p.Priority)
		if !ok {
			return o, invalid("priority is of another type: expected a string or a whole number")
		}
		if o.Priority, err = seedbed.ParsePriority(text); err != nil {
			return o, err
		}
	}
	o.After = seedbed.JobID(p.After)
	return o, o.Check(kindOfJob(p.Action))
}

// kindOfJob returns the kind of the job that an action makes.
func kindOfJob(action string) seedbed.JobKind {
	switch {
	case makes(action):
		return seedbed.JobCreate
	case ofVolume(action):
		return seedbed.VolumeActions()[action]
	}
	return seedbed.JobKind(strings.ReplaceAll(action, "-", "_")) // the other actions that make jobs have the names of the kinds
}

// makes reports whether an action makes an instance, or would.
func makes(action string) bool { return action == seedbed.DoCreate || action == seedbed.DoPlan }

// ofNIC reports whether an action is about a NIC of an existing instance.
func ofNIC(action string) bool {
	_, ok := seedbed.NICActions()[action]
	return ok
}

// jobless reports whether an action makes no job, nor a plan of one.
func jobless(action string) bool { return slices.Contains(seedbed.JoblessActions(), action) }

// allowsAction reports whether hook may ask for action; a hook without a list may only create.
func allowsAction(hook seedbed.Hook, action string) bool {
	if len(hook.Actions) == 0 {
		return action == seedbed.DoCreate
	}
	return slices.Contains(hook.Actions, action)
}

// allowsProfile reports whether hook may use the profile with that qualified name; a hook without a list may
// use any.
func allowsProfile(hook seedbed.Hook, profile string) bool {
	return len(hook.Profiles) == 0 || slices.ContainsFunc(hook.Profiles, func(allowed string) bool {
		return seedbed.Explicit(allowed) == seedbed.Explicit(profile)
	})
}
