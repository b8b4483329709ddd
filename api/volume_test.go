package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/worker/drivertest"
)

// shelf answers for a worker about volumes. It has one pool in memory, and items in the trash of
// other nodes.
type shelf struct {
	*drivertest.Pool
	others *[]seedbed.TrashItem
}

func (s shelf) Snapshots(ctx context.Context, node, _, volume string, id seedbed.InstanceID) ([]seedbed.SnapshotInfo, error) {
	if node != testNode {
		return nil, seedbed.Errorf(seedbed.ErrUnavailable, "asked of node %q", node)
	}
	return s.Pool.Snapshots(ctx, volume, id)
}

func (s shelf) RestoreVolume(ctx context.Context, node, _, id string) (seedbed.VolumeInfo, error) {
	if err := s.has(node); err != nil {
		return seedbed.VolumeInfo{}, err
	}
	return s.Pool.RestoreVolume(ctx, id)
}

func (s shelf) Trash(ctx context.Context, node string) ([]seedbed.TrashItem, error) {
	if err := s.has(node); err != nil {
		return nil, err
	}
	all, err := s.Pool.Trash(ctx)
	if err != nil {
		return nil, err
	}
	volumes, err := s.Pool.Volumes(ctx)
	for _, v := range volumes { // as a worker does
		if v.Restored {
			all = append(all, seedbed.TrashItem{Pool: v.Pool, Name: v.Name, State: seedbed.Restored, Instance: v.Instance, Size: v.Size})
		}
	}
	if len(*s.others) == 0 {
		return all, err
	}
	for i := range all { // the fleet sets the node of a pool that is not shared
		all[i].Node = testNode
	}
	if node == "" {
		all = append(all, *s.others...)
	}
	return all, err
}

// has returns an error for a node that does not exist.
func (s shelf) has(node string) error {
	if node != "" && node != testNode {
		return seedbed.Errorf(seedbed.ErrNotFound, "node %q does not exist", node)
	}
	return nil
}

func (s shelf) PurgeVolume(ctx context.Context, item seedbed.TrashItem, early bool) error {
	return s.Pool.PurgeVolume(ctx, item.ID, early)
}

func (s shelf) DiscardVolume(ctx context.Context, node, _, name string) (*seedbed.TrashItem, error) {
	if err := s.has(node); err != nil {
		return nil, err
	}
	all, err := s.Pool.Volumes(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		if v.Name == name && v.Restored {
			return s.TrashVolume(ctx, name, v.Instance)
		}
	}
	return nil, seedbed.Errorf(seedbed.ErrNotFound, "volume %q is not there", name)
}

// stored makes the running instance web1, whose volume is in the pool.
func (s *server) stored(t *testing.T) seedbed.Instance {
	t.Helper()
	s.importImage(t, "debian")
	for _, body := range []string{`{"name":"small","image":"debian","vcpus":1,"memory":"512MiB"}`} {
		if r := s.do(t, "POST", "/api/v1/profiles", body); r.status != 201 {
			t.Fatalf("%+v", r)
		}
	}
	if r := s.do(t, "POST", "/api/v1/instances", `{"name":"web1","profile":"small"}`); r.status != 202 {
		t.Fatalf("%+v", r)
	}
	job := s.claim(t)
	i, err := s.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	if err != nil {
		t.Fatal(err)
	}
	v := i.Volumes[0]
	_, err = s.shelf.CloneVolume(t.Context(), job.ID, seedbed.VolumeSpec{Name: v.Name, Instance: i.ID, Size: v.Size})
	if err := errors.Join(err,
		s.db.Finish(t.Context(), job.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning})); err != nil {
		t.Fatal(err)
	}
	return i
}

