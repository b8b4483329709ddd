package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// belongings is what a project has.
type belongings struct {
	// instances and protected are the names of all instances, and of the protected ones. ovas and images are
	// those of its own OVA images, and of its own images that none of these has.
	instances, protected, ovas, images []string
	// volumes are the names of its volumes, without the disks that instances were made with.
	volumes []string
	// others is what can be removed without a job, in the order of the removal. Hooks and tokens come
	// first, so that they make nothing new.
	others []others
	// catalogue is what its instances are made of, in the order of the removal.
	catalogue []others
}

// others are the objects of one kind.
type others struct {
	kind   string
	names  []string
	remove func(context.Context, string) error
}

// belongingsOf returns what the project that api acts in has.
func belongingsOf(ctx context.Context, api *client.Client, project string) (b belongings, err error) {
	instances, err := api.ListInstances(ctx, seedbed.InstanceQuery{})
	if err != nil {
		return b, err
	}
	for _, i := range instances {
		b.instances = append(b.instances, i.Name)
		if i.Protected {
			b.protected = append(b.protected, i.Name)
		}
	}
	volumes, err := api.ListVolumes(ctx, client.Selection{})
	if err != nil {
		return b, err
	}
	for _, v := range volumes {
		if v.ID != "" {
			b.volumes = append(b.volumes, v.Name)
		}
	}
	images, err := api.Images(ctx)
	if err != nil {
		return b, err
	}
	ovas, err := api.OVAs(ctx, seedbed.Scope{}, "")
	if err != nil {
		return b, err
	}
	b.ovas = own(project, ovas, func(o wire.OVA) string { return o.Name })
	b.images = own(project, images, func(i seedbed.Image) string { return i.Name })
	for _, o := range ovas {
		b.images = slices.DeleteFunc(b.images, func(name string) bool {
			return slices.ContainsFunc(o.Volumes, func(v seedbed.OVAVolume) bool { return v.Image == name })
		})
	}
	hooks, err := api.Hooks(ctx)
	if err != nil {
		return b, err
	}
	tokens, err := api.Tokens(ctx)
	if err != nil {
		return b, err
	}
	endpoints, err := api.Endpoints(ctx)
	if err != nil {
		return b, err
	}
	b.others = []others{
		{"hook", cli.Each(hooks, func(h seedbed.Hook) string { return h.Name }), api.DeleteHook},
		{"token", cli.Each(tokens, func(t seedbed.Token) string { return t.Name }), api.DeleteToken},
		{"endpoint", cli.Each(endpoints, func(e seedbed.Endpoint) string { return e.Name }), api.DeleteEndpoint},
	}
	b.catalogue, err = catalogueOf(ctx, api, project)
	return b, err
}

// catalogueOf returns the profiles of a project, and then what they are made of.
func catalogueOf(ctx context.Context, api *client.Client, project string) (all []others, err error) {
	profiles, err1 := api.Profiles(ctx)
	systems, err2 := api.SystemTemplates(ctx, seedbed.Scope{}, "")
	networks, err3 := api.NetworkTemplates(ctx, seedbed.Scope{}, "")
	storages, err4 := api.StorageTemplates(ctx, seedbed.Scope{}, "")
	documents, err5 := api.UserDataDocuments(ctx, seedbed.Scope{}, "")
	scripts, err6 := api.Scripts(ctx, seedbed.Scope{}, "")
	bridged, err7 := api.ListNetworks(ctx, client.Selection{})
	systems = slices.DeleteFunc(systems, func(t wire.SystemTemplate) bool { return t.OVA != "" }) // which goes with its OVA image
	return []others{
		{"profile", own(project, profiles, func(p seedbed.Profile) string { return p.Name }), api.DeleteProfile},
		{"system template", own(project, systems, func(t wire.SystemTemplate) string { return t.Name }), api.DeleteSystemTemplate},
		{"network template", own(project, networks, func(t wire.NetworkTemplate) string { return t.Name }), api.DeleteNetworkTemplate},
		{"storage template", own(project, storages, func(t wire.StorageTemplate) string { return t.Name }), api.DeleteStorageTemplate},
		{"userdata document", own(project, documents, func(d wire.UserData) string { return d.Name }), api.DeleteUserData},
		{"script", own(project, scripts, func(s wire.Script) string { return s.Name }), api.DeleteScript},
		{"network", own(project, bridged, func(n seedbed.Network) string { return n.Name }), api.DeleteNetwork},
	}, errors.Join(err1, err2, err3, err4, err5, err6, err7)
}

