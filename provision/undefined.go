package provision

import (
	"context"
)

// releaseStage releases the disks. It cannot be undone: a released disk may already belong to
// someone else.
func (t *task) releaseStage() Stage {
	return Stage{Name: "release-volumes", Run: t.releaseVolumes, Final: true}
}

// undefinedStages is definedStages without a domain.
func (t *task) undefinedStages() []Stage {
	return []Stage{t.definedStages()[0], t.releaseStage()}
}

// undefinedScriptedStages is scriptedStages without a domain.
func (t *task) undefinedScriptedStages() []Stage {
	var plan []Stage
	for _, s := range t.scriptedStages() {
		if s.Name == "general-cleanup" {
			return append(plan, Stage{Name: s.Name, Made: s.Made, Run: t.endUndefined}, t.releaseStage())
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
