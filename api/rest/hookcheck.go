package rest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"
)

const (
	defaultTolerance = 5 * time.Minute
	minTolerance     = time.Second
	// maxTolerance is far less than half the time for which deliveries are kept, so that a replay
	// within it is always recognised.
	maxTolerance = 24 * time.Hour
)

// needed are the actions that a caller must be allowed for a hook of its own that may ask for something.
var needed = map[string][]seedbed.Action{
	seedbed.DoCreate: {seedbed.ActionInstanceCreate}, seedbed.DoPlan: {seedbed.ActionInstanceCreate},
	seedbed.DoRemove: {seedbed.ActionInstanceRemove}, seedbed.DoRebuild: {seedbed.ActionInstanceRebuild},
	seedbed.DoStart: {seedbed.ActionInstancePower}, seedbed.DoStop: {seedbed.ActionInstancePower},
	seedbed.DoReboot: {seedbed.ActionInstancePower}, seedbed.DoMigrate: {seedbed.ActionInstanceMigrate},
	seedbed.DoNICAdd: {seedbed.ActionNICManage}, seedbed.DoNICRemove: {seedbed.ActionNICManage}, seedbed.DoNICSet: {seedbed.ActionNICManage},
	seedbed.DoResize: {seedbed.ActionInstanceResize}, seedbed.DoSet: {seedbed.ActionInstanceChange, seedbed.ActionInstanceResize},
	seedbed.DoRename: {seedbed.ActionInstanceResize}, seedbed.DoClone: {seedbed.ActionInstanceCreate},
	seedbed.DoSnapshot: {seedbed.ActionSnapshotCreate}, seedbed.DoSnapshotRemove: {seedbed.ActionSnapshotRemove},
	seedbed.DoSnapshotRestore: {seedbed.ActionSnapshotRestore}, seedbed.DoBackup: {seedbed.ActionBackupCreate},
	seedbed.DoVolumeAdd: {seedbed.ActionDiskManage}, seedbed.DoVolumeRemove: {seedbed.ActionDiskManage},
	seedbed.DoVolumeResize: {seedbed.ActionDiskManage}, seedbed.DoVolumeSet: {seedbed.ActionDiskManage},
	seedbed.DoVolumeMove:   {seedbed.ActionDiskManage},
	seedbed.DoVolumeAttach: {seedbed.ActionDiskAttach}, seedbed.DoVolumeDetach: {seedbed.ActionDiskAttach},
	seedbed.DoNetworkAdd: {seedbed.ActionNetworkManage}, seedbed.DoNetworkSet: {seedbed.ActionNetworkManage},
	seedbed.DoNetworkRemove:       {seedbed.ActionNetworkManage},
	seedbed.DoAddressAssociate:    {seedbed.ActionAddressManage, seedbed.ActionInstanceChange},
	seedbed.DoAddressDisassociate: {seedbed.ActionAddressManage, seedbed.ActionInstanceChange},
}

// neededFor returns the actions that a caller must be allowed for a hook of a project that may ask for something. A hook of the
// default project may protect the networks that it makes.
func neededFor(h seedbed.Hook, do string) []seedbed.Action {
	if h.Project == seedbed.DefaultProject && (do == seedbed.DoNetworkAdd || do == seedbed.DoNetworkSet) {
		return append([]seedbed.Action{seedbed.ActionNetworkProtect}, needed[do]...)
	}
	return needed[do]
}

// hookWithin returns a function that returns ErrForbidden if a hook may ask for what the caller may not do:
// who can sign its deliveries could do it.
func hookWithin(who server.Caller) func(seedbed.Hook) error {
	return func(h seedbed.Hook) error {
		asked := h.Actions
		if len(asked) == 0 {
			asked = []string{seedbed.DoCreate}
		}
		for _, do := range asked {
			for _, action := range neededFor(h, do) {
				if err := who.Need(action); err != nil {
					return fmt.Errorf("a hook that may ask for %s: %w", do, err)
				}
			}
		}
		return nil
	}
}

// hookRequest returns the request that would create h. It shares no memory with h, because a
// decoder writes into it.
func hookRequest(h seedbed.Hook) wire.HookRequest {
	r := wire.HookRequest{
		Name: h.Name, HookSettings: h.HookSettings, Profiles: slices.Clone(h.Profiles), Actions: slices.Clone(h.Actions), Tolerance: h.Tolerance,
	}
	r.CIDRs, r.Subjects = slices.Clone(h.CIDRs), slices.Clone(h.Subjects)
	if h.Form != nil {
		form := *h.Form
		r.Form = &form
	}
	return r
}

// keyed reports whether a new hook gets a key. An Alertmanager hook without a token identifies its
// senders by their certificates instead.
func keyed(r wire.HookRequest) bool {
	switch r.Scheme {
	case seedbed.SchemeNone:
		return !r.HookKey.Empty()
	case seedbed.SchemeAlertmanager:
		return !r.HookKey.Empty() || len(r.Subjects) == 0
	}
	return true
}

// hookOfRequest returns the hook that r, which has a qualified name, describes, with defaults set. It
// returns ErrInvalid for a hook that no scheme allows. The scheme's own rules are checked together with
// the keys.
func hookOfRequest(r wire.HookRequest) (seedbed.Hook, error) {
	h := seedbed.Hook{
		Name: r.Name, Project: seedbed.ProjectOf(r.Name), HookSettings: r.HookSettings,
		Profiles: r.Profiles, Actions: r.Actions, Tolerance: r.Tolerance,
	}
	h.Scheme = cmp.Or(h.Scheme, seedbed.SchemeStandard)
	if err := seedbed.CheckQualified("hook", h.Project, h.Name); err != nil {
		return h, err
	}
	if len(h.Profiles) > server.MaxListed {
		return h, server.Invalid("profiles: %d names: expected at most %d", len(h.Profiles), server.MaxListed)
	}
	for i, p := range h.Profiles {
		if _, err := seedbed.Meant(seedbed.PublishedProfile, seedbed.DefaultProject, p); err != nil {
			return h, err
		}
		if slices.Contains(h.Profiles[:i], p) {
			return h, server.Invalid("profiles: %q is given twice", p)
		}
	}
	for i, a := range h.Actions {
		if !slices.Contains(seedbed.Actions(), a) || slices.Contains(h.Actions[:i], a) {
			return h, server.Invalid("actions: %q: expected some of %s, each once", seedbed.Clip(a), strings.Join(seedbed.Actions(), ", "))
		}
	}
	if h.Tolerance == 0 {
		h.Tolerance = defaultTolerance
	}
	if h.Tolerance < minTolerance || h.Tolerance > maxTolerance {
		return h, server.Invalid("tolerance %s: expected nanoseconds from %s to %s, or 0 for %s",
			h.Tolerance, minTolerance, maxTolerance, defaultTolerance)
	}
	return h, nil
}
