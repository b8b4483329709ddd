package main

import (
	"github.com/spf13/cobra"

	"seedbed/internal/cli"
	"seedbed/internal/cli/cluster"
	"seedbed/internal/cli/doctor"
	"seedbed/internal/cli/hook"
	"seedbed/internal/cli/instance"
	"seedbed/internal/cli/job"
	"seedbed/internal/cli/metadata"
	"seedbed/internal/cli/network"
	"seedbed/internal/cli/profile"
	"seedbed/internal/cli/session"
	"seedbed/internal/cli/storage"
)

// commands returns the tool's commands, in the groups of its help.
func commands(a *cli.App) []*cobra.Command {
	var all []*cobra.Command
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Instances", []*cobra.Command{
			instance.CreateCommand(a), instance.VMCommand(a), job.Command(a), metadata.Command(a),
		}},
		{"What instances are made from", []*cobra.Command{
			storage.ImageCommand(a), profile.Command(a), profile.TemplateCommand(a), profile.UserdataCommand(a), profile.ScriptCommand(a),
			storage.OVACommand(a), storage.VolumeCommand(a), storage.BackupCommand(a), profile.CatalogueCommand(a), provisionerCmd(a),
		}},
		{"Webhooks and events", []*cobra.Command{
			hook.Command(a), hook.DeliveryCommand(a), hook.EndpointCommand(a),
		}},
		{"The installation", []*cobra.Command{
			cluster.StatusCommand(a), doctor.Command(a), network.Command(a), network.SecurityGroupCommand(a), network.AddressCommand(a),
			instance.PlacementGroupCommand(a),
			cluster.NodeCommand(a), storage.PoolCommand(a), cluster.ProjectCommand(a), cluster.RoleCommand(a), cluster.TokenCommand(a),
			cluster.AuditCommand(a), cluster.Command(a), cluster.CertificateCommand(a),
		}},
		{"What was left behind", []*cobra.Command{
			storage.TrashCommand(a), storage.OrphanCommand(a), storage.CleanupCommand(a),
		}},
		{cli.ToolGroup, []*cobra.Command{
			session.LoginCommand(a), session.LogoutCommand(a), session.Command(a), cluster.WhoamiCommand(a),
			a.ConnectionCommand(), a.VersionCommand(), a.DocsCommand(),
		}},
	} {
		for _, c := range g.commands {
			c.GroupID = g.title
		}
		all = append(all, g.commands...)
	}
	addExamples(all)
	return all
}

// provisionerCmd returns the command tree of PVC's "pvc provisioner", with its options.
func provisionerCmd(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "provisioner", Aliases: []string{"prov"}, Short: "Manage templates, user-data, scripts and profiles with PVC's commands",
		Long: `Manage templates, user-data, scripts and profiles with the commands and options of
"pvc provisioner", from the Parallel Virtual Cluster. A profile combines a system, a
network and a storage template, a userdata document and a script. An instance created
from one is like any other (seedbed vm list).

LIMIT limits a list to names that contain this text, begin with it after ^, or end with
it before $. A change prints the server's message.`,
		Example: `  seedbed provisioner template system add small -u 2 -m 1024 -s
  seedbed provisioner template network add lan -m '{prefix}:00:{vmid}0:{netid}0'
  seedbed provisioner template network vni add lan default
  seedbed provisioner template storage add root
  seedbed provisioner template storage disk add root sda -p default -i debian-13
  seedbed provisioner userdata add cloud cloud.yaml
  seedbed provisioner profile add web -s small -n lan -t root -u cloud -x empty
  seedbed provisioner create web1 web`,
	})
	c.AddCommand(profile.TemplateCommand(a), profile.UserdataCommand(a), profile.ScriptCommand(a), storage.OVACommand(a),
		profile.ComposedProfileCommand(a), instance.ComposeCommand(a))
	return c
}
