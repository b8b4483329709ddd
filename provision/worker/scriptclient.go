package worker

import (
	"context"

	"seedbed"
)

// RunScript has a job's script go on: see Scripts. output may be nil.
func (c *Client) RunScript(ctx context.Context, call seedbed.Call, turn seedbed.ScriptTurn, output func(seedbed.OutputLine)) (seedbed.ScriptResult, error) {
	return ask[seedbed.ScriptResult](ctx, c, exchange{effect: runScript, call: call, args: turn, output: output})
}

// CloseScript ends the session of the call's job, which makes that instance: see Scripts.
func (c *Client) CloseScript(ctx context.Context, call seedbed.Call, id seedbed.InstanceID) error {
	_, err := ask[none](ctx, c, exchange{effect: closeScript, call: call, args: domainArgs{id}})
	return err
}

// ScriptHost is what the worker's host has for scripts that want these programs.
func (c *Client) ScriptHost(ctx context.Context, tools []string) (seedbed.ScriptHost, error) {
	return ask[seedbed.ScriptHost](ctx, c, exchange{effect: scriptHost, args: toolArgs{tools}})
}

// CheckDomain looks at a domain before it is defined: see DomainChecker.
func (c *Client) CheckDomain(ctx context.Context, spec seedbed.DomainSpec) ([]string, error) {
	return ask[[]string](ctx, c, exchange{effect: checkDomain, args: spec})
}
