package storage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// BackupCommand returns the command backup with its subcommands.
func BackupCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "backup", Aliases: []string{"backups"}, Short: "Manage backups of instances"})
	c.AddCommand(backupCreate(a), backupList(a), backupShow(a), backupRestore(a),
		onBackup(a, "verify BACKUP", "Read a backup as a whole, and compare its digests",
			`Read all that a backup consists of, and compare it with the digests that it was stored
with. The job fails if anything is missing or damaged, and its events say what.`,
			(*client.Client).VerifyBackup, (*client.Client).PlanVerifyBackup),
		a.Confirmed("Remove backup %s", onBackup(a, "remove BACKUP", "Remove a backup",
			`Remove a backup from its target, and then what no other backup there needs. What is
younger than a day stays until a later removal: a backup that is being made may need it.`,
			(*client.Client).RemoveBackup, (*client.Client).PlanRemoveBackup)),
		targetCommand(a), a.ScheduleCommand(seedbed.ScheduleBackup, "backup schedule", scheduleAdd(a)))
	return c
}

// inTarget adds the flag for the target in which a backup is.
func inTarget(c *cobra.Command, target *string) {
	c.Flags().StringVar(target, "target", "", "the `TARGET` that has the backup")
	_ = c.MarkFlagRequired("target") // the flag was added above
}

// onBackup returns a command that starts a job on a backup, or shows its plan.
func onBackup(
	a *cli.App, use, short, long string, begin func(api *client.Client, ctx context.Context, target, id string) (seedbed.Receipt, error),
	plan func(api *client.Client, ctx context.Context, target, id string) (seedbed.Plan, error),
) *cobra.Command {
	var target string
	var dry bool
	c := a.JobAction(use, short, func(api *client.Client, ctx context.Context, args []string) (seedbed.Receipt, error) {
		return begin(api, ctx, target, args[0])
	})
	run, show := c.RunE, a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		return a.ShowPlan(plan(api, ctx, target, args[0]))
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if dry {
			return show(c, args)
		}
		return run(c, args)
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be done and what prevents it")
	c.Long, c.ValidArgsFunction = long, cobra.NoFileCompletions
	inTarget(c, &target)
	return c
}

func backupCreate(a *cli.App) *cobra.Command {
	var (
		r   wire.BackupRequest
		w   cli.WaitFlags
		dry bool
	)
	c := &cobra.Command{
		Use: "create VM", Short: "Make a backup of an instance",
		Long: `Copy the disks of an instance, as they are at one moment, to a target, with the
instance's configuration. The guest may be running. Only what is not in the target yet
takes room there. In a Ceph pool only what has changed since the last backup is read,
unless --full is given. Volumes that are attached to the instance are in the backup as
well, except those of --exclude.`,
		ValidArgsFunction: a.Completion(cli.Instances, cli.NoNames),
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if dry {
				return a.ShowPlan(api.PlanBackup(ctx, args[0], r))
			}
			receipt, err := api.BackUp(ctx, args[0], r)
			return a.Finish(ctx, api, &w, receipt, err)
		}),
	}
	a.Fill(c, &r,
		cli.Flag{Field: "target", Name: "to", Usage: "the `TARGET` that is to have the backup", Required: true},
		cli.Flag{Field: "full", Usage: "read the disks as a whole, whatever has changed"},
		cli.Flag{Field: "exclude", Usage: "attached `VOLUME` to leave out (repeatable)"},
	)
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be done and what prevents it")
	w.AddJob(a, c)
	return c
}

func backupList(a *cli.App) *cobra.Command {
	c := cli.Resource[wire.Backup]{
		Some: func(api *client.Client, ctx context.Context, args []string, s client.Selection) ([]wire.Backup, error) {
			if len(args) > 0 {
				s.Where = maps.Clone(s.Where)
				if s.Where == nil {
					s.Where = map[string]string{}
				}
				s.Where["instance"] = args[0]
			}
			return api.ListBackups(ctx, s)
		},
		Filters: []cli.Filter{{Name: "target", Usage: "only those in this `TARGET`"}},
		None:    "no backups yet: seedbed backup create VM --to TARGET", Unmatched: "no matching backups",
		Project: func(b wire.Backup) string { return b.Project },
		Head:    []string{"backup", "instance", "target", "size", "stored", "state", "made"},
		Row: func(b wire.Backup) []string {
			state := "whole"
			if b.Problem != "" {
				state = "damaged"
			}
			return []string{string(b.Backup), b.Name, b.Target, cli.Size(b.Size), cli.Size(b.Stored), state, a.Ago(b.Time)}
		},
	}.List(a, "list [VM]", "List backups")
	c.Long = `List the backups in all targets: those of the project's instances and, from the default
project, also those that other installations have made there.`
	return c
}

