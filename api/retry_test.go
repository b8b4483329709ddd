package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// failJob claims the next job and ends it without success.
func (s *server) failJob(t *testing.T) *seedbed.Job {
	t.Helper()
	job := s.claim(t)
	end := seedbed.JobResult{State: seedbed.JobFailed, Error: "no"}
	if !job.Kind.Forward() {
		end.State = seedbed.JobRolledBack
		if err := s.db.Undo(t.Context(), job.Ref(), "no"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Finish(t.Context(), job.Ref(), end); err != nil {
		t.Fatal(err)
	}
	return job
}

// TestRetryInAProject retries jobs of one project while another has an instance of the same name.
func TestRetryInAProject(t *testing.T) {
	t.Parallel()
	s, _, tokens := tenants(t)
	operator := "Bearer " + tokens[seedbed.RoleOperator]
	if r := s.do(t, "POST", "/api/v1/instances", `{"name":"web1","profile":"small"}`, "Authorization", operator); r.status != 202 {
		t.Fatalf("%+v", r)
	}
	s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning})
	web1, err := s.db.InstanceByName(t.Context(), seedbed.Named("acme", "web1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, body string }{
		{"/stop", `{"force":true}`}, {"/flatten", ""}, {"/resize", `{"size":"1TiB"}`},
	} {
		if r := s.do(t, "POST", "/api/v1/instances/web1"+c.path, c.body, "Authorization", operator); r.status != 202 {
			t.Fatalf("%s: %+v", c.path, r)
		}
		for _, by := range [][]string{{"Authorization", operator}, nil} { // an operator of acme, an admin of the installation
			first := s.failJob(t)
			if r := s.do(t, "POST", "/api/v1/jobs/"+string(first.ID)+"/retry", "", by...); r.status != 202 {
				t.Fatalf("%s: %+v", c.path, r)
			}
			jobs, err := s.db.LiveJobs(t.Context(), seedbed.AllProjects(), 10)
			if err != nil || len(jobs) != 1 || jobs[0].Project != "acme" || jobs[0].Instance != web1.ID || jobs[0].Kind != first.Kind {
				t.Errorf("%s: %+v, %v: want one job on web1 of acme", c.path, jobs, err)
			}
		}
		s.failJob(t)
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()
	s := composable(t)
	s.sharing(t)
	s.runVM(t, "web1")
	fail := func() *seedbed.Job { return s.failJob(t) }
	retry := func(id seedbed.JobID, status int, words string) {
		t.Helper()
		if r := s.do(t, "POST", "/api/v1/jobs/"+string(id)+"/retry", ""); r.status != status || !strings.Contains(r.body, words) {
			t.Fatalf("%d %s: want %d with %q", r.status, r.body, status, words)
		}
	}
	retried := map[seedbed.JobKind]bool{}
	var earlier seedbed.JobID // undone, and about the instance that is removed below
	for _, c := range []struct {
		name, path, body string
		kind             seedbed.JobKind
	}{
		{"start", "/start", "", seedbed.JobStart},
		{"stop", "/stop", `{"soft":true,"grace":"90s"}`, seedbed.JobStop},
		{"reboot", "/reboot", `{"force":true}`, seedbed.JobReboot},
		{"migrate", "/migrate", `{"method":"cold","grace":"90s","node":"hv7"}`, seedbed.JobMigrate},
		{"migrate while it runs", "/migrate", `{"method":"live","stay":true}`, seedbed.JobMigrate},
		{"flatten", "/flatten", "", seedbed.JobFlatten},
		{"resize", "/resize", `{"size":"1TiB"}`, seedbed.JobResize},
		{"snapshot", "/snapshots", `{"name":"before"}`, seedbed.JobSnapshot},
		{"restore", "/snapshots/before/restore", `{"soft":true,"grace":"90s"}`, seedbed.JobSnapshotRestore},
	} {
		if c.kind == seedbed.JobSnapshot {
			s.off(t)
		}
		if r := s.do(t, "POST", "/api/v1/instances/web1"+c.path, c.body); r.status != 202 {
			t.Fatalf("%s: %+v", c.name, r)
		}
		retried[c.kind] = true
		first := fail()
		retry(first.ID, 202, `"state":"queued"`)
		second := fail()
		earlier = second.ID
		if first.Kind != c.kind || second.Kind != c.kind || second.Subject != "web1" || second.ID == first.ID ||
			string(second.Spec) != string(first.Spec) {
			t.Errorf("%s: %+v, and once more %+v", c.name, first, second)
		}
		if c.kind == seedbed.JobStop {
			var p seedbed.PowerSpec
			if err := json.Unmarshal(second.Spec, &p); err != nil || !p.Soft || p.Grace != 90*time.Second {
				t.Errorf("%+v, %v", p, err)
			}
		}
	}

	s.expect(t, "POST", "/volumes", `{"name":"data","size":"1GiB"}`, 202)
	s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded})
	for _, c := range []struct {
		kind       seedbed.JobKind
		path, body string
	}{
		{seedbed.JobVolumeResize, "resize", `{"size":"2GiB"}`},
		{seedbed.JobVolumeSet, "limits", `{"iops":500,"read_bandwidth":"1MiB"}`},
		{seedbed.JobVolumeMove, "move", `{"pool":"other"}`},
		{seedbed.JobVolumeDownload, "download", `{"format":"raw"}`},
		{seedbed.JobAttach, "attach", `{"instance":"web1","bus":"scsi","keep":false}`},
		{seedbed.JobDetach, "detach", ""},
	} {
		kind := c.kind
		s.expect(t, "POST", "/volumes/data/"+c.path, c.body, 202)
		retried[kind] = true
		first := fail()
		retry(first.ID, 202, `"state":"queued"`)
		second := s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded})
		if first.Kind != kind || second.Kind != kind || string(second.Spec) != string(first.Spec) {
			t.Errorf("%s: %+v, and once more %+v", kind, first, second)
		}
	}

	s.expect(t, "POST", "/networks", `{"name":"spare","prefix":"10.88.0.0/24"}`, 201)
	s.expect(t, "POST", "/instances/web1/nics", `{"network":"spare"}`, 202)
	retry(fail().ID, 409, "send the request again")
	s.expect(t, "POST", "/instances/web1/nics", `{"network":"spare"}`, 202)
	s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded})
	for kind, c := range map[seedbed.JobKind][3]string{
		seedbed.JobNICSet: {"PATCH", "0", `{"network":"spare"}`}, seedbed.JobNICRemove: {"DELETE", "1", ""},
	} {
		s.expect(t, c[0], "/instances/web1/nics/"+c[1], c[2], 202)
		retried[kind] = true
		first := fail()
		retry(first.ID, 202, `"state":"queued"`)
		if second := fail(); second.Kind != kind || string(second.Spec) != string(first.Spec) {
			t.Errorf("%s: %+v, and once more %+v", kind, first, second)
		}
	}

	s.expect(t, "PATCH", "/instances/web1", `{"hardware":{"boot_from":"cdrom"}}`, 202)
	retried[seedbed.JobSet] = true
	changed := fail()
	retry(changed.ID, 202, `"state":"queued"`)
	if second := fail(); second.Kind != seedbed.JobSet || string(second.Spec) != string(changed.Spec) {
		t.Errorf("%+v, and once more %+v", changed, second)
	}

	s.expect(t, "POST", "/instances/web1/stop", `{"force":true}`, 202)
	s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceStopped})
	s.expect(t, "POST", "/instances/web1/rename", `{"name":"web9"}`, 202)
	retried[seedbed.JobRename] = true
	to := fail()
	retry(to.ID, 202, `"state":"queued"`)
	if second := fail(); second.Kind != seedbed.JobRename || string(second.Spec) != string(to.Spec) {
		t.Errorf("%+v, and once more %+v", to, second)
	}

	s.targets(t)
	web1, err := s.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	if err != nil {
		t.Fatal(err)
	}
	s.backUp(t, "nas", web1, "b1")
	for kind, c := range map[seedbed.JobKind][3]string{
		seedbed.JobBackup:       {"POST", "/instances/web1/backups", `{"target":"nas","full":true}`},
		seedbed.JobBackupVerify: {"POST", "/backups/nas/b1/verify", ""},
		seedbed.JobBackupRemove: {"DELETE", "/backups/nas/b1", ""},
	} {
		s.expect(t, c[0], c[1], c[2], 202)
		retried[kind] = true
		first := fail()
		retry(first.ID, 202, `"state":"queued"`)
		if second := fail(); second.Kind != kind || kind != seedbed.JobBackup && string(second.Spec) != string(first.Spec) {
			t.Errorf("%s: %+v, and once more %+v", kind, first, second)
		}
	}

	// Other kinds are resumed, or cannot be retried because their requests are not kept.
	others := []seedbed.JobKind{seedbed.JobCreate, seedbed.JobRebuild, seedbed.JobImport, seedbed.JobOVA, seedbed.JobAdopt,
		seedbed.JobRemove, seedbed.JobSnapshotRemove, seedbed.JobImageRemove, seedbed.JobOVARemove, seedbed.JobForget,
		seedbed.JobVolumeAdd, seedbed.JobVolumeRemove, seedbed.JobNICAdd, seedbed.JobBackupRestore, seedbed.JobClone, seedbed.JobFailover}
	for _, kind := range seedbed.JobKinds() {
		if !retried[kind] && !slices.Contains(others, kind) {
			t.Errorf("no %s job is retried here: add its request to the table, and to retry.go", kind)
		}
	}

	// Jobs that cannot be retried.
	if r := s.do(t, "DELETE", "/api/v1/instances/web1", ""); r.status != 202 {
		t.Fatalf("%+v", r)
	}
	jobs, err := s.db.ListJobs(t.Context(), seedbed.JobQuery{Scope: seedbed.AllProjects(), Kind: seedbed.JobRemove})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%v, %v", jobs, err)
	}
	retry(jobs[0].ID, 409, "has not ended")
	remove := fail()
	retry(remove.ID, 202, `"job":"`+string(remove.ID)+`"`) // it resumes
	retry(remove.ID, 409, "has not ended")
	s.endJob(t, seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true})
	retry(remove.ID, 409, "has succeeded")
	retry(earlier, 404, "web1")
	s.runVM(t, "web1")
	retry(earlier, 409, "another")
	creates, err := s.db.ListJobs(t.Context(), seedbed.JobQuery{Scope: seedbed.AllProjects(), Kind: seedbed.JobCreate})
	if err != nil {
		t.Fatal(err)
	}
	retry(creates[0].ID, 409, "has succeeded")
	if r := s.do(t, "POST", "/api/v1/images", `{"name":"other","path":"/img.qcow2"}`); r.status != 202 {
		t.Fatalf("%+v", r)
	}
	retry(fail().ID, 409, "send the request again")
	retry("00000000", 404, "does not exist")
}

