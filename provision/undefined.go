package provision

import (
	"context"
	"fmt"

	"seedbed"
)

// undefined tells whether a job makes the disks of a machine and no machine (PVC's
// define_vm=False): they are released at the end, as nobody's, under PVC's names.
func undefined(job *seedbed.Job) bool {
	return scriptedBy(job).Undefined
}

// releaseStage lets the disks go. There is no way back from it: what was let go
// may be another's by then.
func (t *task) releaseStage() stage {
	return stage{name: "release-volumes", run: t.releaseVolumes, final: true}
}

// undefinedPlan is definedPlan without a domain.
func (t *task) undefinedPlan() []stage {
	return []stage{t.definedPlan()[0], t.releaseStage()}
}

// undefinedScriptedPlan is scriptedPlan without one.
func (t *task) undefinedScriptedPlan() []stage {
	var plan []stage
	for _, s := range t.scriptedPlan() {
		if s.name == "general-cleanup" {
			return append(plan, stage{name: s.name, run: t.endUndefined}, t.releaseStage())
		}
		plan = append(plan, s)
	}
	return plan
}

// endUndefined is endScript without a domain.
func (t *task) endUndefined(ctx context.Context) error {
	if err := t.closeScript(ctx); err != nil {
		return err
	}
	return t.dropShown(ctx)
}

// nameDisks gives the volumes the names that PVC gives a machine's disks.
func nameDisks(inst *seedbed.Instance, t seedbed.StorageTemplate) {
	for i := range inst.Volumes {
		if i < len(t.Disks) {
			inst.Volumes[i].Name = fmt.Sprintf("%s_%s", inst.Name, t.Disks[i].Name)
		}
	}
}
