package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
)

func (a *app) createCmd() *cobra.Command {
	var (
		profile string
		params  []string
		served  servedFlags
		w       waitFlags
	)
	var c *cobra.Command
	c = &cobra.Command{
		Use:   "create NAME --profile PROFILE",
		Short: "Make an instance and start it",
		Long: `Make an instance and start it. The name is its host name. Parameters override the
profile: vcpus=2, memory=2GiB, disk=20GiB, ssh_keys=LINE (repeatable), whatever a
template in the documents reads as param.NAME, and what the other flags say, by
its name in the API: user_data=TEXT or user_data=@FILE, http_tokens=required.
Tags are added to those of the profile.`,
		Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			if err := seedbed.CheckInstanceName(args[0]); err != nil {
				return err
			}
			p, err := parseParams(params)
			if err != nil {
				return err
			}
			if err := served.params(a, c, p); err != nil {
				return err
			}
			api, err := a.client()
			if err != nil {
				return err
			}
			receipt, err := api.CreateInstance(ctx, seedbed.Request{Name: args[0], Profile: profile, Params: p})
			if err != nil {
				return err
			}
			if err := a.finish(ctx, api, receipt, &w); err != nil || !w.wanted() || a.json() || a.flags.quiet {
				return err
			}
			return a.tellAddress(ctx, api, args[0])
		}),
	}
	f := c.Flags()
	f.StringVar(&profile, "profile", "", "`profile` that it is made from")
	f.StringArrayVar(&params, "param", nil, "parameter as `key=value` (repeatable)")
	served.add(c)
	_ = c.MarkFlagRequired("profile") // the flag exists: it was added above
	w.add(c)
	return c
}

// tellAddress says where a new instance is.
func (a *app) tellAddress(ctx context.Context, api *client.Client, name string) error {
	i, err := api.Instance(ctx, name)
	if err != nil {
		return err
	}
	a.say("%s is %s at %s", i.Name, i.State, addresses(i))
	return nil
}

// parseParams makes the params of a request from key=value arguments.
func parseParams(args []string) (map[string]any, error) {
	params := map[string]any{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return nil, usagef("--param %q: want key=value", arg)
		}
		if _, twice := params[key]; twice && key != "ssh_keys" {
			return nil, usagef("--param %s is given twice", key)
		}
		switch key {
		case "vcpus", "http_put_response_hop_limit":
			n, err := strconv.Atoi(value)
			if err != nil {
				return nil, usagef("--param %s=%s: want a number, such as 2", key, value)
			}
			params[key] = n
		case "ssh_keys":
			keys, _ := params[key].([]string)
			more, err := sshKeys([]string{value})
			if err != nil {
				return nil, err
			}
			params[key] = slices.Concat(keys, more)
		case "user_data", "vendor_data":
			doc := []byte(value)
			if file, ok := strings.CutPrefix(value, "@"); ok {
				var err error
				if doc, err = readBounded(file, seedbed.MaxDocument); err != nil {
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
