package intake

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"seedbed"
	"seedbed/provision/template"
)

// The names that a profile's fields and its parameters' defaults may read, in addition to
// param.NAME. The names that come from templates, and their values, are known only after all four
// template names are.
var (
	vmNames    = map[string]template.Type{"vm.name": template.String, "vm.number": template.Int, "profile.name": template.String}
	partFields = map[string]template.Type{
		"profile.system_template": template.String, "profile.network_template": template.String,
		"profile.storage_template": template.String, "profile.userdata_document": template.String,
	}
	sizeFields = map[string]template.Type{
		"profile.image": template.String, "profile.network": template.String,
		"profile.vcpus": template.Int, "profile.memory": template.Int, "profile.disk": template.Int,
	}
	partNames = map[string]template.Type{
		"system.name": template.String, "system.vcpus": template.Int, "system.memory": template.Int,
		"network.name": template.String, "network.nics": template.Int,
		"storage.name": template.String, "storage.disks": template.Int, "storage.size": template.Int,
	}
)

// maxFieldText limits the length of a field's evaluated text, in bytes.
const maxFieldText = seedbed.MaxParamText

// fields maps names to their values or, until a value is needed, to the text it is evaluated from.
type fields struct {
	types  map[string]template.Type
	params map[string]seedbed.Param // by name, with the prefix "param."
	texts  map[string]*template.Template
	values map[string]any
	// after lists names that must be evaluated first although no text reads them.
	after map[string][]string
	// parts makes the values of partNames known; nil until that is possible.
	parts func() error
	path  []string // the names being evaluated
}

