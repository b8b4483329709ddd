package api_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"seedbed"
	"seedbed/provision/backup"
	"seedbed/provision/worker/drivertest"
)

// targets adds the targets "nas" and "spare", and the schedule "nightly".
func (s *server) targets(t *testing.T) {
	t.Helper()
	for _, name := range []string{"nas", "spare"} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		s.expect(t, "POST", "/backup-targets", `{"name":"`+name+`","path":"`+dir+`"}`, 201)
	}
	for _, name := range []string{"nightly", "weekly"} {
		s.expect(t, "POST", "/backup-schedules", `{"name":"`+name+`","target":"nas","cron":"@daily","tag":"backup"}`, 201)
		s.expect(t, "POST", "/snapshot-schedules", `{"name":"`+name+`","cron":"@daily","tag":"backup","keep":{"hourly":2}}`, 201)
	}
}

// backUp writes a backup of an instance without content to a target, as a worker does.
func (s *server) backUp(t *testing.T, target string, i seedbed.Instance, id seedbed.BackupID) {
	t.Helper()
	to, err := s.db.BackupTarget(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	i.Volumes = nil
	config, err := json.Marshal(seedbed.BackupConfigOf(i, ""))
	if err != nil {
		t.Fatal(err)
	}
	m := seedbed.BackupManifest{Config: config, BackupHead: seedbed.BackupHead{
		BackupKey: seedbed.BackupKey{Instance: i.ID, Backup: id}, Time: time.Now(), Name: i.Name, Project: i.Project}}
	if err := drivertest.InTarget(t.Context(), to, func(p *backup.Place) error { return p.WriteManifest(t.Context(), m) }); err != nil {
		t.Fatal(err)
	}
}

// TestBackupsOfProjects checks that a project sees its own backups only, and that the secrets of targets are never shown.
func TestBackupsOfProjects(t *testing.T) {
	t.Parallel()
	s := composable(t)
	s.targets(t)
	s.runVM(t, "web1")
	web1, err := s.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	if err != nil {
		t.Fatal(err)
	}
	s.backUp(t, "nas", web1, "b1")
	foreign := web1
	foreign.ID, foreign.Project = seedbed.DatasourceEC2.NewInstanceID(), "acme"
	s.backUp(t, "nas", foreign, "b2") // of another installation, whose project has the name of one here
	s.expect(t, "GET", "/backups?target=nas", "", 200, `"b1"`, `"b2"`)
	s.expect(t, "GET", "/backups/nas/b2", "", 200, string(foreign.ID))
	s.expect(t, "POST", "/backups/nas/b1/verify?dry_run=true", "", 200, `"verify-backup"`)
	s.expect(t, "DELETE", "/backups/nas/b1?dry_run=true", "", 200, `"sweep-backups"`)
	s.expect(t, "POST", "/backups/nas/b1/verify", "", 202)
	s.expect(t, "DELETE", "/backups/spare/b1", "", 404, "not in target")

	s.expect(t, "POST", "/projects", `{"name":"acme"}`, 201)
	shop := s.by(t, s.newTokenIn(t, "acme", "shop", seedbed.RoleAdmin))
	shop("GET", "/backups?target=nas", "", 200, "[]")
	shop("GET", "/backups/nas/b2", "", 404)
	shop("GET", "/backup-targets", "", 403)

	to, err := s.db.BackupTarget(t.Context(), "nas")
	if err == nil {
		err = os.Remove(filepath.Join(to.Path, "seedbed-target.json"))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/backups?target=nas", "/backups/nas/b3"} {
		if answer := shop("GET", path, "", 503); strings.Contains(answer.body, to.Path) {
			t.Errorf("%s shows where the target is: %s", path, answer.body)
		}
	}
}

// TestChangedTarget checks that a target is not given an identity that does not open it, and that a check never makes the place again.
func TestChangedTarget(t *testing.T) {
	t.Parallel()
	s := composable(t)
	mine, other := identity(t), identity(t)
	dir := t.TempDir()
	s.expect(t, "POST", "/backup-targets", `{"name":"nas","path":"`+dir+`","recipient":"`+mine.Recipient().String()+`"}`, 201)
	s.expect(t, "PATCH", "/backup-targets/nas", `{"identity":"`+other.String()+`"}`, 422, "secret key of backups is that of")
	s.expect(t, "GET", "/backup-targets/nas", "", 200, `"has_identity":false`)
	s.expect(t, "PATCH", "/backup-targets/nas", `{"identity":"`+mine.String()+`"}`, 200, `"has_identity":true`)
	s.expect(t, "POST", "/backup-targets/nas/check", "", 200)
	if err := os.Remove(filepath.Join(dir, "seedbed-target.json")); err != nil { // as where nothing is mounted
		t.Fatal(err)
	}
	s.expect(t, "POST", "/backup-targets/nas/check", "", 404, "mount it")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the check left %v, %v", left, err)
	}
}

func identity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}
