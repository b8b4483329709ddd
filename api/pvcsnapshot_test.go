package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"seedbed"
)

// begins makes a request of PVC's client that starts a task of that name, and returns the ID of the task.
func (s *server) begins(t *testing.T, method, path, task string) string {
	t.Helper()
	r := s.do(t, method, "/api/v1"+path, "")
	var got struct {
		ID   string `json:"task_id"`
		Name string `json:"task_name"`
		On   string `json:"run_on"`
	}
	if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.status != 202 || got.Name != task || got.On != testNode+" (primary)" ||
		r.header.Get("Location") != "/api/v1/tasks/"+got.ID {
		t.Fatalf("%s %s: %+v, %v", method, path, r, err)
	}
	return got.ID
}

func TestPVCSnapshots(t *testing.T) {
	t.Parallel()
	s := start(t)
	i := s.stored(t)
	const at = "/vm/web1/snapshot"
	s.pvc(t, call{"POST", "/vm/none/snapshot", "snapshot_name=s1", 400, msg("ERROR: Could not find VM 'none' in the cluster!")})
	s.off(t)
	s.begins(t, "POST", at, "vm.create_snapshot") // named after the time
	s.end(t, succeeded)
	s.expect(t, "GET", "/jobs?limit=1", "", 200, `"kind":"snapshot"`, `"spec":{"name":"20`)
	id := s.begins(t, "POST", at+"?snapshot_name=s1", "vm.create_snapshot")
	s.end(t, succeeded)
	s.expect(t, "GET", "/tasks/"+id, "", 200, `"state":"SUCCESS"`)
	v := i.Volumes[0]
	if _, err := s.shelf.CreateSnapshot(t.Context(), "j1", seedbed.SnapshotSpec{Volume: v.Name, Instance: i.ID, Name: "s1"}); err != nil {
		t.Fatal(err)
	}
	s.pvc(t, call{"POST", at, "snapshot_name=s1", 400, msg("Snapshot name 's1' already exists for VM 'web1'!")})
	r := s.do(t, "GET", "/api/v1/vm/web1", "")
	for _, part := range []string{`"snapshots":[{"name":"s1","timestamp":"`,
		`"xml_diff_lines":[],"rbd_snapshots":["` + v.Pool + "/" + v.Name + `@s1"]}]`} {
		if !strings.Contains(r.body, part) {
			t.Errorf("want %s in %s", part, r.body)
		}
	}
	s.pvc(t, call{"POST", at + "/rollback", "", 400, lacks("snapshot_name", "A snapshot name must be specified")})
	s.pvc(t, call{"POST", at + "/rollback", "snapshot_name=s2", 400, msg("Could not find snapshot 's2' of VM 'web1'!")})
	s.begins(t, "POST", at+"/rollback?snapshot_name=s1", "vm.rollback_snapshot")
	s.end(t, succeeded)
	s.expect(t, "GET", "/jobs?limit=1", "", 200, `"kind":"snapshot_restore"`)
	s.pvc(t, call{"DELETE", at, "snapshot_name=s2", 400, msg("Could not find snapshot 's2' of VM 'web1'!")})
	s.begins(t, "DELETE", at+"?snapshot_name=s1", "vm.remove_snapshot")
	s.end(t, succeeded)
	s.expect(t, "GET", "/jobs?limit=1", "", 200, `"kind":"snapshot_remove"`)

	s.expect(t, "POST", "/instances/web1/start", "", 202)
	s.end(t, seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning})
	s.pvc(t, call{"POST", at + "/rollback", "snapshot_name=s1", 400, msg(`VM 'web1' is not stopped or disabled; VMs cannot be rolled back ` +
		`while running: stop it, or use "seedbed vm snapshot restore"`)})
}
