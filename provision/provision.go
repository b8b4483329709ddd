package provision

// NewIntake makes an intake whose dry runs show the stages that the engine would run.
func NewIntake(store IntakeStore, serving Serving) *Intake {
	return newIntake(store, serving, stagesOf)
}
