package provision

import (
	"context"

	"seedbed"
)

// undefined reports whether a job makes only the disks of an instance (PVC's define_vm=False). At
// the end they are released under PVC's names, and belong to no instance.
func undefined(job *seedbed.Job) bool {
	return scriptedBy(job).Undefined
}

// releaseStage releases the disks. It cannot be undone: a released disk may already belong to
// someone else.
func (t *task) releaseStage() stage {
	return stage{name: "release-volumes", run: t.releaseVolumes, final: true}
}

// undefinedPlan is definedPlan without a domain.
func (t *task) undefinedPlan() []stage {
	return []stage{t.definedPlan()[0], t.releaseStage()}
}

// undefinedScriptedPlan is scriptedPlan without a domain.
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
