package provision

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// TestWithdrawnImage makes instances of a tenant from a profile of the default project: what the profile
// names is used as its own project uses it, and what an expression takes from a request must be published to
// the tenant as well. A rebuild of what was made is refused once the image is withdrawn.
func TestWithdrawnImage(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted).withProject()
	ctx := t.Context()
	create := func(name string, req seedbed.Request) error {
		req.Action, req.Project, req.Name = seedbed.DoCreate, "acme", name
		_, err := l.intake.Submit(ctx, req, nil)
		return err
	}
	refused := func(what string, err error) {
		t.Helper()
		l.want(what, err, seedbed.ErrInvalid)
		if err != nil && (!strings.Contains(err.Error(), "debian") || !strings.Contains(err.Error(), "does not exist")) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("a draft", create("web1", seedbed.Request{Image: "debian", Network: "default"}))
	l.ok(create("web1", seedbed.Request{Profile: "small"}))

	if _, err := l.db.CreateProfile(ctx, seedbed.Profile{Name: "any", VCPUs: 1, Memory: seedbed.GiB, Network: "default",
		Params:      []seedbed.Param{{Name: "os", Type: seedbed.ParamString}},
		Expressions: map[string]string{"image": "${param.os}"}}); err != nil {
		t.Fatal(err)
	}
	l.publish("any", "acme")
	chosen := seedbed.Request{Profile: "any", Params: map[string]any{"os": "debian"}}
	refused("a draft that a param names", create("web2", chosen))
	to := func(p seedbed.Publication) {
		t.Helper()
		_, err := l.db.PublishImage(ctx, "debian", p)
		l.ok(err)
		_, err = l.db.PublishNetwork(ctx, "default", p)
		l.ok(err)
	}
	to(seedbed.Publication{Projects: []string{"acme"}})
	l.ok(create("web2", chosen))
	l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{
		Action: seedbed.DoCreate, Project: "acme", Name: "web3", Image: "default/debian", Network: "default/default"}, nil)),
		seedbed.JobSucceeded)
	made, err := l.db.InstanceByName(ctx, seedbed.Named("acme", "web3"))
	l.ok(err)
	if made.Image != "debian" || made.NICs[0].Network != "default" {
		t.Errorf("instance %+v", made)
	}

	rebuild := seedbed.Request{Action: seedbed.DoRebuild, Project: "acme", Name: "web3"}
	to(seedbed.Publication{})
	_, err = l.intake.Submit(ctx, rebuild, nil)
	refused("a rebuild from what was withdrawn", err)
	l.ok(create("web4", seedbed.Request{Profile: "small"}))
	to(seedbed.Publication{All: true})
	l.runUntil(l.job(l.intake.Submit(ctx, rebuild, nil)), seedbed.JobSucceeded)
}

// TestProfilesOfProjects makes instances from a project's own profile, from one that is published to it, and from
// one that is not. Names without a project are the project's own, before those of the default project.
func TestProfilesOfProjects(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted).withProject()
	ctx := t.Context()
	_, err := l.db.PublishImage(ctx, "debian", seedbed.Publication{Projects: []string{"acme"}})
	l.ok(err)
	_, err = l.db.PublishNetwork(ctx, "default", seedbed.Publication{Projects: []string{"acme"}})
	l.ok(err)
	create := func(name, profile string) error {
		_, err := l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoCreate, Project: "acme", Name: name, Profile: profile}, nil)
		return err
	}
	from := func(name, profile, want string) {
		t.Helper()
		l.ok(create(name, profile))
		i, err := l.db.InstanceByName(ctx, seedbed.Named("acme", name))
		if l.ok(err); i.Profile != want {
			t.Errorf("%s of %s is of profile %s, want %s", name, profile, i.Profile, want)
		}
	}
	from("web1", "small", "small")
	own, err := l.db.CreateProfile(ctx, seedbed.Profile{
		Name: "acme/small", Image: "debian", VCPUs: 2, Memory: seedbed.GiB, Network: "default"})
	l.ok(err)
	if own.Image != "default/debian" {
		t.Errorf("it is of image %s, want one that means the same in a request", own.Image)
	}
	from("web2", "small", "acme/small")
	from("web3", "default/small", "small")
	from("web4", "acme/small", "acme/small")

	l.publish("small") // a draft
	for _, name := range []string{"default/small", "default/none", "shop/small"} {
		err := create("web5", name)
		l.want("profile "+name, err, seedbed.ErrInvalid)
		if want := `profile "` + name + `" does not exist; there are: acme/small`; err == nil || err.Error() != want {
			t.Errorf("profile %s: %v, want %s", name, err, want)
		}
	}
}