func backupShow(a *cli.App) *cobra.Command {
	var target string
	c := cli.Resource[wire.BackupDetails]{
		One: func(api *client.Client, ctx context.Context, args []string) (wire.BackupDetails, error) {
			return api.Backup(ctx, target, args[0])
		},
		Pairs: func(a *cli.App, b wire.BackupDetails) [][2]string {
			pairs := [][2]string{
				{"backup", string(b.Backup.Backup)}, {"target", b.Target}, {"instance", b.Name}, {"instance id", string(b.Instance)},
				{"project", b.Project}, {"made", a.Moment(b.Time)}, {"size", cli.Size(b.Size)}, {"stored", cli.Size(b.Stored)},
				{"encrypted", cli.YesNo(b.Encrypted)}, {"installation", b.Installation}, {"node", b.Node},
				{"vcpus", fmt.Sprint(b.VCPUs)}, {"memory", cli.Size(b.Memory)}, {"profile", b.Profile}, {"image", b.Image},
				{"notes", b.Notes},
			}
			for _, n := range b.NICs {
				pairs = append(pairs, [2]string{fmt.Sprintf("nic %d", n.Index), fmt.Sprintf("%s in network %s", n.MAC, n.Network)})
			}
			for _, d := range b.Disks {
				from := "pool " + d.Pool
				if d.Volume != "" {
					from = "volume " + d.Volume + " of " + from
				}
				pairs = append(pairs, [2]string{fmt.Sprintf("disk %d", d.Disk), fmt.Sprintf("%s from %s; %s read, %d chunks, %d of them new (%s)",
					d.Size, from, d.Read, d.Chunks, d.New, d.Stored)})
			}
			return pairs
		},
	}.Show(a, "show BACKUP", "Show a backup")
	c.ValidArgsFunction = cobra.NoFileCompletions
	inTarget(c, &target)
	return c
}

func backupRestore(a *cli.App) *cobra.Command {
	var (
		r      seedbed.BackupRestoreRequest
		target string
		w      cli.WaitFlags
		dry    bool
	)
	c := &cobra.Command{
		Use: "restore BACKUP", Short: "Make an instance of a backup",
		Long: `Make a new instance with the disks and the configuration of a backup, which another
installation may have made. It has an identity, addresses and, unless --keep-macs is given,
MAC addresses of its own. The networks and pools of the backup must exist here by name;
--network and --pool say what takes the place of others.`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if dry {
				return a.ShowPlan(api.PlanRestoreBackup(ctx, target, args[0], r))
			}
			receipt, err := api.RestoreBackup(ctx, target, args[0], r)
			return a.Finish(ctx, api, &w, receipt, err)
		}),
	}
	a.Fill(c, &r,
		cli.Flag{Field: "name", Usage: "`NAME` of the new instance", Required: true},
		cli.Flag{Field: "networks", Name: "network", Usage: "network here for one of the backup, as `OLD=NEW` (repeatable)",
			ParseAll: cli.Mapping("network")},
		cli.Flag{Field: "pools", Name: "pool", Usage: "pool here for one of the backup, as `OLD=NEW` (repeatable)",
			ParseAll: cli.Mapping("pool")},
		cli.Flag{Field: "keep_macs", Name: "keep-macs", Usage: "keep the MAC addresses, which nothing else may have"},
		cli.Flag{Field: "off", Usage: "leave the instance off"},
		cli.Flag{Field: "node", Usage: "`NODE` that is to have it (default: chosen by the placement)"},
	)
	inTarget(c, &target)
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be made and what prevents it")
	w.AddJob(a, c)
	return c
}

func targetCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "target", Aliases: []string{"targets"}, Short: "Manage targets of backups"})
	r := targets(a)
	c.AddCommand(targetAdd(a), r.List(a, "list", "List targets"), r.Show(a, "show NAME", "Show a target"), targetSet(a), targetCheck(a),
		a.RemoveCommand("remove NAME", "Remove a target; the backups in it stay there", "Remove backup target %s", "backup target %s removed",
			(*client.Client).DeleteBackupTarget))
	return c
}

func targetAdd(a *cli.App) *cobra.Command {
	var r seedbed.BackupTargetRequest
	c := &cobra.Command{
		Use: "add NAME", Short: "Add a target: a directory, or a bucket of an S3 server",
		Long: `Add a target of backups: with --path a directory that all nodes reach under the same path,
such as an NFS mount, and otherwise a bucket of an S3 server. A worker reaches it first, and
makes an empty one ready. With --recipient, what is stored there is encrypted with age; the
identity is needed to restore and verify, and can be added later. Keep a copy of the
identity: without it the backups are lost. Which directories and commands a node may use is
in its configuration (storage.backup_dirs, storage.backup_commands).`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			r.Name = args[0]
			_, err := api.AddBackupTarget(ctx, r)
			return a.Report(err, "backup target %s added", args[0])
		}),
	}
	a.Fill(c, &r, append([]cli.Flag{
		{Field: "path", Usage: "`DIRECTORY` for the backups"},
		{Field: "url", Name: "server", Usage: "`URL` of the S3 server, such as https://s3.example.org"},
		{Field: "bucket", Usage: "`BUCKET` for the backups"},
		{Field: "prefix", Usage: "`PREFIX` of the keys of all objects"},
		{Field: "region", Usage: "`REGION` of the bucket"},
		{Field: "recipient", Usage: "age public `KEY` for which everything is encrypted"},
	}, targetFlags()...)...)
	return c
}

