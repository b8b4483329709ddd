package api_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/worker/drivertest"
)

// TestVolumeUpload makes volumes of uploaded files. A refused one leaves nothing.
func TestVolumeUpload(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(t)
	path, sum := drivertest.BootableFile(t)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	disk := string(file)
	multi, kind := form(t, file)
	const octets = "application/octet-stream"
	plain := strings.Repeat("\x00\x01\x02\x03", 1024)
	overlay := "QFI\xfb\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x01\x00" + strings.Repeat("\x00", 496)
	ova := string(machine().Bytes())
	for _, c := range []struct {
		name, path, body, kind string
		status                 int
		want                   string
	}{
		{"larger than the disk", "sent?size=1GiB&sha256=" + sum, disk, octets, 202, `"state":"queued"`},
		{"form", "form?pool=default&format=raw&node=host1", multi, kind, 202, ""},
		{"raw without a signature", "plain?format=raw&size=1GiB", plain, octets, 202, ""},
		{"none given", "x?size=1GiB", plain, octets, 422, "give its format (raw)"},
		{"OVA", "x", ova, octets, 422, "tar archive"},
		{"clone", "x?format=raw", overlay, octets, 422, "backing file"},
		{"other format", "x?format=qcow2", disk, octets, 422, "is in raw format"},
		{"format", "x?format=vmdk", disk, octets, 422, "expected qcow2 or raw"},
		{"taken", "sent", disk, octets, 409, "exists already"},
		{"smaller", "x?size=64KiB", disk, octets, 422, "expected at least"},
		{"size", "x?size=big", disk, octets, 422, "not a size"},
		{"too large", "x?size=100000TiB", disk, octets, 422, "size"},
		{"digest", "x?sha256=" + strings.Repeat("0", 64), disk, octets, 422, "digest"},
		{"pool", "x?pool=-", disk, octets, 422, "pool"},
		{"node", "x?node=hv9", disk, octets, 404, "hv9"},
		{"empty", "x", "", octets, 400, "no body"},
		{"cut form", "x", multi[:len(multi)-10], kind, 400, "not well formed"},
	} {
		name, query, _ := strings.Cut(c.path, "?")
		r := s.do(t, "POST", "/api/v1/volumes/"+name+"/content?"+query, c.body, "Content-Type", c.kind)
		if r.status != c.status || !strings.Contains(r.body, c.want) {
			t.Errorf("%s: %d %s\nwant %d with %q", c.name, r.status, r.body, c.status, c.want)
		}
	}
	for name, size := range map[string]seedbed.Bytes{"sent": seedbed.GiB, "form": seedbed.Bytes(len(file)), "plain": seedbed.GiB} {
		s.hasVolume(t, name, size)
	}
	if n := s.shelf.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
	if r := s.do(t, "GET", "/api/v1/volumes/x", ""); r.status != 404 {
		t.Errorf("refused, and there: %d %s", r.status, r.body)
	}
	s.shelf.SetFull(true)
	if r := s.do(t, "POST", "/api/v1/volumes/x/content", disk, "Content-Type", octets); r.status != 507 {
		t.Errorf("full: %d %s", r.status, r.body)
	}
}

// TestVolumeUploadOfProject checks the quota of a project, what its callers may choose, and who sees the volume.
func TestVolumeUploadOfProject(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(t)
	s.expect(t, "POST", "/projects", `{"name":"acme"}`, 201)
	s.expect(t, "POST", "/projects", `{"name":"shop"}`, 201)
	s.expect(t, "PUT", "/projects/acme/quota", `{"max_disk":"1GiB"}`, 200)
	acme, shop := s.by(t, s.newTokenIn(t, "acme", "ci", seedbed.RoleOperator)), s.by(t, s.newTokenIn(t, "shop", "ci", seedbed.RoleOperator))
	path, _ := drivertest.BootableFile(t)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	disk := string(file)
	acme("POST", "/volumes/data/content?size=2GiB", disk, 403, "over its quota")
	acme("POST", "/volumes/data/content?node=host1", disk, 403, "cannot choose a node")
	if n := s.shelf.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
	s.succeeds(t, acme("POST", "/volumes/data/content?size=1GiB", disk, 202))
	acme("GET", "/volumes/data", "", 200, `"size":"1GiB"`, `"state":"free"`)
	shop("GET", "/volumes/data", "", 404)
	acme("POST", "/volumes/more/content", disk, 403, "over its quota")
	if n := s.shelf.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}

// hasVolume waits until a volume is free, and compares its size.
func (s *server) hasVolume(t *testing.T, name string, size seedbed.Bytes) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; {
		hint := s.db.Hint()
		v, err := s.db.ProjectVolume(t.Context(), seedbed.DefaultProject, name)
		if err == nil && v.State == seedbed.VolumeFree {
			if v.Size != size {
				t.Errorf("volume %s has %s: want %s", name, v.Size, size)
			}
			return
		}
		select {
		case <-hint:
		case <-time.After(time.Until(end)):
			t.Fatalf("volume %s: %+v, %v", name, v, err)
		}
	}
}

// becomes waits until an image exists.
func (s *server) becomes(t *testing.T, name string, firmware seedbed.Firmware) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; {
		hint := s.db.Hint()
		i, err := s.db.Image(t.Context(), name)
		if err == nil && i.State == seedbed.ImageActive {
			if i.Source != "upload" || firmware != "" && i.Firmware != firmware && name != "digest" {
				t.Errorf("%+v", i)
			}
			return
		}
		select {
		case <-hint:
		case <-time.After(time.Until(end)):
			t.Fatalf("image %s: %+v, %v", name, i, err)
		}
	}
}