// TestNICsOfPublishedProfile makes instances of a project from another project's profile with NICs. The networks are those that the
// profile's project can use, and the security groups are those of the instance's project.
func TestNICsOfPublishedProfile(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted).withProject()
	l.otherNetwork()
	ctx := t.Context()
	_, err := l.db.CreateProject(ctx, seedbed.Project{Name: "shop"})
	l.ok(err)
	network := func(name, bridge, prefix string) {
		t.Helper()
		_, err := l.db.CreateNetwork(ctx, seedbed.Network{Name: name, Kind: seedbed.NetworkIsolated, Bridge: bridge, MAC: seedbed.NewMAC(),
			Prefix: netip.MustParsePrefix(prefix), Gateway: netip.MustParsePrefix(prefix).Addr().Next(), DHCP: true})
		l.ok(err)
	}
	network("acme/other", "sbacme", "10.97.0.0/24")
	network("shop/lan", "sbshop", "10.96.0.0/24")
	_, err = l.db.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: "web"})
	l.ok(err)
	p := seedbed.Profile{Name: "two", Image: "debian", VCPUs: 1, Memory: seedbed.GiB, NICs: []seedbed.NICRequest{
		{Network: "other", Groups: []string{"web"}}, {Network: "default"}}}
	_, err = l.db.CreateProfile(ctx, p)
	l.ok(err)
	_, err = l.db.PublishProfile(ctx, "two", seedbed.Publication{Projects: []string{"acme"}})
	l.ok(err)
	create := func(name string, req seedbed.Request) error {
		req.Action, req.Project, req.Name, req.Profile = seedbed.DoCreate, "acme", name, "two"
		_, err := l.intake.Submit(ctx, req, nil)
		return err
	}
	err = create("web1", seedbed.Request{})
	l.want("a group that the project does not have", err, seedbed.ErrInvalid)
	_, err = l.db.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: "acme/web"})
	l.ok(err)
	l.ok(create("web1", seedbed.Request{}))
	l.ok(create("web2", seedbed.Request{Network: "other"})) // the project's own
	got := map[string][]string{}
	for _, name := range []string{"web1", "web2"} {
		i, err := l.db.InstanceByName(ctx, seedbed.Named("acme", name))
		l.ok(err)
		for _, n := range i.NICs {
			got[name] = append(got[name], n.Network+" "+strings.Join(n.Groups, "+"))
		}
	}
	if d := cmp.Diff(map[string][]string{
		"web1": {"other acme/web", "default acme/default"}, "web2": {"acme/other acme/web", "default acme/default"},
	}, got); d != "" {
		t.Error(d)
	}
	l.want("a network that the project may not use", create("web3", seedbed.Request{Network: "shop/lan"}), seedbed.ErrInvalid)

	// The profile's own project must still be able to use the networks.
	_, err = l.db.CreateProfile(ctx, seedbed.Profile{Name: "acme/two", Image: "default/debian", VCPUs: 1, Memory: seedbed.GiB,
		NICs: []seedbed.NICRequest{{Network: "acme/other"}, {Network: "shop/lan"}}})
	l.want("a network that is not published", err, seedbed.ErrInvalid)
}

// TestPartsThatRequestsChoose makes instances of a project from another project's profile, whose system template
// a parameter chooses: one that is published to the first project, and no other.
func TestPartsThatRequestsChoose(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted).withProject()
	ctx := t.Context()
	for _, name := range []string{"fixed", "one", "two"} {
		_, err := l.db.CreateSystemTemplate(ctx, seedbed.SystemTemplate{Name: name, VCPUs: 2, Memory: seedbed.GiB})
		l.ok(err)
	}
	for name, template := range map[string]string{"direct": "fixed", "chosen": ""} {
		p := seedbed.Profile{Name: name, Image: "debian", Network: "default", System: template}
		if template == "" {
			p.Params = []seedbed.Param{{Name: "size", Type: seedbed.ParamString}}
			p.Expressions = map[string]string{"system_template": "${param.size}"}
		}
		_, err := l.db.CreateProfile(ctx, p)
		l.ok(err)
		_, err = l.db.PublishProfile(ctx, name, seedbed.Publication{Projects: []string{"acme"}})
		l.ok(err)
	}
	_, err := l.db.PublishSystemTemplate(ctx, "two", seedbed.Publication{Projects: []string{"acme"}})
	l.ok(err)
	create := func(project, name, profile, size string) error {
		req := seedbed.Request{Action: seedbed.DoCreate, Project: project, Name: name, Profile: profile}
		if size != "" {
			req.Params = map[string]any{"size": size}
		}
		_, err := l.intake.Submit(ctx, req, nil)
		return err
	}
	l.ok(create("acme", "web1", "direct", ""))
	l.ok(create("acme", "web2", "chosen", "two"))
	l.ok(create("default", "web1", "chosen", "one"))
	for _, size := range []string{"one", "none", "default/one"} {
		err := create("acme", "web3", "chosen", size)
		l.want("the template "+size, err, seedbed.ErrInvalid)
		if want := "profile chosen uses system template " + size + ", which does not exist"; err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", size, err, want)
		}
	}
}
