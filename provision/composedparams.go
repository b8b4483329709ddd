package provision

import (
	"context"
	"fmt"
	"strings"

	"seedbed"
	"seedbed/provision/template"
)

// argumentNames are what the arguments of a script may read besides param.NAME.
var argumentNames = map[string]template.Type{
	"vm.name": template.String, "vm.number": template.Int, "profile.name": template.String,
	"system.name": template.String, "system.vcpus": template.Int, "system.memory": template.Int,
	"network.name": template.String, "network.nics": template.Int,
	"storage.name": template.String, "storage.disks": template.Int, "storage.size": template.Int,
}

// withParams is a composition for the machine called name: the expressions among
// the arguments of its script are evaluated, and the values of its params are
// what documents read. A profile that declares no params has neither.
func withParams(c seedbed.Composition, name string, given map[string]any) (seedbed.Composition, map[string]any, error) {
	values, err := declaredValues(c.Profile.Params, given)
	if err != nil || c.Profile.Params == nil {
		return c, nil, err
	}
	f, err := newFields(c.Profile.Params, nil)
	if err != nil {
		return c, nil, err
	}
	if err := f.known(seedbed.Profile{Name: c.Profile.Name}, name, tailored{params: values}); err != nil {
		return c, nil, err
	}
	f.learn(seedbed.Parts{System: &c.System, Network: &c.Network, Storage: &c.Storage})
	for name, p := range f.params {
		v, ok, err := f.value(name)
		if err != nil {
			return c, nil, err
		}
		if ok {
			values[p.Name] = v
		}
	}
	c.Profile.Arguments, err = expanded(c.Profile, func(t *template.Template) (string, error) {
		text, err := t.Eval(f.activation(), maxFieldText)
		return string(text), err
	})
	return c, values, err
}

// expanded are the arguments of a profile's script with their expressions filled in.
func expanded(p seedbed.ProvisionerProfile, fill func(*template.Template) (string, error)) ([]string, error) {
	scope, err := template.FieldScope(p.Params, argumentNames)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, a := range p.Arguments {
		key, text, _ := strings.Cut(a, "=")
		t, err := template.ParseField(scope, "script argument "+seedbed.Clip(key), text)
		if err != nil {
			return nil, err
		}
		if text, err = fill(t); err != nil {
			return nil, err
		}
		all = append(all, key+"="+text)
	}
	return all, nil
}

// CheckComposed checks what a provisioner profile says that the database cannot
// judge: its params, the expressions among the arguments of its script, and its
// document, each with its place. One without params has no expressions but those
// of its document. The error is of kind seedbed.ErrInvalid, or the store's.
func (in *Intake) CheckComposed(ctx context.Context, p seedbed.ProvisionerProfile) error {
	if p.Params == nil {
		return nil
	}
	f, err := newFields(p.Params, nil)
	if err != nil {
		return err
	}
	if err := f.cycle(); err != nil {
		return err
	}
	if _, err := expanded(p, func(*template.Template) (string, error) { return "", nil }); err != nil {
		return err
	}
	if p.UserData == "" {
		return nil
	}
	parts, err := in.store.Parts(ctx, seedbed.PartNames{UserData: p.UserData})
	if err != nil {
		return fmt.Errorf("profile %s: %w", p.Name, err)
	}
	_, err = sources{user: []byte(parts.UserData.Data), limit: in.serving.limit(), declared: p.Params}.read()
	return err
}

// composedRecipe reads the documents of a composition.
func (in *Intake) composedRecipe(c seedbed.Composition, ready seedbed.Ready) (recipe, shape, error) {
	s := shape{
		vcpus: c.System.VCPUs, memory: c.System.Memory, datasource: seedbed.DatasourceEC2,
		// PVC's guests find their UUID there, and an empty document where there is none.
		metadata: seedbed.MetadataOptions{InstanceID: seedbed.InstanceIDUUID}, userData: []byte{},
	}
	if c.UserData != nil {
		s.userData = []byte(c.UserData.Data)
	}
	src := in.sourcesOf(ready, s)
	src.declared = c.Profile.Params
	made, err := src.read()
	return made, s, err
}

// composedSource names what user-data that is made of c was made from.
func composedSource(c seedbed.Composition) string {
	var document int64
	if c.UserData != nil {
		document = c.UserData.Revision
	}
	return seedbed.Source(c.Profile.Revision, document)
}
