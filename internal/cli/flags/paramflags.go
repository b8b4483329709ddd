package flags

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// ParamFlags are the flags for the values of parameters. Values of the command line override those
// of the file, and missing values can be prompted for.
type ParamFlags struct {
	given       []string
	file        string
	Interactive bool
}

// Add adds the flags to c.
func (p *ParamFlags) Add(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&p.given, "param", nil, "parameter as `KEY=VALUE` (repeatable)")
	f.StringVar(&p.file, "params-file", "",
		"YAML or JSON `FILE` with parameters by name, or - for standard input; --param overrides values in the file")
	f.BoolVar(&p.Interactive, "interactive", false, "ask for declared parameters without a value; secrets are not echoed")
}

// Stdin reports whether the parameters are read from standard input.
func (p *ParamFlags) Stdin() bool { return p.file == "-" }

// Values returns the given parameters.
func (p *ParamFlags) Values(a *cli.App) (map[string]any, error) {
	params := map[string]any{}
	if p.file != "" {
		raw, err := a.ReadArg(p.file, seedbed.MiB)
		if err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(raw, &params); err != nil {
			return nil, cli.Usagef("--params-file %s: %s", p.file, yaml.FormatError(err, false, false)) // a snippet could show a secret
		}
		if err := FromYAML(params); err != nil {
			return nil, cli.Usagef("--params-file %s: %s", p.file, err)
		}
	}
	given, err := parseParams(p.given)
	if err != nil {
		return nil, err
	}
	maps.Copy(params, given)
	return params, nil
}

// FromYAML converts parameters, by name, from YAML to their JSON form. It returns an error for a value
// that has none, such as a date.
func FromYAML(params map[string]any) (err error) {
	for name, v := range params {
		if params[name], err = paramOf(v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// paramOf converts a value from YAML to its JSON form.
func paramOf(v any) (any, error) {
	switch v := v.(type) {
	case string, bool, int64, float64, nil:
		return v, nil
	case uint64:
		return v, nil
	case []any:
		for i := range v {
			var err error
			if v[i], err = paramOf(v[i]); err != nil {
				return nil, err
			}
		}
		return v, nil
	case map[string]any:
		for k := range v {
			var err error
			if v[k], err = paramOf(v[k]); err != nil {
				return nil, err
			}
		}
		return v, nil
	}
	return nil, cli.Usagef("%T is not a valid parameter value", v)
}

// Complete prompts for the declared parameters that have no value: each required one, and each one
// without a default. An empty answer leaves out one that is not required.
func (p *ParamFlags) Complete(a *cli.App, declared []seedbed.Param, params map[string]any) error {
	if !p.Interactive {
		return nil
	}
	ask := newPrompter(a)
	defer ask.close()
	for _, d := range declared {
		if _, given := params[d.Name]; given {
			continue
		}
		text, err := ask.param(d)
		if err != nil {
			return err
		}
		if text != "" {
			params[d.Name] = text
		}
	}
	return nil
}

// Declared returns the parameters that a profile declares, if they are needed for prompts.
func (p *ParamFlags) Declared(ctx context.Context, api *client.Client, profile string) ([]seedbed.Param, error) {
	if !p.Interactive {
		return nil, nil
	}
	made, err := api.Profile(ctx, profile)
	return made.Params, err
}

// RefuseForScript refuses flags that set parameters of a request, by their names, if its profile has
// a script: that has no such parameters, and would get them as arguments.
func RefuseForScript(ctx context.Context, api *client.Client, profile string, flags []string) error {
	if profile == "" || len(flags) == 0 {
		return nil
	}
	p, err := api.Profile(ctx, profile)
	if err == nil && p.Script != "" {
		return seedbed.Errorf(seedbed.ErrInvalid, "--%s cannot be used with profile %q: its script %q and its templates decide that. "+
			"Change them or the profile, or give the script an argument (--param KEY=VALUE)",
			strings.Join(flags, ", --"), profile, p.Script)
	}
	return nil // that there is no such profile is the answer to the request
}

// parseParams parses key=value arguments into the parameters of a request.
func parseParams(args []string) (map[string]any, error) {
	params := map[string]any{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return nil, cli.Usagef("--param %q: expected key=value", arg)
		}
		if _, twice := params[key]; twice && key != "ssh_keys" {
			return nil, cli.Usagef("--param %s is given twice", key)
		}
		switch key {
		case "vcpus", "http_put_response_hop_limit":
			n, err := strconv.Atoi(value)
			if err != nil {
				return nil, cli.Usagef("--param %s=%s: expected a number, such as 2", key, value)
			}
			params[key] = n
		case "ssh_keys":
			keys, _ := params[key].([]string)
			more, err := SSHKeys([]string{value})
			if err != nil {
				return nil, err
			}
			params[key] = slices.Concat(keys, more)
		case "user_data", "vendor_data":
			doc := []byte(value)
			if file, ok := strings.CutPrefix(value, "@"); ok {
				var err error
				if doc, err = cli.ReadBounded(file, seedbed.MaxDocument); err != nil {
					return nil, err
				}
			}
			setDocument(params, key, doc)
		default:
			params[key] = value
		}
	}
	return params, nil
}

// SSHKeys takes each argument as an authorized_keys line, or as a file of them.
func SSHKeys(args []string) ([]string, error) {
	keys := []string{}
	for _, arg := range args {
		if strings.Contains(arg, " ") && !strings.HasPrefix(arg, "/") {
			keys = append(keys, strings.TrimSpace(arg))
			continue
		}
		text, err := cli.ReadBounded(arg, 64*seedbed.KiB)
		if err != nil {
			return nil, fmt.Errorf("--ssh-key: %w", err)
		}
		if strings.Contains(string(text), "PRIVATE KEY") {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "--ssh-key: %s is a private key: name the public one, %s.pub", arg, arg)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				keys = append(keys, line)
			}
		}
	}
	return keys, nil
}
