package intake

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"seedbed"
	"seedbed/provision/template"
)

// CheckProfile checks the parts of a profile that the database cannot: its parameters and
// expressions, each with its position; its documents, as far as they are known before there is an
// instance; and its datasource, metadata options and tags. It evaluates what depends neither on an
// instance nor on a parameter without a default. What the profile names is read from parts. The
// error is of kind seedbed.ErrInvalid, or that of parts.
func (in *Intake) CheckProfile(ctx context.Context, parts seedbed.PartReader, p seedbed.Profile) error {
	f, err := newFields(p.Params, p.Expressions)
	if err != nil {
		return err
	}
	if err := f.cycle(); err != nil {
		return err
	}
	m := tailored{Profile: p, params: map[string]any{}}
	if err := try(ctx, parts, f, &m); err != nil {
		return err
	}
	if err := checkScript(m); err != nil {
		return err
	}
	// Values that only a request sets must not prevent the other checks.
	m.VCPUs, m.Memory = cmp.Or(m.VCPUs, 1), cmp.Or(m.Memory, seedbed.GiB)
	s, err := shapeOf(m.Profile, nil)
	if err != nil {
		return err
	}
	src := in.sourcesOf(p.Ready, s)
	src.declared = p.Params
	r, err := src.read()
	if err != nil {
		return err
	}
	return r.check()
}

// checkScript refuses disks that need a script if there is none, and arguments that cannot be
// parsed. It does not check what the script will do, which may still change.
func checkScript(m tailored) error {
	if m.Script == "" {
		_, _, err := needsScript(m)
		return err
	}
	if m.Params == nil { // then arguments hold no expressions
		return nil
	}
	_, err := expanded(m.Profile, func(*template.Template) (string, error) { return "", nil })
	return err
}

// try evaluates what does not need an instance or a request.
func try(ctx context.Context, parts seedbed.PartReader, f *fields, m *tailored) error {
	own := m.Profile
	if err := f.known(own, "", *m); err != nil {
		return err
	}
	delete(f.values, "vm.name")
	if f.sure(slices.Collect(maps.Keys(partFields))...) {
		names, err := f.partNames()
		if err != nil {
			return err
		}
		if err := m.read(ctx, parts, names); err != nil {
			return err
		}
		f.learn(m.parts)
	}
	for _, name := range slices.Sorted(maps.Keys(f.texts)) {
		if !f.sure(name) {
			continue
		}
		if _, _, err := f.value(name); err != nil {
			return err
		}
	}
	if v, ok := f.values["profile.vcpus"].(int64); ok {
		m.VCPUs = int(min(v, seedbed.MaxVCPUs+1))
	}
	if v, ok := f.values["profile.memory"].(int64); ok {
		m.Memory = seedbed.Bytes(v)
	}
	if v, ok := f.values["profile.disk"].(int64); ok {
		m.DiskSize = seedbed.Bytes(v)
	}
	return nil
}

// sure reports whether the names can be evaluated now. There must be no cycle.
func (f *fields) sure(names ...string) bool {
	for _, name := range names {
		_, known := f.values[name]
		switch {
		case known:
		case f.texts[name] != nil:
			if !f.sure(f.texts[name].Names()...) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// CheckDocument checks a user-data document before it is stored, if it is a template: by itself,
// and for each profile that names it and declares parameters. The error is of kind
// seedbed.ErrInvalid, with the position, or the store's.
func (in *Intake) CheckDocument(ctx context.Context, name, data string) error {
	if !template.Is([]byte(data)) {
		return nil
	}
	read := func(declared []seedbed.Param) error {
		scope, err := template.DocumentScope(declared)
		if err == nil {
			_, err = template.Parse(scope, "userdata "+seedbed.Clip(name), []byte(data))
		}
		return err
	}
	if err := read(nil); err != nil {
		return err
	}
	all, err := in.store.ProfilesWith(ctx, name)
	if err != nil {
		return err
	}
	for _, p := range all {
		if err := read(p.Params); err != nil {
			return within("for profile "+p.Name, err)
		}
	}
	return nil
}
