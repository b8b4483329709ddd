package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"seedbed"
	"seedbed/provision/placement"
	"seedbed/provision/template"
)

// composedRebuild is the composition that a rebuild to the profile of that name
// is made by; nil where the name is no provisioner profile's.
func (in *Intake) composedRebuild(ctx context.Context, profile string) (*seedbed.Composition, error) {
	if seedbed.CheckName("profile", profile) != nil {
		return nil, nil
	}
	if _, err := in.store.Profile(ctx, profile); !errors.Is(err, seedbed.ErrNotFound) {
		return nil, nil // also where that could not be read: whoever reads it next is told
	}
	c, err := in.store.Composition(ctx, profile)
	if errors.Is(err, seedbed.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c = withOVA(c)
	return &c, nil
}

// recomposed is what a rebuild by a provisioner profile makes of an instance.
type recomposed struct {
	inst   seedbed.Instance
	demand placement.Demand
	// script is what the job carries the profile's script out by; nil where it is skipped.
	script *seedbed.ScriptRun
}

// recompose makes of an instance what a rebuild by a provisioner profile makes of
// it: the disks of the storage template as that is now, anew, or those that the
// script makes. Of its own profile it keeps its size, that of disks that no script
// makes, its keys and metadata options. given are the params of the request.
func (in *Intake) recompose(ctx context.Context, inst seedbed.Instance, c seedbed.Composition, given map[string]any, job seedbed.JobID) (made recomposed, err error) {
	own := inst.Kind == seedbed.KindProvisioner && inst.Profile == c.Profile.Name
	given = over(given, nil)
	ready, _ := given["ready"].(string)
	delete(given, "ready")
	if own {
		ready = cmp.Or(ready, string(inst.Ready))
	}
	policy, err := seedbed.ParseReady(cmp.Or(ready, string(seedbed.ReadyStarted)))
	if err != nil {
		return made, err
	}
	req := seedbed.ComposeRequest{Name: inst.Name, Profile: c.Profile.Name}
	if c.Profile.Params == nil {
		if req.Arguments, err = argumentsOf(given); err != nil {
			return made, err
		}
		given = nil
	} else if own {
		given = over(declaredOf(c.Profile.Params, inst.Params), given)
	}
	c, values, err := withParams(c, inst.Name, given)
	if err != nil {
		return made, err
	}
	disks, err := in.volumes(ctx, c.Storage)
	if err != nil {
		return made, err
	}
	if made.script, err = in.scriptRun(ctx, req, c, values); err != nil {
		return made, err
	}
	if made.script == nil && len(req.Arguments) > 0 {
		return made, seedbed.Errorf(seedbed.ErrInvalid, "params are for the script of the profile %q, which is skipped, and it declares none: want none but ready", c.Profile.Name)
	}
	recipe, s, err := in.composedRecipe(c, policy)
	if err != nil {
		return made, err
	}
	s.rest = values
	next := inst
	if !own {
		next.VCPUs, next.Memory, next.SSHKeys, next.Follow = s.vcpus, s.memory, nil, c.Profile.Follow
		next.Metadata = s.metadata.WithDefaults(seedbed.MetadataOptions{})
	}
	next.Kind, next.Profile, next.Source, next.Params = seedbed.KindProvisioner, c.Profile.Name, composedSource(c), values
	next.System, next.Datasource = seedbed.SystemOf(c.System), s.datasource
	next.Ready, next.ReportToken = policy, ""
	if policy == seedbed.ReadyReport {
		next.ReportToken = newReportToken()
	}
	if made.demand, err = in.demands(ctx, next, &c.System, disks, ""); err != nil {
		return made, err
	}
	if next.Volumes, next.Image = []seedbed.Volume{}, ""; made.script == nil {
		if len(disks) == 0 {
			return made, seedbed.Errorf(seedbed.ErrConflict, "instance %q cannot be rebuilt by the profile %q, which gives it no disk", inst.Name, c.Profile.Name)
		}
		for i := range disks {
			disks[i].Name = fmt.Sprintf("%s-%d-%s", inst.ID, i, job.Short())
			if own && i < len(inst.Volumes) { // one that has grown
				disks[i].Size = max(disks[i].Size, inst.Volumes[i].Size)
			}
		}
		next.Volumes, next.Image = disks, disks[0].Image
	}
	docs, err := recipe.fill(next.ReportToken, template.Values{Guest: in.place(next), Params: s.rest})
	if err != nil {
		return made, err
	}
	if next.UserData, next.VendorData = docs.UserData, docs.VendorData; next.UserData == nil {
		next.UserData = []byte{}
	}
	made.inst = next
	return made, nil
}
