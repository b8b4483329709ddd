package provision

import (
	"context"

	"seedbed"
)

// ScriptRuns are what create jobs carry their scripts out by.
type ScriptRuns interface {
	// ScriptRun is the job's; seedbed.ErrNotFound for one without a script.
	ScriptRun(ctx context.Context, id seedbed.JobID) (seedbed.ScriptRun, error)
	// AddVolume makes a volume one of the job's instance; seedbed.ErrExists when its name is another's.
	AddVolume(ctx context.Context, ref seedbed.JobRef, v seedbed.Volume) error
	DropVolume(ctx context.Context, ref seedbed.JobRef, pool, name string) error
}

// ScriptDomains are the documents that scripts made for their instances' domains.
type ScriptDomains interface {
	// ScriptDomain is an instance's; seedbed.ErrNotFound for one that no script has made.
	ScriptDomain(ctx context.Context, id seedbed.InstanceID) (xml string, err error)
	SetScriptDomain(ctx context.Context, ref seedbed.JobRef, xml string) error
}
