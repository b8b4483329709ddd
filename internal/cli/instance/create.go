package instance

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
	"seedbed/internal/cli/flags"
)

// CreateCommand returns the command create.
func CreateCommand(a *cli.App) *cobra.Command {
	var (
		req      seedbed.Request
		userData string
		params   flags.ParamFlags
		served   flags.ServedParams
		sized    flags.SizeParams
		file     string
		dry      bool
		force    bool
		w        cli.WaitFlags
	)
	c := &cobra.Command{
		Use:   "create [NAME] [PROFILE]",
		Short: "Create an instance and start it",
		Long: `Create an instance from a profile or, with --image, from an image, and start it. The
name is also its host name. --vcpus, --memory, --disk and the other flags override the
profile. Tags are added to those of the profile.

Without a profile, the instance has 1 virtual CPU, 1GiB of memory, a disk of 10GiB (or as
large as the image, if that is larger) and one NIC on the installation's own network,
unless flags say otherwise. seedbed vm rebuild makes its disk from the same image again.
With --cdrom and neither a profile nor an image, the disk is blank: --boot cdrom installs
a system there, and seedbed vm set NAME --boot disk starts that from then on.

Parameters (--param) set any param.NAME that a template in the documents uses, and what
the flags set, by its name in the API: memory=2GiB, ssh_keys=LINE (repeatable),
user_data=TEXT or user_data=@FILE, http_tokens=required.

If the profile declares parameters (seedbed profile show), --param sets one,
--params-file several, and --interactive asks for the others without echoing secrets.
A file keeps a secret off the command line, which other users can see.

--file reads a whole definition, in YAML or JSON, with the keys name, project, profile or
image, params, node, network, nics, security_groups, ready, hold, protected, expires
and at_expiry. Arguments and flags override it.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if len(args) == 2 && req.Profile != "" {
				return cli.Usagef("create %s: both profile %s and --profile %s are given: give only one", args[0], args[1], req.Profile)
			}
			if file == "-" && params.Stdin() {
				return cli.Usagef("--file and --params-file both read standard input: give one of them a file")
			}
			d, err := readDefinition(a, file)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				req.Name = args[0]
			}
			if len(args) == 2 {
				req.Profile = args[1]
			}
			d.complete(&req)
			switch {
			case req.Name == "":
				return cli.Usagef("the argument NAME is missing: seedbed create NAME PROFILE, or --file with a definition that has a name")
			case req.Profile != "" && req.Image != "":
				return cli.Usagef("create %s: both profile %s and --image %s are given: give only one, since the profile has its image",
					req.Name, req.Profile, req.Image)
			}
			if err := seedbed.CheckInstanceName(req.Name); err != nil {
				return err
			}
			if d.Project != "" && a.Flags.Project == "" {
				api = api.WithProject(d.Project)
			}
			p, err := params.Values(a)
			if err != nil {
				return err
			}
			if err := errors.Join(served.Set(p), sized.Set(p)); err != nil {
				return err
			}
			given := slices.Concat(sized.Given(), served.Given())
			if userData != "" {
				p["userdata"] = userData
				given = append(given, "userdata")
			}
			if err := flags.RefuseForScript(ctx, api, req.Profile, given); err != nil {
				return err
			}
			for name, v := range d.Params {
				if _, overridden := p[name]; !overridden {
					p[name] = v
				}
			}
			if req.Profile == "" && req.Image == "" && p["cdrom"] == nil {
				return cli.Usagef("create %s: the profile is missing: seedbed create %s --profile PROFILE (seedbed profile list), "+
					"or without one: seedbed create %s --image IMAGE (seedbed image list)", req.Name, req.Name, req.Name)
			}
			req.Params = p
			api = api.WithForce(force)
			declared, err := params.Declared(ctx, api, req.Profile)
			if err != nil {
				return err
			}
			if err := params.Complete(a, declared, p); err != nil {
				return err
			}
			if dry {
				return a.ShowPlan(api.Plan(ctx, req))
			}
			receipt, err := api.CreateInstance(ctx, req)
			err = namedImage(ctx, api, req.Image, namedProfile(ctx, api, req.Profile, err))
			if err := a.Finish(ctx, api, &w, receipt, err); err != nil || !w.Wanted() || a.JSON() || a.Flags.Quiet {
				return err
			}
			i, err := api.Instance(ctx, req.Name)
			return a.Report(err, "%s is %s%s", i.Name, i.State, located(i))
		}),
	}
	a.Fill(c, &req,
		cli.Flag{Field: "profile", Usage: "`PROFILE` to create it from; same as the second argument"},
		cli.Flag{Field: "image", Usage: "`IMAGE` to create it from, without a profile", Names: cli.Images},
		cli.Flag{Field: "network", Usage: "`NETWORK` of its first NIC (default: the profile's, or the installation's own)", Names: cli.Networks},
		cli.Flag{Field: "nics", Name: "nic", Usage: "a `NIC` as network=NETWORK,ip=ADDRESS,secondary=ADDRESS+ADDRESS,secondary6=COUNT," +
			"mac=ADDRESS,in=RATE,out=RATE,group=GROUP, each optional; again for a further one", Each: true, ParseAll: flags.NICs},
		cli.Flag{Field: "security_groups", Name: "security-group", Usage: "security `GROUPS` of its NICs, separated by commas (default: the " +
			"project's group default if there is one, or else open)", Names: cli.SecurityGroups},
		cli.Flag{Field: "node", Usage: "`NODE` to run it on (default: chosen by its system template and the installation's placement)"},
		cli.Flag{Field: "hold", Usage: "define it without starting it; seedbed vm start starts it"},
		cli.Flag{Field: "expires", Usage: "`TIME` when it expires, such as 2026-01-02T15:04:05Z, or a duration from now on such as 2h or 30d"},
		cli.Flag{Field: "at_expiry", Usage: "`ACTION` when it expires: stop or remove (default: stop)"},
		cli.Flag{Field: "protected", Name: "protect", Usage: "require its name to be typed again before remove or rebuild"},
	)
	c.Flags().StringVar((*string)(&req.Ready), "ready", "",
		"when the job has succeeded, as `CONDITION`: report, metadata or started (default: the profile's, or metadata)")
	c.Flags().StringVar(&userData, "userdata", "", "`MODE` of its user-data: live (follow changes of the profile's) or pinned")
	params.Add(c)
	sized.Add(a, c)
	served.Add(a, c)
	c.Flags().StringVar(&file, "file", "", "YAML or JSON `FILE` that defines the instance, or - for standard input")
	c.Flags().BoolVar(&force, "force", false, "create it even if cloud-init could not read its user-data")
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be created, where, and what prevents it")
	w.AddJob(a, c)
	c.ValidArgsFunction = a.Completion(cli.NoNames, cli.Profiles)
	return c
}

// namedProfile returns seedbed.ErrNotFound for the refusal of a request whose profile does not exist:
// the command line named it, although the API says that the request is invalid.
func namedProfile(ctx context.Context, api *client.Client, profile string, err error) error {
	if profile == "" || !errors.Is(err, seedbed.ErrInvalid) {
		return err
	}
	if _, missing := api.Profile(ctx, profile); errors.Is(missing, seedbed.ErrNotFound) {
		return seedbed.Errorf(seedbed.ErrNotFound, "%s", err)
	}
	return err
}

// namedImage is namedProfile for an image.
func namedImage(ctx context.Context, api *client.Client, image string, err error) error {
	if image == "" || !errors.Is(err, seedbed.ErrInvalid) {
		return err
	}
	if _, missing := api.Image(ctx, image); errors.Is(missing, seedbed.ErrNotFound) {
		return seedbed.Errorf(seedbed.ErrNotFound, "%s", err)
	}
	return err
}
