package provision

import (
	"strings"
	"testing"

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
