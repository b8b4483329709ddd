package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
)

// SystemTemplates lists the names of system templates.
func SystemTemplates(ctx context.Context, api *client.Client, _ []string, begun string) ([]string, error) {
	return NamesOf(ctx, api, begun, (*client.Client).SystemTemplates, func(t wire.SystemTemplate) string { return t.Name })
}

// NetworkTemplates lists the names of network templates.
func NetworkTemplates(ctx context.Context, api *client.Client, _ []string, begun string) ([]string, error) {
	return NamesOf(ctx, api, begun, (*client.Client).NetworkTemplates, func(t wire.NetworkTemplate) string { return t.Name })
}

// StorageTemplates lists the names of storage templates.
func StorageTemplates(ctx context.Context, api *client.Client, _ []string, begun string) ([]string, error) {
	return NamesOf(ctx, api, begun, (*client.Client).StorageTemplates, func(t wire.StorageTemplate) string { return t.Name })
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

// UserdataNames lists the names of user-data documents.
func UserdataNames(ctx context.Context, api *client.Client, _ []string, begun string) ([]string, error) {
	return NamesOf(ctx, api, begun, (*client.Client).UserDataDocuments, func(d wire.UserData) string { return d.Name })
}

// ScriptNames lists the names of provisioning scripts.
func ScriptNames(ctx context.Context, api *client.Client, _ []string, begun string) ([]string, error) {
	return NamesOf(ctx, api, begun, (*client.Client).Scripts, func(s wire.Script) string { return s.Name })
}

// ComposedProfiles lists the names of the profiles that the provisioner commands know.
func ComposedProfiles(ctx context.Context, api *client.Client, _ []string, begun string) ([]string, error) {
	return NamesOf(ctx, api, begun, ScriptedProfiles, func(p seedbed.Profile) string { return p.Name })
}

// ScriptedProfiles lists the profiles with a script whose names match pattern. An empty pattern
// matches all.
func ScriptedProfiles(api *client.Client, ctx context.Context, pattern string) ([]seedbed.Profile, error) {
	m, q := seedbed.ParseNameMatch(pattern), seedbed.ProfileQuery{}
	if m.Start {
		q.Prefix = m.Text
	}
	all, err := api.ListProfiles(ctx, q)
	return slices.DeleteFunc(all, func(p seedbed.Profile) bool { return p.Script == "" || !m.Matches(p.Name) }), err
}

// ScriptedProfile returns a profile with a script, or seedbed.ErrNotFound.
func ScriptedProfile(api *client.Client, ctx context.Context, name string) (seedbed.Profile, error) {
	p, err := api.Profile(ctx, name)
	if err == nil && p.Script == "" {
		err = seedbed.Errorf(seedbed.ErrNotFound, "the profile %q has no script", name)
	}
	return p, err
}

// OVAs lists the names of OVA images.
func OVAs(ctx context.Context, api *client.Client, _ []string, begun string) ([]string, error) {
	return NamesOf(ctx, api, begun, (*client.Client).OVAs, func(o wire.OVA) string { return o.Name })
}

func instances(ctx context.Context, api *client.Client, _ []string, begun string) ([]string, error) {
	all, err := api.ListInstances(ctx, seedbed.InstanceQuery{Prefix: begun, Limit: completed})
	return Each(all, func(i seedbed.Instance) string { return i.Name }), err
}

// Profiles lists the names of profiles.
func Profiles(ctx context.Context, api *client.Client, _ []string, begun string) ([]string, error) {
	all, err := api.ListProfiles(ctx, seedbed.ProfileQuery{Prefix: begun, Limit: completed})
	return Each(all, func(p seedbed.Profile) string { return p.Name }), err
}

// Images lists the names of images.
func Images(ctx context.Context, api *client.Client, _ []string, _ string) ([]string, error) {
	all, err := api.Images(ctx)
	return Each(all, func(i seedbed.Image) string { return i.Name }), err
}

// Hooks lists the names of hooks.
func Hooks(ctx context.Context, api *client.Client, _ []string, _ string) ([]string, error) {
	all, err := api.Hooks(ctx)
	return Each(all, func(h seedbed.Hook) string { return h.Name }), err
}

// Networks lists the names of networks.
func Networks(ctx context.Context, api *client.Client, _ []string, _ string) ([]string, error) {
	all, err := api.Networks(ctx)
	return Each(all, func(n seedbed.Network) string { return n.Name }), err
}

func endpoints(ctx context.Context, api *client.Client, _ []string, _ string) ([]string, error) {
	all, err := api.Endpoints(ctx)
	return Each(all, func(e seedbed.Endpoint) string { return e.Name }), err
}

func jobs(ctx context.Context, api *client.Client, _ []string, _ string) ([]string, error) {
	all, err := api.Jobs(ctx, completed)
	return Each(all, func(j seedbed.Job) string { return j.ID.Short() }), err
}

func tokens(ctx context.Context, api *client.Client, _ []string, _ string) ([]string, error) {
	all, err := api.Tokens(ctx)
	return Each(all, func(t seedbed.Token) string { return t.Name }), err
}

// Nodes lists the names of the nodes.
func Nodes(ctx context.Context, api *client.Client, _ []string, _ string) ([]string, error) {
	all, err := api.Nodes(ctx)
	return Each(all, func(n seedbed.NodeStatus) string { return n.Name }), err
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
	var names []cobra.Completion
	for _, name := range s.connectionNames() {
		if strings.HasPrefix(name, begun) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
