package effects

import "seedbed"

// The effects of provisioning scripts and of stage hooks.
var (
	RunScript = Effect[seedbed.ScriptTurn, seedbed.ScriptResult]{"run-script"}
	// CloseScript ends the session of the call's job, which makes the given instance.
	CloseScript = Order[DomainRef]{"close-script"}
	// ScriptHost returns what the node has for scripts that need the given programs.
	ScriptHost = Query[ToolNames, seedbed.ScriptHost]{"script-host"}
	// CheckDomain lists what would be changed in a script's domain.
	CheckDomain = Query[seedbed.DomainSpec, []string]{"check-domain"}

	RunHook = Effect[seedbed.HookRun, seedbed.HookResult]{"run-hook"}
)

// ToolNames are programs that a script needs.
type ToolNames struct {
	Tools []string `json:"tools"`
}
