package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
)

// These list the names of one kind of object each.
var (
	SystemTemplates  = matched((*client.Client).SystemTemplates, func(t wire.SystemTemplate) string { return t.Name })
	NetworkTemplates = matched((*client.Client).NetworkTemplates, func(t wire.NetworkTemplate) string { return t.Name })
	StorageTemplates = matched((*client.Client).StorageTemplates, func(t wire.StorageTemplate) string { return t.Name })
	UserdataNames    = matched((*client.Client).UserDataDocuments, func(d wire.UserData) string { return d.Name })
	ScriptNames      = matched((*client.Client).Scripts, func(s wire.Script) string { return s.Name })
	OVAs             = matched((*client.Client).OVAs, func(o wire.OVA) string { return o.Name })
	// ComposedProfiles are the profiles that the provisioner commands know.
	ComposedProfiles = matched(ScriptedProfiles, func(p seedbed.Profile) string { return p.Name })

	Images  = listed((*client.Client).Images, func(i seedbed.Image) string { return i.Name })
	Volumes = listed(func(c *client.Client, ctx context.Context) ([]seedbed.ProjectVolume, error) {
		return c.ListVolumes(ctx, client.Selection{})
	}, func(v seedbed.ProjectVolume) string { return v.Name })
	Hooks    = listed((*client.Client).Hooks, func(h seedbed.Hook) string { return h.Name })
	Networks = listed((*client.Client).Networks, func(n seedbed.Network) string { return n.Name })
	// SecurityGroups are the security groups that have rules of their own.
	SecurityGroups = listed(func(c *client.Client, ctx context.Context) ([]seedbed.SecurityGroup, error) {
		return c.ListSecurityGroups(ctx, client.Selection{})
	}, func(g seedbed.SecurityGroup) string { return g.Name })
	// PlacementGroups are the placement groups.
	PlacementGroups = listed(func(c *client.Client, ctx context.Context) ([]seedbed.PlacementGroup, error) {
		return c.ListPlacementGroups(ctx, client.Selection{})
	}, func(g seedbed.PlacementGroup) string { return g.Name })
	// Addresses are the floating addresses.
	Addresses = listed(func(c *client.Client, ctx context.Context) ([]seedbed.FloatingAddress, error) {
		return c.ListAddresses(ctx, client.Selection{})
	}, func(a seedbed.FloatingAddress) string { return a.Addr.String() })
	Nodes     = listed((*client.Client).Nodes, func(n seedbed.NodeStatus) string { return n.Name })
	endpoints = listed((*client.Client).Endpoints, func(e seedbed.Endpoint) string { return e.Name })
	projects  = listed((*client.Client).Projects, func(p seedbed.Project) string { return p.Name })
	Roles     = listed((*client.Client).Roles, func(r wire.Role) string { return string(r.Name) })
	tokens    = listed((*client.Client).Tokens, func(t seedbed.Token) string { return t.Name })
)

// VolumesIn returns the lister of the volumes in some states. The disks that instances were made with are left out.
func VolumesIn(states ...seedbed.VolumeState) NameLister {
	return func(ctx context.Context, api *client.Client, _ []string, _ string) ([]string, error) {
		all, err := api.ListVolumes(ctx, client.Selection{})
		all = slices.DeleteFunc(all, func(v seedbed.ProjectVolume) bool { return v.ID == "" || !slices.Contains(states, v.State) })
		return Each(all, func(v seedbed.ProjectVolume) string { return v.Name }), err
	}
}

// ActionPatterns lists the actions, and "noun.*" for each noun.
func ActionPatterns(ctx context.Context, api *client.Client, _ []string, _ string) ([]string, error) {
	actions, err := api.Actions(ctx)
	names := Each(actions, func(a seedbed.ActionInfo) string { return string(a.Name) })
	for _, name := range names {
		noun, _, _ := strings.Cut(name, ".")
		names = append(names, noun+".*")
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// matched returns the lister of the objects that all finds by a pattern.
func matched[T any](all func(*client.Client, context.Context, seedbed.Scope, string) ([]T, error), name func(T) string) NameLister {
	return func(ctx context.Context, api *client.Client, _ []string, begun string) ([]string, error) {
		objects, err := all(api, ctx, seedbed.Scope{}, "^"+begun)
		return Each(objects, name), err
	}
}

// listed returns the lister of the objects that all returns.
func listed[T any](all func(*client.Client, context.Context) ([]T, error), name func(T) string) NameLister {
	return func(ctx context.Context, api *client.Client, _ []string, _ string) ([]string, error) {
		objects, err := all(api, ctx)
		return Each(objects, name), err
	}
}

// TemplateVNIs lists the networks of the template that the first argument names.
func TemplateVNIs(ctx context.Context, api *client.Client, args []string, _ string) ([]string, error) {
	t, err := api.NetworkTemplate(ctx, args[0])
	return slices.Compact(t.VNIs), err
}

// TemplateDisks lists the disks of the template that the first argument names.
func TemplateDisks(ctx context.Context, api *client.Client, args []string, _ string) ([]string, error) {
	t, err := api.StorageTemplate(ctx, args[0])
	return Each(t.Disks, func(d seedbed.CatalogueDisk) string { return d.Name }), err
}

// ScriptedProfiles lists the profiles with a script whose names match pattern. An empty pattern
// matches all.
func ScriptedProfiles(api *client.Client, ctx context.Context, in seedbed.Scope, pattern string) ([]seedbed.Profile, error) {
	m, q := seedbed.ParseNameMatch(pattern), seedbed.ProfileQuery{Scope: in}
	if m.Start {
		q.Prefix = m.Text
	}
	all, err := api.ListProfiles(ctx, q)
	return slices.DeleteFunc(all, func(p seedbed.Profile) bool {
		return p.Script == "" || !m.Matches(p.Name) && !m.Matches(seedbed.ShortName(p.Name))
	}), err
}

// ScriptedProfile returns a profile with a script, or seedbed.ErrNotFound.
func ScriptedProfile(api *client.Client, ctx context.Context, name string) (seedbed.Profile, error) {
	p, err := api.Profile(ctx, name)
	if err == nil && p.Script == "" {
		err = seedbed.Errorf(seedbed.ErrNotFound, "the profile %q has no script", name)
	}
	return p, err
}

// Instances lists the names of instances.
func Instances(ctx context.Context, api *client.Client, _ []string, begun string) ([]string, error) {
	all, err := api.ListInstances(ctx, seedbed.InstanceQuery{Prefix: begun, Limit: completed})
	return Each(all, func(i seedbed.Instance) string { return i.Name }), err
}

// Profiles lists the names of profiles.
func Profiles(ctx context.Context, api *client.Client, _ []string, begun string) ([]string, error) {
	all, err := api.ListProfiles(ctx, seedbed.ProfileQuery{Prefix: begun, Limit: completed})
	return Each(all, func(p seedbed.Profile) string { return p.Name }), err
}

func jobs(ctx context.Context, api *client.Client, _ []string, _ string) ([]string, error) {
	all, err := api.Jobs(ctx, completed)
	return Each(all, func(j seedbed.Job) string { return j.ID.Short() }), err
}

// connectionCompletion completes the names of connections.
func (a *App) connectionCompletion(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.connectionNames(nil, nil, begun)
}

// connectionNames completes the name of a connection, whatever the arguments before it.
func (a *App) connectionNames(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	s, err := a.settings()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := slices.Sorted(maps.Keys(s.Connections))
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, begun) })
	return names, cobra.ShellCompDirectiveNoFileComp
}
