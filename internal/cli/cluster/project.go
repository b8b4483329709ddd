package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// ProjectCommand returns the command project with its subcommands.
func ProjectCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "project", Aliases: []string{"projects"}, Short: "Manage projects",
		Long: `Manage projects. Instances, images, jobs, tokens, hooks and endpoints belong to a project,
and callers see only what belongs to theirs, and what others have published to it. The project "default" exists from the start. It
is the operators' own: its admins manage the installation, and act in another project
with --project.`,
	})
	r := projects(a)
	c.AddCommand(projectAdd(a), r.List(a, "list", "List projects"), projectShow(a), projectSet(a), projectQuota(a),
		projectShare(a), projectRemove(a))
	return c
}

func projects(a *cli.App) cli.Resource[seedbed.Project] {
	return cli.Resource[seedbed.Project]{
		Some: cli.Selected((*client.Client).ListProjects), Filters: []cli.Filter{cli.NameFilter()},
		None: "no projects", Unmatched: "no matching projects",
		Head: []string{"name", "number", "made", "quota", "description"},
		Row: func(p seedbed.Project) []string {
			return []string{p.Name, p.Number, a.Ago(p.Created), projectQuotaLine(p.Quota), p.Description}
		},
	}
}

// projectShow returns a command that shows a project with what it uses, may have and has left.
func projectShow(a *cli.App) *cobra.Command {
	return &cobra.Command{Use: "show NAME", Short: "Show a project, its quota and what it uses",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			p, err := api.Project(ctx, args[0])
			err = a.ShowPairs(err, p, [][2]string{
				{"name", p.Name}, {"number", p.Number}, {"description", p.Description}, {"made", a.Moment(p.Created)},
			})
			if err != nil || a.JSON() {
				return err
			}
			fmt.Fprintln(a.Out)
			a.PrintTable([]string{"what", "used", "quota", "left"}, useRows(p), "")
			return nil
		}),
	}
}

