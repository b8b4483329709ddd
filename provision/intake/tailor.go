package intake

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"seedbed"
	"seedbed/provision/template"
)

// tailored is a profile resolved for one instance: its expressions are evaluated, its templates are
// read, and its parameters have values.
type tailored struct {
	seedbed.Profile
	// parts has the disks of an OVA image before those of the storage template. For a profile with
	// a script, system, network and storage are never nil.
	parts seedbed.Parts
	// params are the parameters that documents read; nil if the profile declares none.
	params map[string]any
	// given are the parameters of the request that every profile without a script takes.
	given map[string]any
	// asked are the script's arguments in the request.
	asked []string
}

// source names what the user-data of m was made from. A document that an expression names is not
// followed.
func (m tailored) source() string {
	var document int64
	if m.parts.UserData != nil && m.Expressions["userdata_document"] == "" {
		document = m.parts.UserData.Revision
	}
	return seedbed.Source(m.Revision, document)
}

// take divides a request's parameters: into those that every profile takes and those that this one
// declares, or for a profile with a script into the ready policy and either declared parameters or
// the script's arguments.
func (m *tailored) take(given map[string]any, arguments []string) (err error) {
	declared := map[string]any{}
	switch {
	case m.Script != "":
		m.given, m.asked = map[string]any{}, arguments
		if declared = given; arguments == nil {
			declared = over(given, nil)
			ready, _ := declared["ready"].(string)
			delete(declared, "ready")
			m.Ready = cmp.Or(seedbed.Ready(ready), m.Ready)
			if m.Params == nil {
				m.asked, err = argumentsOf(m.Name, declared)
				declared = nil
			}
		}
		if err = cmp.Or(err, checkArguments(m.asked)); err != nil {
			return err
		}
		if m.Ready, err = seedbed.ParseReady(string(cmp.Or(m.Ready, seedbed.ReadyStarted))); err != nil {
			return err
		}
	case m.Params == nil:
		m.given = given
		return nil
	default:
		m.given = map[string]any{}
		for param, v := range given {
			if _, known := params[param]; known {
				m.given[param] = v
			} else {
				declared[param] = v
			}
		}
	}
	values, err := declaredValues(m.Params, declared)
	if m.Params != nil {
		m.params = values
	}
	return err
}

// tailor resolves a profile for an instance, with the values of a request. arguments are the script's; nil
// takes them from the parameters.
func (in *Intake) tailor(ctx context.Context, p seedbed.Profile, inst seedbed.InstanceName, given map[string]any,
	arguments []string) (m tailored, err error) {
	m.Profile = p
	if p.Name == "" && given["userdata"] == string(seedbed.FollowLive) {
		return m, seedbed.Errorf(seedbed.ErrInvalid, "param userdata is live: expected pinned, since there is no profile to follow")
	}
	if err := m.take(given, arguments); err != nil {
		return m, err
	}
	if p.Params == nil && p.Expressions == nil && p.System+p.NetworkTemplate+p.Storage+p.Document+p.OVA+p.Script == "" {
		return m, nil
	}
	f, err := newFields(p.Params, p.Expressions)
	if err != nil {
		return m, err
	}
	if err := f.known(p, inst.Name, m); err != nil {
		return m, err
	}
	if err := in.evaluate(ctx, f, &m, inst.Project); err != nil {
		return m, err
	}
	if m.Script != "" && m.Params != nil {
		m.Arguments, err = expanded(m.Profile, func(t *template.Template) (string, error) {
			text, err := t.Eval(f.activation(), maxFieldText)
			return string(text), err
		})
	}
	return m, err
}

// known sets the values that names have before anything is evaluated: first those of a request,
// then those that the profile sets directly.
func (f *fields) known(p seedbed.Profile, instance string, m tailored) error {
	f.values["vm.name"], f.values["profile.name"] = instance, p.Name
	if n, ok := template.Number(instance); ok {
		f.values["vm.number"] = n
	}
	for param, v := range m.params {
		f.values["param."+param] = v
	}
	own := map[string]any{
		"profile.system_template": p.System, "profile.network_template": p.NetworkTemplate,
		"profile.storage_template": p.Storage, "profile.userdata_document": p.Document,
		"profile.image": p.Image, "profile.network": p.FirstNetwork(),
	}
	for name, v := range own {
		if f.texts[name] == nil {
			f.values[name] = v
		}
	}
	for name, n := range map[string]int64{"profile.vcpus": int64(p.VCPUs), "profile.memory": int64(p.Memory),
		"profile.disk": int64(p.DiskSize)} {
		if n != 0 && f.texts[name] == nil {
			f.values[name] = n
		}
	}
	// A request's values are checked together with its other values.
	var s shape
	for _, param := range []string{"vcpus", "memory", "disk"} {
		v, ok := m.given[param]
		if !ok {
			continue
		}
		if err := params[param](&s, v); err != nil {
			return err
		}
		f.values["profile."+param] = map[string]int64{"vcpus": int64(s.vcpus), "memory": int64(s.memory), "disk": int64(s.disk)}[param]
	}
	return nil
}

