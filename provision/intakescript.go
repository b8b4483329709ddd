package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"seedbed"
)

// scriptRun is what the job of a composition carries its script out by, as all
// of it is now; nil where the script is skipped.
func (in *Intake) scriptRun(ctx context.Context, req seedbed.ComposeRequest, c seedbed.Composition, params map[string]any) (*seedbed.ScriptRun, error) {
	needed, err := needsScript(c)
	if err != nil || !needed {
		return nil, err
	}
	run := seedbed.ScriptRun{Script: c.Script, System: c.System, Network: c.Network, Storage: c.Storage, OVA: c.OVA, Bridges: []string{}, Arguments: map[string]string{}}
	for _, n := range c.Network.Networks {
		network, err := in.store.Network(ctx, n.VNI)
		if errors.Is(err, seedbed.ErrNotFound) {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, `The network VNI "%s" is not present on the cluster`, n.VNI)
		}
		if err != nil {
			return nil, err
		}
		run.Bridges = append(run.Bridges, network.Bridge)
	}
	for _, a := range slices.Concat(c.Profile.Arguments, req.Arguments) {
		key, value, _ := strings.Cut(a, "=")
		run.Arguments[key] = value
	}
	for _, p := range c.Profile.Params {
		if text, ok := params[p.Name].(string); ok && p.Type == seedbed.ParamSecret {
			run.Secrets = append(run.Secrets, text)
		}
	}
	return &run, nil
}

// composedFor accepts a create that names a provisioner profile; ok is false
// where the name is no such profile's.
func (in *Intake) composedFor(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (receipt seedbed.Receipt, ok bool, err error) {
	asked, ok, err := in.composeRequest(ctx, req)
	if !ok || err != nil {
		return receipt, ok, err
	}
	receipt, err = in.compose(ctx, asked, delivery)
	return receipt, true, err
}

// composeRequest is a request that names a provisioner profile as such: its params
// are values of what the profile declares, or where it declares nothing the
// script's arguments, but for ready, which is the policy that ends its job. ok is
// false where the name is no such profile's.
func (in *Intake) composeRequest(ctx context.Context, req seedbed.Request) (asked seedbed.ComposeRequest, ok bool, err error) {
	if req.Profile == "" || seedbed.CheckName("profile", req.Profile) != nil {
		return asked, false, nil
	}
	if _, err := in.store.Profile(ctx, req.Profile); !errors.Is(err, seedbed.ErrNotFound) {
		return asked, false, nil
	}
	c, err := in.store.Composition(ctx, req.Profile)
	if err != nil {
		return asked, false, nil
	}
	params := maps.Clone(req.Params)
	ready, _ := params["ready"].(string)
	delete(params, "ready")
	asked = seedbed.ComposeRequest{Name: req.Name, Profile: req.Profile, Start: true, Ready: seedbed.Ready(ready), Node: req.Node, Hold: req.Hold, Protected: req.Protected}
	if c.Profile.Params != nil {
		asked.Params = params
		return asked, true, nil
	}
	asked.Arguments, err = argumentsOf(params)
	return asked, true, err
}

// argumentsOf are params as a script's arguments, by key.
func argumentsOf(params map[string]any) ([]string, error) {
	args := []string{}
	for key, value := range params {
		text := ""
		switch v := value.(type) {
		case string:
			text = v
		case bool:
			text = strconv.FormatBool(v)
		case json.Number:
			text = v.String()
		case float64:
			text = strconv.FormatFloat(v, 'f', -1, 64)
		case int64, int, uint64:
			text = fmt.Sprint(v)
		default:
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "param %s: a script's argument is a text, a number or a boolean", seedbed.Clip(key))
		}
		args = append(args, key+"="+text)
	}
	slices.Sort(args)
	return args, nil
}
