package plans

import (
	"seedbed"
	"seedbed/provision/engine"
)

// removePlan removes an instance with its volumes. It is never undone: a partly removed instance is
// of no use, and a removal can be requested again.
func (t *task) removePlan() engine.Plan {
	return engine.Plan{
		Drops: true, Failed: func(out *seedbed.JobResult, _ error) { out.InstanceState = seedbed.InstanceFailed },
		Stages: []engine.Stage{
			{Name: "stop", Run: t.stopDomain},
			{Name: "retract", Run: t.retract},
			{Name: "undefine", Run: t.undefineDomain},
			{Name: "delete", Run: t.removeVolumes},
		},
	}
}