// TestRetryOfAnotherVolume checks that the retry of an attach does not attach another volume that has the name by now. A role
// needs disk.manage to attach a volume that goes with its instance.
func TestRetryOfAnotherVolume(t *testing.T) {
	t.Parallel()
	s := composable(t)
	s.runVM(t, "web1")
	s.expect(t, "POST", "/volumes", `{"name":"data","size":"1GiB"}`, 202)
	s.endJob(t, succeeded)
	s.expect(t, "POST", "/volumes/data/attach", `{"instance":"web1"}`, 202)
	first := s.failJob(t)
	s.expect(t, "PATCH", "/volumes/data", `{"name":"archive"}`, 200)
	s.expect(t, "POST", "/jobs/"+string(first.ID)+"/retry", "", 404)
	s.expect(t, "POST", "/volumes", `{"name":"data","size":"1GiB"}`, 202)
	s.endJob(t, succeeded)
	s.expect(t, "POST", "/jobs/"+string(first.ID)+"/retry", "", 409, "another one has it now")

	s.expect(t, "POST", "/roles", `{"name":"plugger","actions":["disk.read","disk.attach","instance.read","instance.remove"]}`, 201)
	plugger := s.by(t, s.newToken(t, "plugger", "plugger"))
	plugger("POST", "/volumes/data/attach", `{"instance":"web1","keep":false}`, 403, "disk.manage")
	plugger("POST", "/volumes/data/attach", `{"instance":"web1","keep":true}`, 202)
}
