package provision

import (
	"context"

	"seedbed"
)

// ScriptRuns stores what jobs need to run their scripts.
type ScriptRuns interface {
	// ScriptRun returns the job's; seedbed.ErrNotFound for a job without a script.
	ScriptRun(ctx context.Context, id seedbed.JobID) (seedbed.ScriptRun, error)
	// AddVolume adds a volume to the job's instance; seedbed.ErrExists if another one has its name.
	AddVolume(ctx context.Context, ref seedbed.JobRef, v seedbed.Volume) error
	DropVolume(ctx context.Context, ref seedbed.JobRef, pool, name string) error
}

// ScriptDomains stores the documents that scripts made for their instances' domains.
type ScriptDomains interface {
	// ScriptDomain returns an instance's document; seedbed.ErrNotFound if no script made one.
	ScriptDomain(ctx context.Context, id seedbed.InstanceID) (xml string, err error)
	SetScriptDomain(ctx context.Context, ref seedbed.JobRef, xml string) error
}