// own returns the names of the objects that belong to a project, and not only are published to it.
func own[T any](project string, all []T, name func(T) string) (names []string) {
	for _, v := range all {
		if seedbed.ProjectOf(name(v)) == project {
			names = append(names, name(v))
		}
	}
	return names
}

// tell prints what will be removed with a project.
func (b belongings) tell(a *cli.App, project string) {
	line := func(kinds string, names []string) {
		if len(names) > 0 {
			fmt.Fprintf(a.Err, "%s of %s: %s\n", kinds, project, cli.Printable(strings.Join(names, ", ")))
		}
	}
	line("instances and their disks", b.instances)
	line("volumes", b.volumes)
	line("OVA images", b.ovas)
	line("images", b.images)
	for _, of := range slices.Concat(b.others, b.catalogue) {
		line(of.kind+"s", of.names)
	}
}

// consequence returns what to say before the removal.
func (b belongings) consequence() string {
	text := "Its name cannot be used again."
	if n := len(b.volumes); n > 0 {
		text = fmt.Sprintf("Its %d volumes are destroyed. %s", n, text)
	}
	if n := len(b.instances); n > 0 {
		text = fmt.Sprintf("The disks of its %d instances are destroyed. %s", n, text)
	}
	return text
}

// remove removes what a project has.
func (b belongings) remove(ctx context.Context, a *cli.App, api *client.Client, w *cli.WaitFlags) error {
	if err := removeOthers(ctx, a, b.others); err != nil {
		return err
	}
	err := removeEach(ctx, a, api, w, b.instances, func(name string) (seedbed.Receipt, error) {
		return api.RemoveInstance(ctx, name, "")
	})
	if err != nil {
		return err
	}
	// The volumes that an instance removed with itself are gone.
	left := map[string]bool{}
	volumes, err := api.ListVolumes(ctx, client.Selection{})
	if err != nil {
		return err
	}
	for _, v := range volumes {
		left[v.Name] = v.ID != ""
	}
	b.volumes = slices.DeleteFunc(b.volumes, func(name string) bool { return !left[name] })
	err = removeEach(ctx, a, api, w, b.volumes, func(name string) (seedbed.Receipt, error) {
		return api.ChangeVolume(ctx, seedbed.Request{Action: seedbed.DoVolumeRemove, Name: name})
	})
	if err != nil {
		return err
	}
	if err := removeOthers(ctx, a, b.catalogue); err != nil {
		return err
	}
	err = removeEach(ctx, a, api, w, b.ovas, func(name string) (seedbed.Receipt, error) { return api.RemoveOVA(ctx, name) })
	if err != nil {
		return err
	}
	return removeEach(ctx, a, api, w, b.images, func(name string) (seedbed.Receipt, error) { return api.RemoveImage(ctx, name) })
}

func removeOthers(ctx context.Context, a *cli.App, all []others) error {
	for _, of := range all {
		err := cli.ForEach(of.names, func(name string) error {
			return a.Report(of.remove(ctx, name), "%s %s removed", of.kind, name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removeEach removes objects whose removals are jobs, and waits for these.
func removeEach(
	ctx context.Context, a *cli.App, api *client.Client, w *cli.WaitFlags, names []string, remove func(string) (seedbed.Receipt, error),
) error {
	if len(names) == 0 {
		return nil
	}
	return a.FinishEach(ctx, api, w, names, true, remove)
}
