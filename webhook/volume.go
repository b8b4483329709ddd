package webhook

import "seedbed"

// ofVolume reports whether an action is about a volume of a project.
func ofVolume(action string) bool {
	_, ok := seedbed.VolumeActions()[action]
	return ok
}

// volumeRequest returns the request of a payload whose action is about a volume. ErrInvalid names the member.
func (p payload) volumeRequest() (a asked, err error) {
	gives := p.Action == seedbed.DoVolumeAttach || p.Action == seedbed.DoVolumeDetach
	switch {
	case p.Profile+p.Image+p.Node+p.Expires+p.AtExpiry != "" || p.Params != nil || p.Network != nil || p.NICs != nil || p.NIC != nil ||
		p.Groups != nil || p.Hold != nil || p.Protected != nil:
		return a, invalid("%s is about a volume: expected only action, name, volume, instance and job options", p.Action)
	case !gives && p.Instance != "":
		return a, invalid("instance is for %s and %s: it cannot be set with %s", seedbed.DoVolumeAttach, seedbed.DoVolumeDetach, p.Action)
	}
	a.Action, a.Name = p.Action, p.Name
	if a.JobOptions, err = p.options(); err != nil {
		return a, err
	}
	o := &a.Volume
	switch p.Action {
	case seedbed.DoVolumeAdd:
		err = describe(p, &o.Add)
		if err == nil && o.Add.Name != "" && o.Add.Name != p.Name {
			err = invalid("volume has the name %q, and name is %q: expected one of them", seedbed.Clip(o.Add.Name), seedbed.Clip(p.Name))
		}
	case seedbed.DoVolumeResize:
		err = describe(p, &o.Resize)
	case seedbed.DoVolumeSet:
		err = describe(p, &o.Set)
	case seedbed.DoVolumeMove:
		err = describe(p, &o.Move)
	case seedbed.DoVolumeAttach:
		if p.Volume != nil {
			err = describe(p, &o.Attach)
		}
		if err == nil && o.Attach.Instance != "" {
			err = invalid("volume has an instance: expected it as instance")
		}
	default:
		if p.Volume != nil {
			err = invalid("volume cannot be set with %s", p.Action)
		}
	}
	if gives {
		o.Attach.Instance = p.Instance
	}
	return a, err
}

// describe decodes the member volume into a request of the API.
func describe(p payload, into any) error {
	if p.Volume == nil {
		return invalid("volume is missing: expected a map with what the API's request has to %s", p.Action)
	}
	return decodeInto("volume", p.Volume, into)
}

// allowsVolume returns ErrForbidden for a request about a volume that the hook may not make. One that is limited to profiles makes no
// clones and copies, changes none, and attaches to, or detaches from, instances of these profiles.
func allowsVolume(hook seedbed.Hook, req seedbed.Request) error {
	keep := req.Volume.Attach.Keep
	switch {
	case keep != nil && !*keep && !allowsAction(hook, seedbed.DoVolumeRemove):
		return seedbed.Errorf(seedbed.ErrForbidden, "the hook does not allow the action %q, which keep asks for", seedbed.DoVolumeRemove)
	case len(hook.Profiles) == 0:
		return nil
	case req.Volume.Add.Image+req.Volume.Add.From != "":
		return seedbed.Errorf(seedbed.ErrForbidden, "the hook does not allow an image or a copy: expected a size")
	case req.Action == seedbed.DoVolumeResize || req.Action == seedbed.DoVolumeSet || req.Action == seedbed.DoVolumeMove:
		return seedbed.Errorf(seedbed.ErrForbidden,
			"the hook does not allow all profiles, and the volume may be that of any instance: only a hook without profiles changes volumes")
	case req.Action == seedbed.DoVolumeDetach && req.Volume.Attach.Instance == "":
		return seedbed.Errorf(seedbed.ErrForbidden, "the hook does not allow all profiles: expected the instance that has the volume")
	}
	return nil
}