// useRows returns the rows of a table of what a project uses, may have and has left.
func useRows(p wire.ProjectStatus) (rows [][]string) {
	add := func(what string, used, most int64, shown func(int64) string) {
		row := []string{what, shown(used), "no limit", ""}
		if most > 0 {
			row[2], row[3] = shown(most), shown(max(0, most-used))
		}
		rows = append(rows, row)
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	size := func(n int64) string { return seedbed.Bytes(n).String() }
	q, u := p.Quota, p.Used
	add("instances", u.Instances, q.Instances, number)
	add("vcpus", u.VCPUs, q.VCPUs, number)
	add("memory", int64(u.Memory), int64(q.Memory), size)
	add("disk", int64(u.Disk), int64(q.Disk), size)
	pools := maps.Clone(u.DiskIn)
	for pool := range q.DiskIn {
		pools[pool] += 0
	}
	for _, pool := range slices.Sorted(maps.Keys(pools)) {
		add("disk in pool "+pool, int64(pools[pool]), int64(q.DiskIn[pool]), size)
	}
	add("addresses", u.Addresses, q.Addresses, number)
	add("jobs that have not ended", u.Jobs, q.Jobs, number)
	add("snapshots", u.Snapshots, q.Snapshots, number)
	add("images", u.Images, q.Images, number)
	add("networks", u.Networks, q.Networks, number)
	add("security groups", u.SecurityGroups, q.SecurityGroups, number)
	add("floating addresses", u.Floating, q.Floating, number)
	add("tokens", u.Tokens, q.Tokens, number)
	add("hooks", u.Hooks, q.Hooks, number)
	add("endpoints", u.Endpoints, q.Endpoints, number)
	rate := func(what string, r seedbed.Rate) {
		if r.PerSecond > 0 {
			rows = append(rows, []string{what, "", fmt.Sprintf("%g per second, %d at once", r.PerSecond, r.Burst), ""})
		}
	}
	rate("requests to the API", q.Requests())
	rate("deliveries to hooks", q.Deliveries())
	return rows
}

// projectQuotaFlags are the flags of a project's quota, whose fields have that prefix.
func projectQuotaFlags(prefix string) []cli.Flag {
	return []cli.Flag{
		{Field: prefix + "max_instances", Usage: "at most `N` instances; 0: no limit"},
		{Field: prefix + "max_vcpus", Usage: "at most `N` virtual CPUs of all instances together; 0: no limit"},
		{Field: prefix + "max_memory", Usage: "at most this `SIZE` of memory of all instances together; 0: no limit"},
		{Field: prefix + "max_disk", Usage: "at most this `SIZE` of all disks together; 0: no limit"},
		{
			Field: prefix + "max_disk_in", Each: true, ParseAll: poolSizes,
			Usage: "at most this size of all disks in a pool together, as `POOL=SIZE` (repeatable)",
		},
		{Field: prefix + "max_addresses", Usage: "at most `N` addresses of instances; 0: no limit"},
		{Field: prefix + "max_jobs", Usage: "at most `N` jobs that have not ended; 0: no limit"},
		{Field: prefix + "max_snapshots", Usage: "at most `N` snapshots of instances; 0: no limit"},
		{Field: prefix + "max_images", Usage: "at most `N` images; 0: no limit"},
		{Field: prefix + "max_networks", Usage: "at most `N` networks; 0: no limit"},
		{Field: prefix + "max_security_groups", Usage: fmt.Sprintf("at most `N` security groups, which are %d at most; 0: that many",
			seedbed.MaxProjectGroups)},
		{Field: prefix + "max_floating_addresses", Usage: fmt.Sprintf("at most `N` floating addresses, which are %d at most; 0: that many",
			seedbed.MaxProjectFloating)},
		{Field: prefix + "max_tokens", Usage: "at most `N` tokens; 0: no limit"},
		{Field: prefix + "max_hooks", Usage: "at most `N` hooks; 0: no limit"},
		{Field: prefix + "max_endpoints", Usage: "at most `N` endpoints; 0: no limit"},
		{Field: prefix + "api_rate", Usage: "at most `N` requests per second to the API, on each control host; 0: no limit"},
		{Field: prefix + "api_burst", Usage: "at most `N` of these requests at once; 0: twice --api-rate, and at least 10"},
		{Field: prefix + "hook_rate", Usage: "at most `N` deliveries per second to hooks, on each control host; 0: no limit"},
		{Field: prefix + "hook_burst", Usage: "at most `N` of these deliveries at once; 0: twice --hook-rate, and at least 10"},
	}
}

// poolSizes parses sizes by the names of pools.
func poolSizes(texts []string) (any, error) {
	sizes := map[string]seedbed.Bytes{}
	for _, text := range texts {
		pool, size, ok := strings.Cut(text, "=")
		_, twice := sizes[pool]
		n, err := seedbed.ParseBytes(size)
		if !ok || twice || err != nil {
			return nil, cli.Usagef("--max-disk-in %q: expected POOL=SIZE such as ssd=500GiB, each pool once", text)
		}
		sizes[pool] = n
	}
	return sizes, nil
}

func projectQuota(a *cli.App) *cobra.Command {
	var q seedbed.ProjectQuota
	c := &cobra.Command{
		Use: "quota NAME", Short: "Set resource limits for a project",
		Long: `Set resource limits for all that a project has. Limits you omit are removed. Existing
instances are not affected. "project show" shows what is used and what is left.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			p, err := api.SetProjectQuota(ctx, args[0], q)
			return a.Tell(err, p, "project %s: %s", p.Name, cmp.Or(projectQuotaLine(p.Quota), "no limits"))
		}),
	}
	a.Fill(c, &q, projectQuotaFlags("")...)
	return c
}

// projectQuotaLine returns a quota on one line, or an empty string for no quota.
func projectQuotaLine(q seedbed.ProjectQuota) string {
	var all []string
	if line := quotaLine(q.TokenQuota); line != "" {
		all = append(all, line)
	}
	for _, pool := range slices.Sorted(maps.Keys(q.DiskIn)) {
		all = append(all, fmt.Sprintf("disk in %s %s", pool, q.DiskIn[pool]))
	}
	for _, of := range []struct {
		most int64
		what string
	}{
		{q.Addresses, "addresses"}, {q.Jobs, "jobs"}, {q.Snapshots, "snapshots"}, {q.Images, "images"}, {q.Networks, "networks"},
		{q.Tokens, "tokens"}, {q.Hooks, "hooks"}, {q.Endpoints, "endpoints"},
	} {
		if of.most > 0 {
			all = append(all, fmt.Sprintf("%d %s", of.most, of.what))
		}
	}
	if q.APIRate > 0 {
		all = append(all, fmt.Sprintf("%g requests per second", q.APIRate))
	}
	if q.HookRate > 0 {
		all = append(all, fmt.Sprintf("%g deliveries per second", q.HookRate))
	}
	return strings.Join(all, ", ")
}

func projectAdd(a *cli.App) *cobra.Command {
	var r wire.ProjectRequest
	c := &cobra.Command{
		Use: "add NAME", Short: "Add a project",
		Long: `Add a project. Its name is at most 32 of a-z, 0-9 and '-', and can never change. A token
for it is made with: seedbed token add TOKEN --project NAME.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			r.Name = args[0]
			p, err := api.AddProject(ctx, r)
			return a.Tell(err, p, "project %s added; its account number is %s", p.Name, p.Number)
		}),
	}
	a.Fill(c, &r, append(projectQuotaFlags("quota."), cli.Flag{Field: "description", Usage: "description as `TEXT`"})...)
	return c
}

