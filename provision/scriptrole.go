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

// Scripts runs provisioning scripts, and looks at what they make. A turn gives
// seedbed.ErrNotFound when the job's script does not run under the call's epoch.
type Scripts interface {
	RunScript(ctx context.Context, call seedbed.Call, turn seedbed.ScriptTurn, output func(seedbed.OutputLine)) (seedbed.ScriptResult, error)
	CloseScript(ctx context.Context, call seedbed.Call, id seedbed.InstanceID) error
	// ScriptHost is what the node has for scripts that want those programs.
	ScriptHost(ctx context.Context, tools []string) (seedbed.ScriptHost, error)
	// CheckDomain says what would be changed in a script's domain; seedbed.ErrInvalid when it cannot be used.
	CheckDomain(ctx context.Context, spec seedbed.DomainSpec) (notes []string, err error)
}
