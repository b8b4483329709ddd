package plans

import (
	"context"
	"encoding/json"
	"strings"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
	"seedbed/provision/record"
)

// scriptedRebuildStages gives an instance new disks that a provisioning script makes. While the
// script runs, the guest continues to run from its former disks.
func (t *task) scriptedRebuildStages() []engine.Stage {
	plan := t.scriptStages()
	plan = append(plan, engine.Stage{Name: "general-cleanup", Run: t.endRebuildScript, Made: t.madeDomain})
	for _, s := range t.diskRebuildStages() {
		if s.Name != "volumes" { // the script has made them
			plan = append(plan, s)
		}
	}
	return plan
}

// rebuildBy returns the spec of a rebuild; the zero value for any other job.
func rebuildBy(job *seedbed.Job) (spec seedbed.RebuildSpec) {
	if job.Kind != seedbed.JobRebuild || len(job.Spec) == 0 || json.Unmarshal(job.Spec, &spec) != nil {
		return seedbed.RebuildSpec{}
	}
	return spec
}

// scripting returns the instance that the job's script makes disks for. For a rebuild, that is what
// the instance becomes.
func (t *task) scripting(ctx context.Context) (seedbed.Instance, error) {
	if t.Job.Kind != seedbed.JobRebuild {
		return t.Instance(ctx)
	}
	r, err := t.rebuild(ctx)
	return r.Next, err
}

// suffix returns what is appended to the volume names that a rebuild's script chooses, because the
// former disks may have the same names.
func (t *task) suffix() string {
	if t.Job.Kind != seedbed.JobRebuild {
		return ""
	}
	return "-" + t.Ref.ID.Short()
}

// endRebuildScript ends the script, whose disks are complete, and checks that the domain could be
// defined from them while the former domain still runs.
func (t *task) endRebuildScript(ctx context.Context) error {
	if err := t.closeScript(ctx); err != nil {
		return err
	}
	if err := t.dropShown(ctx); err != nil {
		return err
	}
	next, err := t.scripting(ctx)
	if err != nil {
		return err
	}
	disks, err := t.disks(ctx, next, nil)
	if err != nil {
		return err
	}
	run, err := t.store.ScriptRun(ctx, t.Ref.ID)
	if err != nil {
		return engine.FromStore(err)
	}
	xml := suffixed(run.XML, next, t.suffix())
	spec, err := t.domain(ctx, next, disks)
	if err != nil {
		return err
	}
	spec.Script = documentOf(next, xml)
	if _, err := effects.CheckDomain.Ask(ctx, t.Worker(), spec); err != nil {
		return err
	}
	return t.Write(ctx, func(ctx context.Context) error { return t.store.SetScriptDomain(ctx, t.Ref, xml) })
}

// suffixed returns a script's document with the names that its volumes have in their pools. It may
// be applied twice.
func suffixed(xml string, inst seedbed.Instance, suffix string) string {
	var pairs []string
	for _, v := range inst.Volumes {
		shown := v.Pool + "/" + strings.TrimSuffix(v.Name, suffix)
		for _, before := range []string{"", record.MappedDir} {
			for _, quote := range []string{`'`, `"`} {
				pairs = append(pairs, quote+before+shown+quote, quote+before+v.Pool+"/"+v.Name+quote)
			}
		}
	}
	return strings.NewReplacer(pairs...).Replace(xml)
}

// documentOf returns a document that a script has made for the domain of an instance, with its
// disks.
func documentOf(inst seedbed.Instance, xml string) *seedbed.DomainScript {
	doc := seedbed.DomainScript{XML: record.Named(xml, inst.FullName().String())}
	for _, v := range inst.Volumes {
		doc.Volumes = append(doc.Volumes, v.Pool+"/"+v.Name)
	}
	return &doc
}
