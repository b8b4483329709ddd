package provision

import (
	"strings"
	"testing"

	"seedbed"
)

// TestDatasourceOfRebuild checks that an instance's UUID is one of its datasource's, that a rebuild
// keeps the datasource, and that it does not make one of EC2's whose UUID no guest takes for that.
func TestDatasourceOfRebuild(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{Action: "create", Name: "web1", Profile: "small",
		Params: map[string]any{"datasource": "openstack"}}, nil)), seedbed.JobSucceeded)
	was, err := l.db.InstanceByName(ctx, seedbed.InDefault("web1"))
	l.ok(err)
	if was.ID.AnnouncesEC2() || was.Datasource != seedbed.DatasourceOpenStack {
		t.Errorf("an OpenStack instance has the UUID %s and the datasource %s", was.ID, was.Datasource)
	}
	l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobSucceeded)
	now := l.rebuilt(was)
	if spec, _ := l.hv.Spec(now.ID); now.Datasource != seedbed.DatasourceOpenStack || spec.Datasource != seedbed.DatasourceOpenStack {
		t.Errorf("after a rebuild the instance has the datasource %s, and its domain %s", now.Datasource, spec.Datasource)
	}
	l.runUntil(l.ask(seedbed.DoRebuild, map[string]any{"datasource": "nocloud"}), seedbed.JobSucceeded)
	if now = l.rebuilt(now); now.Datasource != seedbed.DatasourceNoCloud {
		t.Errorf("after a rebuild for NoCloud the instance has the datasource %s", now.Datasource)
	}
	_, err = l.db.CreateProfile(ctx, seedbed.Profile{Name: "big", Image: was.Image, VCPUs: 1, Memory: seedbed.GiB, Network: "default",
		Ready: seedbed.ReadyStarted})
	l.ok(err)
	for name, req := range map[string]seedbed.Request{
		"asked for":            {Params: map[string]any{"datasource": "ec2"}},
		"of another's profile": {Profile: "big"},
	} {
		req.Action, req.Name = seedbed.DoRebuild, "web1"
		_, err = l.intake.Submit(ctx, req, nil)
		l.want(name, err, seedbed.ErrInvalid)
		if err != nil && !strings.Contains(err.Error(), "does not begin with ec2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