// evaluate sets the fields of m that its expressions and templates give, for an instance of a project.
func (in *Intake) evaluate(ctx context.Context, f *fields, m *tailored, project string) error {
	read := false
	f.parts = func() error {
		if read {
			return nil
		}
		read = true
		names, err := f.partNames()
		if err != nil {
			return err
		}
		if err := in.chooses(ctx, m, project, names); err != nil {
			return err
		}
		m.System, m.NetworkTemplate, m.Storage, m.Document = names.System, names.Network, names.Storage, names.UserData
		if err := m.read(ctx, in.store, names); err != nil {
			return err
		}
		f.learn(m.parts)
		return nil
	}
	if err := f.parts(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(sizeFields)) {
		v, ok, err := f.value(name)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		switch name {
		case "profile.image":
			m.Image = v.(string)
		case "profile.network":
			m.Network = v.(string)
		case "profile.vcpus":
			m.VCPUs = int(min(v.(int64), seedbed.MaxVCPUs+1))
		case "profile.memory":
			m.Memory = seedbed.Bytes(v.(int64))
		case "profile.disk":
			m.DiskSize = seedbed.Bytes(v.(int64))
		}
	}
	for name, p := range f.params {
		v, ok, err := f.value(name)
		if err != nil {
			return err
		}
		if ok {
			m.params[p.Name] = v
		}
	}
	return nil
}

// read reads what the profile refers to.
func (m *tailored) read(ctx context.Context, parts seedbed.PartReader, names seedbed.PartNames) (err error) {
	names.OVA, names.Script = m.OVA, m.Script
	if names != (seedbed.PartNames{}) {
		if m.parts, err = parts.Parts(ctx, m.Name, names); err != nil {
			return err
		}
	}
	p := &m.parts
	if m.Script != "" {
		if p.System == nil {
			p.System = &seedbed.SystemTemplate{VCPUs: m.VCPUs, Memory: m.Memory, Serial: true}
		}
		if p.Network == nil {
			p.Network = &seedbed.NetworkTemplate{}
		}
		if m.UserData == nil {
			m.UserData = []byte{}
		}
	}
	if p.OVA != nil || m.Script != "" {
		p.Storage = withOVA(p.OVA, p.Storage)
	}
	if p.UserData != nil {
		m.UserData = []byte(p.UserData.Data)
	}
	return nil
}

// partNames evaluates the names of templates.
func (f *fields) partNames() (n seedbed.PartNames, err error) {
	for name, into := range map[string]*string{
		"profile.system_template": &n.System, "profile.network_template": &n.Network,
		"profile.storage_template": &n.Storage, "profile.userdata_document": &n.UserData,
	} {
		v, ok, err := f.value(name)
		if err != nil {
			return n, err
		}
		if ok {
			*into = v.(string)
		}
	}
	return n, nil
}

// learn takes over the values of templates that neither the request nor the profile sets.
func (f *fields) learn(parts seedbed.Parts) {
	unsaid := func(name string, v int64) {
		if _, said := f.values[name]; !said && f.texts[name] == nil {
			f.values[name] = v
		}
	}
	if t := parts.System; t != nil {
		f.values["system.name"], f.values["system.vcpus"], f.values["system.memory"] = t.Name, int64(t.VCPUs), int64(t.Memory)
		unsaid("profile.vcpus", int64(t.VCPUs))
		unsaid("profile.memory", int64(t.Memory))
	}
	if t := parts.Network; t != nil {
		f.values["network.name"], f.values["network.nics"] = t.Name, int64(len(t.Networks))
	}
	if t := parts.Storage; t != nil {
		var size seedbed.Bytes
		for _, d := range t.Disks {
			size += d.Size
		}
		f.values["storage.name"], f.values["storage.disks"], f.values["storage.size"] = t.Name, int64(len(t.Disks)), int64(size)
	}
}