// off records that web1 is off.
func (s *server) off(t *testing.T) {
	t.Helper()
	i, err := s.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	if err == nil {
		_, err = s.db.SetInstanceState(t.Context(), i, seedbed.InstanceStopped)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// end ends the next job.
func (s *server) end(t *testing.T, out seedbed.JobResult) {
	t.Helper()
	if err := s.db.Finish(t.Context(), s.claim(t).Ref(), out); err != nil {
		t.Fatal(err)
	}
}

// expect is by with the token of the operators.
func (s *server) expect(t *testing.T, method, path, body string, status int, parts ...string) response {
	t.Helper()
	return s.by(t, token)(method, path, body, status, parts...)
}

var succeeded = seedbed.JobResult{State: seedbed.JobSucceeded}

func TestSnapshotRoutes(t *testing.T) {
	t.Parallel()
	s := start(t)
	i := s.stored(t)
	if r := s.expect(t, "GET", "/instances/web1/snapshots", "", 200); r.body != "[]" {
		t.Errorf("no snapshots: %s", r.body)
	}
	s.expect(t, "GET", "/instances/none/snapshots", "", 404)
	s.expect(t, "POST", "/instances/web1/snapshots", `{"name":"../x"}`, 422, "snapshot name")
	s.expect(t, "POST", "/instances/none/snapshots", `{"name":"s1"}`, 404)
	s.off(t)
	r := s.expect(t, "POST", "/instances/web1/snapshots", `{"name":"s1"}`, 202, `"state":"queued"`)
	if !strings.HasPrefix(r.header.Get("Location"), "/api/v1/jobs/") {
		t.Errorf("Location %q", r.header.Get("Location"))
	}
	s.expect(t, "POST", "/instances/web1/flatten", "", 409, `"kind":"in_use"`)
	s.end(t, succeeded)
	s.expect(t, "GET", "/jobs?limit=1", "", 200, `"kind":"snapshot"`, `"spec":{"name":"s1"}`)
	_, err := s.shelf.CreateSnapshot(t.Context(), "j1", seedbed.SnapshotSpec{Volume: i.Volumes[0].Name, Instance: i.ID, Name: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	s.expect(t, "GET", "/instances/web1/snapshots", "", 200, `"name":"s1"`, `"complete":true`, `"size":"1GiB"`, i.Volumes[0].Name)
	restore := "/instances/web1/snapshots/s1/restore"
	s.expect(t, "POST", "/instances/web1/snapshots/other/restore", "", 404, `has no snapshot \"other\"`)
	s.expect(t, "POST", "/instances/none/snapshots/s1/restore", "", 404)
	s.expect(t, "POST", "/instances/web1/snapshots/-d/restore", "", 422, "snapshot")
	s.expect(t, "POST", restore, `{"force":true,"soft":true}`, 422, "cannot be combined")
	s.expect(t, "POST", restore, `{"name":"s1"}`, 400, "unknown")
	s.expect(t, "POST", restore, `{"dry_run":true}`, 200, `"stages":["restore","delete-snapshot"]`, `"problems":[]`, "all snapshots stay")
	s.expect(t, "PATCH", "/instances/web1", `{"protected":true}`, 200)
	s.expect(t, "POST", restore, "", 409, "is protected", "to restore it")
	s.expect(t, "POST", restore, `{"confirm":"web"}`, 409, "is not its name")
	s.expect(t, "POST", restore, `{"confirm":"web1","grace":"5s"}`, 202)
	s.expect(t, "DELETE", "/instances/web1/snapshots/s1", "", 409, "in the hands of snapshot_restore job")
	s.end(t, succeeded)
	s.expect(t, "GET", "/jobs?limit=1&kind=snapshot_restore", "", 200, `"grace":5000000000,"name":"s1","was":"stopped"`, `"name":"s1"`)
	s.expect(t, "DELETE", "/instances/web1/snapshots/other", "", 404, "has no snapshot other")
	s.expect(t, "DELETE", "/instances/web1/snapshots/s1", "", 202)
	s.end(t, succeeded)
	s.expect(t, "POST", "/instances/web1/flatten", "", 202)
	s.expect(t, "POST", "/instances/none/flatten", "", 404)
}

func TestImageRemoveRoute(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.stored(t)
	s.expect(t, "DELETE", "/images/debian", "", 409, `"kind":"in_use"`, "profile small and instance web1")
	s.expect(t, "DELETE", "/images/none", "", 404)
	s.expect(t, "DELETE", "/instances/web1", "", 202)
	s.end(t, seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true})
	s.expect(t, "DELETE", "/profiles/small", "", 204)
	s.expect(t, "DELETE", "/images/debian", "", 202)
	s.expect(t, "GET", "/images/debian", "", 200, `"state":"removing"`)
	s.end(t, seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true})
	s.expect(t, "GET", "/images/debian", "", 404)
}

func TestTrashRoutes(t *testing.T) {
	t.Parallel()
	s := start(t)
	i := s.stored(t)
	name := i.Volumes[0].Name
	if r := s.expect(t, "GET", "/trash", "", 200); r.body != "[]" {
		t.Errorf("empty trash: %s", r.body)
	}
	s.expect(t, "POST", "/trash", `{"pool":"default","name":"`+name+`"}`, 409, `"kind":"in_use"`, "web1")
	s.shelf.SetTrash(time.Hour)
	item, err := s.shelf.TrashVolume(t.Context(), name, i.ID)
	if err != nil {
		t.Fatal(err)
	}
	s.expect(t, "DELETE", "/instances/web1", "", 202)
	s.end(t, seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true})

	s.expect(t, "GET", "/trash", "", 200, `"id":"`+item.ID+`"`, `"instance_name":"web1"`, `"state":"trashed"`, `"expires":"`)
	s.expect(t, "POST", "/trash/default/none/restore", "", 404)
	s.expect(t, "POST", "/trash/default/"+item.ID+"/restore?node=hv9", "", 404, `node \"hv9\" does not exist`)
	s.expect(t, "POST", "/trash/default/"+item.ID+"/restore?node=..", "", 422)
	s.expect(t, "POST", "/trash/default/..%2Fx/restore", "", 422)
	s.expect(t, "DELETE", "/trash/default/none", "", 404)
	s.expect(t, "DELETE", "/trash/other/"+item.ID, "", 404)
	r := s.expect(t, "POST", "/trash/default/"+item.ID+"/restore?node=host1", "", 200, `"restored":true`)
	var v seedbed.VolumeInfo
	if err := json.Unmarshal([]byte(r.body), &v); err != nil || v.Name != name || v.Disk.Source == "" {
		t.Errorf("restored %+v, %v", v, err)
	}
	s.expect(t, "POST", "/trash/default/"+item.ID+"/restore", "", 404)
	s.expect(t, "POST", "/trash", `{"pool":"default","name":"none"}`, 404)
	s.expect(t, "POST", "/trash", `{"pool":"default","name":"../x"}`, 422)
	s.expect(t, "POST", "/trash?node=hv9", `{"pool":"default","name":"`+name+`"}`, 404, `node \"hv9\" does not exist`)
	s.expect(t, "POST", "/trash?node=..", `{"pool":"default","name":"`+name+`"}`, 422)
	s.expect(t, "POST", "/trash?node=host1", `{"pool":"default","name":"`+name+`"}`, 200, `"id":"t2"`)
	s.expect(t, "GET", "/trash?node=host1", "", 200, `"id":"t2"`)
	s.expect(t, "GET", "/trash?node=hv9", "", 404)
	s.expect(t, "GET", "/trash?node=..", "", 422)
	s.expect(t, "DELETE", "/trash/default/t2?node=hv9", "", 404)
	s.expect(t, "DELETE", "/trash/default/t2?node=host1", "", 204)
	if r := s.expect(t, "GET", "/trash", "", 200); r.body != "[]" {
		t.Errorf("purged trash: %s", r.body)
	}
	for _, audit := range []string{"volume restored from the trash", "restored volume discarded", "volume purged from the trash"} {
		if !strings.Contains(s.log.String(), audit) {
			t.Errorf("the log does not say %q", audit)
		}
	}
}

// TestTrashOfSeveralNodes checks that an item that several nodes have is purged only on the named
// node.
func TestTrashOfSeveralNodes(t *testing.T) {
	t.Parallel()
	s := start(t)
	i := s.stored(t)
	s.shelf.SetTrash(time.Hour)
	item, err := s.shelf.TrashVolume(t.Context(), i.Volumes[0].Name, i.ID)
	if err != nil {
		t.Fatal(err)
	}
	other := *item
	other.Node = "hv2"
	*s.shelf.others = []seedbed.TrashItem{other}
	s.expect(t, "GET", "/trash", "", 200, `"node":"host1"`, `"node":"hv2"`)
	s.expect(t, "DELETE", "/trash/default/"+item.ID, "",
		409, `\"`+item.ID+`\" in the trash of pool default is on host1 and hv2: choose one`)
	s.expect(t, "DELETE", "/trash/default/"+item.ID+"?node=host1", "", 204)
	if left, err := s.shelf.Pool.Trash(t.Context()); len(left) != 0 || err != nil {
		t.Errorf("left: %+v, %v", left, err)
	}
}