func projectSet(a *cli.App) *cobra.Command {
	var r wire.ProjectChange
	c := &cobra.Command{
		Use: "set NAME --description TEXT", Short: "Change a project's description",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			p, err := api.ChangeProject(ctx, args[0], r)
			return a.Tell(err, p, "project %s changed", p.Name)
		}),
	}
	a.Fill(c, &r, cli.Flag{Field: "description", Usage: "description as `TEXT`", Required: true})
	return c
}

func projectRemove(a *cli.App) *cobra.Command {
	var (
		everything, yes bool
		w               cli.WaitFlags
	)
	c := &cobra.Command{
		Use: "remove NAME", Short: "Remove a project",
		Long: `Remove a project. A project that has anything is refused with a list of it, unless
--everything is given. With that, a plan is shown, and after a question the hooks, tokens
and endpoints are removed, then the instances with their disks, and then profiles, what these
are made of, OVA images and images. A protected instance stops the removal before anything is removed,
and what another project uses before the end. The name cannot be used again.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			name := args[0]
			if name == seedbed.DefaultProject {
				return seedbed.Errorf(seedbed.ErrConflict, "the project %s is the operators' own, and cannot be removed", name)
			}
			if _, err := api.Project(ctx, name); err != nil {
				return err
			}
			var has belongings
			if everything {
				var err error
				if has, err = belongingsOf(ctx, api.InProject(name), name); err != nil {
					return err
				}
				if len(has.protected) > 0 {
					return seedbed.Errorf(seedbed.ErrForbidden, "project %s has protected instances: seedbed vm unprotect --project %s %s",
						name, name, strings.Join(has.protected, " "))
				}
				has.tell(a, name)
			}
			if err := a.Sure(yes, "remove project "+name, has.consequence()); err != nil {
				return err
			}
			if err := has.remove(ctx, a, api.InProject(name), &w); err != nil {
				return fmt.Errorf("project %s was not removed: %w", name, err)
			}
			return a.Report(api.DeleteProject(ctx, name), "project %s removed", name)
		}),
	}
	c.Flags().BoolVar(&everything, "everything", false, "also remove all that it has")
	cli.AddYes(c, &yes)
	w.AddTimeout(c)
	w.Wait = true
	return c
}
