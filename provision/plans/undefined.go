package plans

import (
	"context"

	"seedbed/provision/engine"
)

// releaseStage releases the disks. It cannot be undone: a released disk may already belong to
// someone else.
func (t *task) releaseStage() engine.Stage {
	return engine.Stage{Name: "release-volumes", Run: t.releaseVolumes, Final: true}
}

// undefinedStages is definedStages without a domain.
func (t *task) undefinedStages() []engine.Stage {
	return []engine.Stage{t.definedStages()[0], t.releaseStage()}
}

// undefinedScriptedStages is scriptedStages without a domain.
func (t *task) undefinedScriptedStages() []engine.Stage {
	var plan []engine.Stage
	for _, s := range t.scriptedStages() {
		if s.Name == "general-cleanup" {
			return append(plan, engine.Stage{Name: s.Name, Made: s.Made, Run: t.endUndefined}, t.releaseStage())
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