// targetFlags are the settings that "target add" and "target set" share.
func targetFlags() []cli.Flag {
	secret := func(file string) (any, error) {
		text, err := cli.GivenSecret(file)
		return seedbed.Secret(text), err
	}
	return []cli.Flag{
		{Field: "key_id", Usage: "`ID` of the access key"},
		{Field: "secret", Name: "secret-file", Usage: "`FILE` with the secret of the access key", Parse: secret},
		{Field: "identity", Name: "identity-file", Usage: "`FILE` with the age identity of an encrypted target, as age-keygen makes it",
			Parse: identity},
		{Field: "node", Usage: "the only `NODE` that reaches it (default: all do)"},
		{Field: "before", Usage: "`COMMAND` that a worker runs before it uses the target (repeatable; empty for none)", Each: true,
			ParseAll: someCommands},
		{Field: "after", Usage: "`COMMAND` that a worker runs after that (repeatable; empty for none)", Each: true, ParseAll: someCommands},
		{Field: "keep", Usage: "backups of each instance to keep, as `RULES` such as last=3,hourly=24,daily=7,weekly=4,monthly=12 (default: all)",
			Parse: func(text string) (any, error) { return seedbed.ParseRetention(text) }},
	}
}

// someCommands returns the texts that are not empty.
func someCommands(texts []string) (any, error) {
	return slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" }), nil
}

// identity reads the age identity of a file, which may have comments.
func identity(file string) (any, error) {
	text, err := cli.GivenSecret(file)
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return seedbed.Secret(line), err
		}
	}
	return seedbed.Secret(""), err
}

func targetSet(a *cli.App) *cobra.Command {
	var change seedbed.BackupTargetChange
	c := &cobra.Command{
		Use: "set NAME", Short: "Change a target",
		Long: `Change how a target is reached, and which backups are kept there. Settings that are not
given are left as they are. Where a target is never changes: add another one.`,
	}
	f := a.Fill(c, &change, targetFlags()...)
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		if !f.Given() {
			return cli.Usagef("nothing to change: give a flag, such as --keep")
		}
		t, err := api.SetBackupTarget(ctx, args[0], change)
		return a.ShowPairs(err, t, targetPairs(a, t))
	})
	return c
}

func targetCheck(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "check NAME", Short: "Report whether a target can be reached and written to",
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			info, err := api.CheckBackupTarget(ctx, args[0])
			return a.ShowPairs(err, info, [][2]string{{"state", "ok"}, {"chunk size", info.ChunkSize.String()},
				{"encrypted for", cli.When(info.Recipient != "", info.Recipient)}})
		}),
	}
}

func targets(a *cli.App) cli.Resource[wire.BackupTarget] {
	return cli.Resource[wire.BackupTarget]{
		Some: cli.Selected((*client.Client).ListBackupTargets), Filters: []cli.Filter{cli.NameFilter()},
		None: "no backup targets yet: seedbed backup target add NAME --path DIRECTORY", Unmatched: "no matching backup targets",
		Head: []string{"name", "place", "encrypted", "keeps", "added"},
		Row: func(t wire.BackupTarget) []string {
			return []string{t.Name, t.Where(), cli.YesNo(t.Recipient != ""), t.Keep.String(), a.Ago(t.Created)}
		},
		One: cli.Named((*client.Client).BackupTarget), Pairs: targetPairs,
	}
}

func targetPairs(a *cli.App, t wire.BackupTarget) [][2]string {
	identity := ""
	if t.Recipient != "" {
		identity = cli.YesNo(t.HasIdentity)
	}
	return [][2]string{
		{"name", t.Name}, {"place", t.Where()}, {"region", t.Region}, {"key id", t.KeyID}, {"encrypted for", t.Recipient},
		{"identity known", identity}, {"node", t.Node}, {"before", strings.Join(t.Before, "\n")}, {"after", strings.Join(t.After, "\n")},
		{"keeps", t.Keep.String()}, {"added", a.Moment(t.Created)}, {"changed", a.Moment(t.Changed)},
	}
}

func scheduleAdd(a *cli.App) *cobra.Command {
	var r wire.BackupScheduleRequest
	c := &cobra.Command{
		Use: "add NAME", Short: "Have backups be made by themselves",
		Long: `Have a backup be made of instances of the project at the times of a cron expression in UTC:
of those that --vm names, of those that were made from a profile, or of those that have a
tag. An instance that cannot be backed up then, because another job works on it for
example, is left out; "backup schedule show" and "doctor" say so.
Volumes of --exclude are left out of the backups of the instances that have them attached.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			r.Name = args[0]
			_, err := api.AddBackupSchedule(ctx, r)
			return a.Report(err, "backup schedule %s added", args[0])
		}),
	}
	a.Fill(c, &r, append(cli.ScheduleFlags(),
		cli.Flag{Field: "target", Name: "to", Usage: "the `TARGET` that is to have the backups", Required: true},
		cli.Flag{Field: "exclude", Usage: "`VOLUME` to leave out where it is attached (repeatable)"},
	)...)
	c.MarkFlagsMutuallyExclusive("vm", "profile", "tag")
	return c
}