// newFields parses the texts of a profile: the defaults of its parameters, and its expressions by
// field.
func newFields(declared []seedbed.Param, expressions map[string]string) (*fields, error) {
	f := &fields{
		types: map[string]template.Type{}, params: map[string]seedbed.Param{}, texts: map[string]*template.Template{},
		values: map[string]any{}, after: map[string][]string{},
	}
	for _, names := range []map[string]template.Type{vmNames, partFields, sizeFields, partNames} {
		maps.Copy(f.types, names)
	}
	for name := range partNames {
		f.after[name] = slices.Sorted(maps.Keys(partFields))
	}
	scope, err := template.FieldScope(declared, f.types)
	if err != nil {
		return nil, err
	}
	for _, p := range declared {
		f.params["param."+p.Name], f.types["param."+p.Name] = p, template.TypeOf(p)
	}
	for _, p := range declared {
		if _, taken := params[p.Name]; taken {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "param %s: every profile already has a param of that name: choose another", p.Name)
		}
		if p.Default == nil {
			continue
		}
		if err := f.read(scope, "default of param "+p.Name, "param."+p.Name, string(*p.Default)); err != nil {
			return nil, err
		}
	}
	for _, field := range slices.Sorted(maps.Keys(expressions)) {
		name := "profile." + field
		if _, ok := sizeFields[name]; !ok {
			if _, ok = partFields[name]; !ok {
				return nil, seedbed.Errorf(seedbed.ErrInvalid,
					"expressions has %q, which is not a field: expected image, vcpus, memory, disk, network, system_template, network_template, "+
						"storage_template or userdata_document", seedbed.Clip(field))
			}
		}
		if err := f.read(scope, field, name, expressions[field]); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// read parses one text. The type of its result must suit the name.
func (f *fields) read(scope *template.Scope, label, name, text string) error {
	t, err := template.ParseField(scope, label, text)
	if err != nil {
		return err
	}
	f.texts[name] = t
	for _, reads := range t.Names() {
		if f.params[reads].Type == seedbed.ParamSecret {
			line, column := t.At(reads)
			return seedbed.Errorf(seedbed.ErrInvalid,
				"%s line %d, column %d: it reads the secret %s, but its value is shown: use secrets only in user-data", label, line, column, reads)
		}
	}
	gives, known := t.Gives()
	if !known {
		return nil
	}
	// A size or a number may be the result of a text ("4GiB"), and a text that of a number.
	if want := f.types[name]; gives != want && (gives == template.Bool || want == template.Bool) {
		return seedbed.Errorf(seedbed.ErrInvalid, "%s line 1, column 1: %s gives %s: expected %s", label, seedbed.Clip(text), typeName(gives),
			typeName(want))
	}
	if p, ok := f.params[name]; gives == template.String && (name == "profile.vcpus" || ok && p.Type == seedbed.ParamInt) {
		return seedbed.Errorf(seedbed.ErrInvalid, "%s line 1, column 1: %s gives a string: expected a whole number", label, seedbed.Clip(text))
	}
	return nil
}

func typeName(t template.Type) string {
	return map[template.Type]string{template.Int: "a whole number", template.Bool: "true or false", template.String: "a string"}[t]
}

// cycle refuses names that depend on themselves.
func (f *fields) cycle() error {
	const busy, done = 1, 2
	seen := map[string]int{}
	var path []string
	var visit func(name string) error
	visit = func(name string) error {
		switch seen[name] {
		case done:
			return nil
		case busy:
			return f.circle(append(path, name))
		}
		seen[name], path = busy, append(path, name)
		for _, next := range f.needs(name) {
			if err := visit(next); err != nil {
				return err
			}
		}
		seen[name], path = done, path[:len(path)-1]
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(f.texts)) {
		if err := visit(name); err != nil {
			return err
		}
	}
	return nil
}

// needs returns the names that must have a value first.
func (f *fields) needs(name string) []string {
	if t := f.texts[name]; t != nil {
		return t.Names()
	}
	return f.after[name]
}

func (f *fields) circle(path []string) error {
	from := slices.Index(path, path[len(path)-1])
	first := path[from]
	place := ""
	if t := f.texts[first]; t != nil && from+1 < len(path) {
		line, column := t.At(path[from+1])
		place = fmt.Sprintf(" line %d, column %d", line, column)
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "%s%s needs itself: %s", strings.TrimPrefix(first, "profile."), place,
		strings.Join(path[from:], " → "))
}

// value evaluates a name to a string, an int64 or a bool. ok is false if the name has no value.
func (f *fields) value(name string) (v any, ok bool, err error) {
	if v, ok := f.values[name]; ok {
		return v, true, nil
	}
	if _, ok := partNames[name]; ok && f.parts != nil {
		if err := f.parts(); err != nil {
			return nil, false, err
		}
		v, ok := f.values[name]
		return v, ok, nil
	}
	t := f.texts[name]
	if t == nil {
		return nil, false, nil
	}
	if slices.Contains(f.path, name) {
		return nil, false, f.circle(append(slices.Clone(f.path), name))
	}
	f.path = append(f.path, name)
	defer func() { f.path = f.path[:len(f.path)-1] }()
	for _, needed := range t.Names() {
		if _, _, err := f.value(needed); err != nil {
			return nil, false, err
		}
	}
	text, err := t.Eval(f.activation(), maxFieldText)
	if err != nil {
		return nil, false, err
	}
	if v, err = f.parse(name, string(text)); err != nil {
		return nil, false, err
	}
	f.values[name] = v
	return v, true, nil
}

// parse parses a text as a value of the name.
func (f *fields) parse(name, text string) (any, error) {
	if p, ok := f.params[name]; ok {
		return p.Parse(text)
	}
	field := strings.TrimPrefix(name, "profile.")
	switch name {
	case "profile.vcpus":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s is %q once it is evaluated: expected a whole number", field, seedbed.Clip(text))
		}
		return n, nil
	case "profile.memory", "profile.disk":
		b, err := seedbed.ParseBytes(text)
		if err != nil {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s once it is evaluated: %s", field, err)
		}
		return int64(b), nil
	}
	if text == "" {
		return text, nil
	}
	return text, seedbed.CheckQualifiedName(strings.ReplaceAll(field, "_", " "), strings.TrimPrefix(text, seedbed.Explicit("")))
}

// activation returns the known values by name.
func (f *fields) activation() map[string]any {
	given := map[string]any{}
	act := map[string]any{}
	for name, v := range f.values {
		act[name] = v
		if p, ok := strings.CutPrefix(name, "param."); ok {
			given[p] = v
		}
	}
	act["param"] = given
	return act
}
