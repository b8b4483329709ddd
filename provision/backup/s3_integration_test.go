//go:build integration

package backup

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"seedbed"
	"seedbed/internal/lab"
)

// A bucket of radosgw is a place like a directory.
func TestS3(t *testing.T) {
	g := lab.Ceph(t).Gateway(t)
	id := newIdentity(t)
	c := seedbed.BackupPlace{
		Kind: seedbed.BackupS3, URL: g.URL, Bucket: "backups", Prefix: "site/a", KeyID: g.KeyID, Secret: seedbed.Secret(g.Secret),
		Recipient: id.Recipient().String(), Identity: seedbed.Secret(id.String()),
	}
	if _, err := Check(t.Context(), c); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("without the bucket: %v", err)
	}
	s, err := openS3(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.client.MakeBucket(t.Context(), c.Bucket, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	wrong := c
	wrong.Secret = "wrong"
	if _, err := Check(t.Context(), wrong); !errors.Is(err, seedbed.ErrForbidden) {
		t.Errorf("with the wrong secret: %v", err)
	}
	away := c
	away.URL = "http://127.0.0.1:1"
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if _, err := Check(ctx, away); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("without a server: %v", err)
	}
	for i, made := range []bool{true, false} {
		info, err := Check(t.Context(), c)
		if err != nil || info.Made != made || info.NameKey == "" {
			t.Fatalf("check %d: %+v, %v", i, info, err)
		}
		c.NameKey = info.NameKey
	}
	p := open(t, c)

	d := testDisk()
	k, cut := newKeyOf(seedbed.NewInstanceID()), newKeyOf(seedbed.NewInstanceID())
	if made := backUp(t, p, k, d, nil); made.New != 4 {
		t.Errorf("written %+v", made)
	}
	other := &disk{data: make([]byte, 40*mib)}
	other.fill(0, len(other.data), 9)
	for tenth := range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := p.Write(ctx, first(cut), other, nil, func(x seedbed.Progress) {
			if x.Percent() >= tenth*10 {
				cancel()
			}
		})
		list, e := p.List(t.Context(), Selection{})
		if !errors.Is(err, context.Canceled) || e != nil || len(list.Backups) != 1 || list.Damaged != nil {
			t.Errorf("cut off at %d %%: %v, list %+v, %v", tenth*10, err, list, e)
		}
	}
	backUp(t, p, cut, other, nil)
	wantRestored(t, p, cut, other.data)
	next := d.clone()
	next.fill(9*mib, 10*mib, 10)
	next.changed = []Extent{{9 * mib, 1 * mib}}
	second, base := newKeyOf(k.Instance), first(k)
	if made := backUp(t, p, second, next, &base); made.New != 1 || made.Read != 4*seedbed.MiB {
		t.Errorf("incremental %+v", made)
	}
	wantRestored(t, p, k, d.data)
	wantRestored(t, p, second, next.data)

	x, err := p.index(t.Context(), first(second), seedbed.Digest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.put(t.Context(), chunkName(x.chunks[2]), []byte("bent")); err != nil {
		t.Fatal(err)
	}
	check, err := p.Verify(t.Context(), Selection{Instance: k.Instance}, nil)
	if err != nil || len(check.Problems) != 1 || check.Problems[0].BackupKey != second {
		t.Errorf("verified %+v, %v", check, err)
	}
	if refusal, err := p.Remove(t.Context(), second); err != nil || refusal != "" {
		t.Error(refusal, err)
	}
	if refusal, err := p.Remove(t.Context(), cut); err != nil || refusal != "" {
		t.Error(refusal, err)
	}
	if swept, err := p.Sweep(t.Context(), time.Hour, nil); err != nil || swept.Removed != 0 || swept.Young != 11 || swept.Kept != 4 {
		t.Errorf("swept what is young: %+v, %v", swept, err)
	}
	if swept, err := p.Sweep(t.Context(), -time.Hour, nil); err != nil || swept.Removed != 11 || swept.Kept != 4 {
		t.Errorf("swept: %+v, %v", swept, err)
	}
	wantRestored(t, p, k, d.data)

	name := chunkName(x.chunks[0])
	before, _, err := s.look(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	s.renewAfter = 0
	lab.Await(t, time.Minute, "an object is renewed", func() bool { // times have seconds
		there, err := s.renew(t.Context(), name)
		after, _, e := s.look(t.Context(), name)
		return errors.Join(err, e) == nil && there && after.LastModified.After(before.LastModified)
	})
	if removed, err := s.remove(t.Context(), name, before.LastModified); removed || err != nil {
		t.Errorf("a renewed object is removed: %v, %v", removed, err)
	}
	wantRestored(t, p, k, d.data)
	testLockedBucket(t, c, s)
}

// testLockedBucket checks that backups work in a bucket whose objects are locked for a day: what is removed stays as a former version.
func testLockedBucket(t *testing.T, c seedbed.BackupPlace, s *s3Store) {
	c.Bucket, c.NameKey = "locked", ""
	if err := s.client.MakeBucket(t.Context(), c.Bucket, minio.MakeBucketOptions{ObjectLocking: true}); err != nil {
		t.Fatal(err)
	}
	mode, days, unit := minio.Compliance, uint(1), minio.Days
	if err := s.client.SetBucketObjectLockConfig(t.Context(), c.Bucket, &mode, &days, &unit); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	p := open(t, c)
	d := testDisk()
	k := newKeyOf(seedbed.NewInstanceID())
	backUp(t, p, k, d, nil)
	wantRestored(t, p, k, d.data)
	if _, err := p.Remove(t.Context(), k); err != nil {
		t.Error(err)
	}
	if swept, err := p.Sweep(t.Context(), -time.Hour, nil); err != nil || swept.Removed+swept.Refused != 4 {
		t.Errorf("swept %+v, %v", swept, err)
	}
	versions := 0
	for o := range s.client.ListObjects(t.Context(), c.Bucket, minio.ListObjectsOptions{Recursive: true, WithVersions: true}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		if !o.IsDeleteMarker && o.Size > 1<<20 {
			versions++
		}
	}
	if versions == 0 {
		t.Error("the locked chunks are gone")
	}
	backUp(t, p, k, d, nil)
	wantRestored(t, p, k, d.data)
}
