package provision

import (
	"seedbed/provision/engine"
	"seedbed/provision/intake"
	"seedbed/provision/plans"
	"seedbed/provision/record"
)

// NewIntake makes an intake whose dry runs show the stages that the engine would run.
func NewIntake(store intake.Store, serving intake.Serving) *intake.Intake {
	return intake.New(store, serving, plans.StageNames)
}

// EngineStore is the part of the database that the engine and the plans of its jobs use.
type EngineStore interface {
	engine.Store
	plans.Store
}

// NewEngine makes an engine that can do jobs of all kinds. renderer makes the records that it
// publishes. Nothing happens before Run.
func NewEngine(cfg engine.Config, store EngineStore, fleet engine.Fleet, renderer record.Renderer) *engine.Engine {
	return engine.New(cfg, store, fleet, plans.New(store, renderer))
}
