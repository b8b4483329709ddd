package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
)

func (a *app) profileCmd() *cobra.Command {
	c := group(&cobra.Command{Use: "profile", Aliases: []string{"profiles"}, Short: "What instances are made from"})
	c.AddCommand(a.profileAdd(), a.profileList(), a.profileShow(), a.profileRemove())
	return c
}

// sizeFlag is a pflag.Value.
type sizeFlag struct{ *seedbed.Bytes }

func (f sizeFlag) Set(s string) error { return f.UnmarshalText([]byte(s)) }
func (f sizeFlag) Type() string       { return "size" }

func (a *app) profileAdd() *cobra.Command {
	p := seedbed.Profile{Memory: seedbed.GiB, DiskSize: 10 * seedbed.GiB}
	var (
		keys   []string
		ready  string
		served servedFlags
	)
	c := &cobra.Command{
		Use:   "add NAME --image IMAGE",
		Short: "Make a profile",
		Long: `Make a profile. --ready says when a create job has succeeded: "report" when
cloud-init has phoned home at the end of the first boot, "metadata" when the
guest has fetched its user-data, "started" when the machine runs.

A document whose first line is "## template: seedbed" is a template: ${vm.name},
${vm.ip}, ${param.NAME} and others stand for what they are of each instance,
$(vm.number + 10) for the result; write $${ and $$( for a shell in the guest.`,
		Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) (err error) {
			p.Name = args[0]
			if p.Ready, err = seedbed.ParseReady(ready); err != nil {
				return err
			}
			if p.SSHKeys, err = sshKeys(keys); err != nil {
				return err
			}
			if p.UserData, p.VendorData, err = served.documents(a); err != nil {
				return err
			}
			if p.Tags, err = parseTags(served.tags); err != nil {
				return err
			}
			p.VendorDataInUserData, p.Metadata = served.vendorInUser, served.options.MetadataOptions
			if p.Datasource, err = seedbed.ParseDatasource(served.datasource); err != nil {
				return err
			}
			api, err := a.client()
			if err != nil {
				return err
			}
			made, err := api.CreateProfile(ctx, p)
			if err != nil {
				return err
			}
			if a.json() {
				return a.printJSON(made)
			}
			a.say("profile %s added; use it with: seedbed create NAME --profile %s", made.Name, made.Name)
			return nil
		}),
	}
	f := c.Flags()
	f.StringVar(&p.Image, "image", "", "`image` of the root disk")
	f.IntVar(&p.VCPUs, "vcpus", 1, "virtual `CPUs`")
	f.Var(sizeFlag{&p.Memory}, "memory", "memory")
	f.Var(sizeFlag{&p.DiskSize}, "disk", "root disk; 0 means the image's own size")
	f.StringVar(&p.Network, "network", "default", "`network` of its one NIC")
	f.StringArrayVar(&keys, "ssh-key", nil, "public key: a `file` or the line itself (repeatable)")
	f.StringVar(&ready, "ready", "metadata", "report, metadata or started")
	served.add(c)
	_ = c.MarkFlagRequired("image") // the flag exists: it was added above
	return c
}

// readArg reads a file, or standard input for "-".
func (a *app) readArg(path string, limit seedbed.Bytes) ([]byte, error) {
	if path == "-" {
		return readLimited(a.in, "standard input", limit)
	}
	return readBounded(path, limit)
}

// sshKeys takes each argument as an authorized_keys line, or as a file of them.
func sshKeys(args []string) ([]string, error) {
	keys := []string{}
	for _, arg := range args {
		if strings.Contains(arg, " ") && !strings.HasPrefix(arg, "/") {
			keys = append(keys, strings.TrimSpace(arg))
			continue
		}
		text, err := readBounded(arg, 64*seedbed.KiB)
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

func (a *app) profileList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List profiles", Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			return list(ctx, a, (*client.Client).Profiles, "no profiles yet: seedbed profile add NAME --image IMAGE",
				[]string{"name", "image", "vcpus", "memory", "disk", "network", "ready"},
				func(p seedbed.Profile) []string {
					return []string{p.Name, p.Image, strconv.Itoa(p.VCPUs), size(p.Memory), size(p.DiskSize), p.Network, string(p.Ready)}
				})
		}),
	}
}

func (a *app) profileShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a profile", Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			return show(ctx, a, (*client.Client).Profile, args[0], func(p seedbed.Profile) [][2]string {
				return [][2]string{
					{"name", p.Name}, {"image", p.Image}, {"vcpus", strconv.Itoa(p.VCPUs)}, {"memory", size(p.Memory)},
					{"disk", size(p.DiskSize)}, {"network", p.Network}, {"ready", string(p.Ready)},
					{"ssh keys", strings.Join(p.SSHKeys, "\n")}, {"user-data", strings.TrimRight(string(p.UserData), "\n")},
					{"vendor-data", strings.TrimRight(string(p.VendorData), "\n")}, {"vendor-data in user-data", inUserData(p)},
					{"datasource", string(p.Datasource)}, {"metadata options", optionLine(p.Metadata)}, {"tags", tagLine(p.Tags)},
					{"added", a.moment(p.Created)},
				}
			})
		}),
	}
}

func inUserData(p seedbed.Profile) string {
	if !p.VendorDataInUserData {
		return ""
	}
	return yesNo(true)
}

func (a *app) profileRemove() *cobra.Command {
	return a.removeCmd("Remove a profile; its instances stay", "profile %s removed", (*client.Client).DeleteProfile)
}
