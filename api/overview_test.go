package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"seedbed"
	"seedbed/api/wire"
)

func TestOverview(t *testing.T) {
	t.Parallel()
	s := composable(t)
	s.runVM(t, "web1")
	if _, err := s.intake.Import(t.Context(), "more", "default", seedbed.ImportSpec{Path: "/x"}, seedbed.JobOptions{}); err != nil {
		t.Fatal(err)
	}
	var o wire.Overview
	r := s.do(t, "GET", "/api/v1/overview", "")
	if err := json.Unmarshal([]byte(r.body), &o); err != nil || r.status != 200 {
		t.Fatalf("%+v, %v", r, err)
	}
	if o.Node != "host1" || o.Version != "1.2.3" || o.Checks != 2 || len(o.Wrong) != 1 || o.Wrong[0].Name != "port 80" ||
		o.Nodes[seedbed.NodeReady] != 1 || len(o.Nodes) != 1 {
		t.Errorf("%+v", o)
	}
	if r := s.do(t, "GET", "/api/v1/nodes", ""); r.status != 200 ||
		!strings.Contains(r.body, `"state":"ready","control":true,"instances":1,"running":1,"vcpus":1,"memory":"512MiB"}]`) {
		t.Errorf("%+v", r)
	}
	if n := o.Counts.Total(seedbed.InstanceRunning).Count; n != 1 || o.Counts.Jobs[seedbed.JobQueued] != 1 || o.Counts.Networks != 2 ||
		len(o.Jobs) != 3 {
		t.Errorf("%+v", o.Counts)
	}
}
