package provision

import (
	"seedbed/provision/intake"
)

// NewIntake makes an intake whose dry runs show the stages that the engine would run.
func NewIntake(store intake.Store, serving intake.Serving) *intake.Intake {
	return intake.New(store, serving, stagesOf)
}
