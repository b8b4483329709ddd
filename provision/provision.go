package provision

import (
	"seedbed/provision/intake"
	"seedbed/provision/record"
)

// NewIntake makes an intake whose dry runs show the stages that the engine would run.
func NewIntake(store intake.Store, serving intake.Serving) *intake.Intake {
	return intake.New(store, serving, StageNames)
}

// EngineStore is the part of the database that the engine and the plans of its jobs use.
type EngineStore interface {
	Store
	plansStore
}

// NewEngine makes an engine that can do jobs of all kinds. renderer makes the records that it
// publishes. Nothing happens before Run.
func NewEngine(cfg Config, store EngineStore, fleet Fleet, renderer record.Renderer) *Engine {
	return newEngine(cfg, store, fleet, newPlans(store, renderer))
}
