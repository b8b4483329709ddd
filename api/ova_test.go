package api_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/ovatest"
	"seedbed/provision/worker/drivertest"
)

// maxUpload is the largest file that a test's server accepts.
const maxUpload = 16 * seedbed.MiB

// DropUpload implements server.Uploads.
func (s shelf) DropUpload(ctx context.Context, up seedbed.Upload) error {
	if up.Node != testNode {
		return seedbed.Errorf(seedbed.ErrUnavailable, "asked of node %q", up.Node)
	}
	return s.Pool.DropUpload(ctx, up.ID)
}

// ReceiveUpload implements server.Uploads.
func (s shelf) ReceiveUpload(ctx context.Context, spec seedbed.UploadSpec, body io.Reader) (seedbed.Upload, error) {
	if spec.Node != "" && spec.Node != testNode {
		return seedbed.Upload{}, seedbed.Errorf(seedbed.ErrNotFound, "node %q does not exist", spec.Node)
	}
	up, err := s.Pool.ReceiveUpload(ctx, spec, body)
	up.Node = testNode
	return up, err
}

// work runs imports and removals as the engine would, until the test ends.
func (s *server) work(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			hint := s.db.Hint()
			job, err := s.db.ClaimJob(ctx, "test", time.Minute)
			if err != nil || job == nil {
				select {
				case <-hint:
				case <-ctx.Done():
				}
				continue
			}
			if err := s.perform(ctx, job); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func (s *server) perform(ctx context.Context, job *seedbed.Job) error {
	if err := s.db.Step(ctx, job.Ref(), seedbed.Step{Next: "import", Total: 1}); err != nil {
		return err
	}
	step, out := seedbed.Step{Done: "import", Total: 1}, seedbed.JobResult{State: seedbed.JobSucceeded}
	var specs []seedbed.ImageSpec
	var upload string
	switch job.Kind {
	case seedbed.JobImport:
		var spec seedbed.ImportSpec
		if err := json.Unmarshal(job.Spec, &spec); err != nil {
			return err
		}
		upload = spec.Upload
		specs = []seedbed.ImageSpec{{Name: job.Subject, Upload: spec.Upload, SHA256: spec.SHA256}}
	case seedbed.JobVolumeAdd:
		var spec seedbed.VolumeJob
		if err := json.Unmarshal(job.Spec, &spec); err != nil {
			return err
		}
		if spec.Upload != nil {
			upload = spec.Upload.ID
		}
	case seedbed.JobOVA:
		var spec seedbed.OVAJob
		if err := json.Unmarshal(job.Spec, &spec); err != nil {
			return err
		}
		upload = spec.Upload
		for _, v := range spec.Volumes {
			specs = append(specs, seedbed.ImageSpec{Name: v.Image, Upload: spec.Upload, SHA256: spec.SHA256, Member: v.File})
		}
	case seedbed.JobOVARemove:
		var spec seedbed.OVAJob
		if err := json.Unmarshal(job.Spec, &spec); err != nil {
			return err
		}
		for _, v := range spec.Volumes {
			if err := s.shelf.RemoveImage(ctx, spec.Import, v.Image); err != nil {
				return err
			}
		}
		out.Drop = true
	}
	for _, spec := range specs {
		info, err := s.shelf.ImportImage(ctx, job.ID, spec, nil)
		if err != nil {
			return s.giveUp(ctx, job, upload, err)
		}
		if step.Images = append(step.Images, info); job.Kind == seedbed.JobImport {
			step.Image, step.Images = &info, nil
		}
	}
	if err := s.shelf.Pool.DropUpload(ctx, upload); err != nil {
		return err
	}
	if err := s.db.Step(ctx, job.Ref(), step); err != nil {
		return err
	}
	return s.db.Finish(ctx, job.Ref(), out)
}

func (s *server) giveUp(ctx context.Context, job *seedbed.Job, upload string, why error) error {
	for _, err := range []error{
		s.shelf.Pool.DropUpload(ctx, upload), s.db.Undo(ctx, job.Ref(), why.Error()), s.db.Undone(ctx, job.Ref(), "import", ""),
		s.db.Finish(ctx, job.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Drop: true}),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// form returns a file in the form that PVC's client sends, and its Content-Type.
func form(t *testing.T, file []byte) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("file", "filename")
	if err == nil {
		_, err = part.Write(file)
	}
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.String(), w.FormDataContentType()
}

func machine() ovatest.OVA {
	return ovatest.OVA{VCPUs: 2, MemoryMB: 1024, Screen: true, Manifest: "SHA1", Firmware: "efi", Disks: []ovatest.Disk{
		{Name: "a.vmdk", Content: bytes.Repeat([]byte("a"), 2000)}, {Name: "b.vmdk", Content: bytes.Repeat([]byte("b"), 3000)}}}
}

// uploads sends an OVA, and checks the answer.
func (s *server) uploads(t *testing.T, path string, file []byte, status int, want string) {
	t.Helper()
	body, kind := form(t, file)
	r := s.do(t, "POST", "/api/v1/provisioner/ova"+path, body, "Content-Type", kind)
	if r.status != status || !strings.Contains(r.body, want) {
		t.Errorf("%s: %d %s\nwant %d with %s", path, r.status, r.body, status, want)
	}
}

func TestOVA(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(t)
	const p = "/provisioner"
	data := machine().Bytes()
	size := fmt.Sprint(len(data))

	s.uploads(t, "/vm?pool=default&ova_size="+size, data, 400, "Did not find an 'ova' or 'default_ova' provisioning script.")
	s.pvc(t, call{"POST", p + "/script/default_ova", "data=x", 200, msg(`Created provisioning script "default_ova".`)})
	s.uploads(t, "/vm?ova_size="+size, data, 400, lacks("pool", "A storage pool must be specified."))
	s.uploads(t, "/vm?pool=default", data, 400, lacks("ova_size", "An OVA size must be specified."))
	s.uploads(t, "?pool=default&ova_size="+size, data, 400, lacks("name", "A name must be specified."))
	s.uploads(t, "/vm?pool=default&ova_size=many", data, 400, msg("An ova_size value must be a positive integer."))
	s.uploads(t, "/vm?pool=default&ova_size=-1", data, 400, msg("An ova_size value must be a positive integer."))
	s.uploads(t, "/-vm?pool=default&ova_size="+size, data, 400, "is not usable")
	s.uploads(t, "/"+strings.Repeat("v", 60)+"?pool=default&ova_size="+size, data, 400, "expected at most 55")
	s.uploads(t, "/vm?pool=default&ova_size=1"+size, data, 400, "The uploaded OVA file is not readable: the uploaded file has")
	s.uploads(t, "/vm?pool=default&ova_size=4", []byte("text"), 400, "The uploaded OVA file is not readable: ")
	s.uploads(t, "/vm?pool=default&ova_size=99999999999999", data, 413, "storage.max_upload")
	disk, _ := os.ReadFile(first(drivertest.BootableFile(t)))
	s.uploads(t, fmt.Sprintf("/vm?pool=default&ova_size=%d", len(disk)), disk, 400, "is not an OVA")
	s.shelf.SetFull(true)
	s.uploads(t, "/vm?pool=default&ova_size="+size, data, 400, "The cluster does not have enough free space to store the OVA volume")
	s.shelf.SetFull(false)
	s.pvc(t, call{"GET", p + "/ova", "", 404, msg("No OVAs found.")})
	if n := s.shelf.Uploads(); n != 0 {
		t.Errorf("%d uploads are left of those that were refused", n)
	}

	s.uploads(t, "/vm?pool=default&ova_size="+size, data, 200, msg("Imported OVA image 'vm'."))
	row := `[{"id":#,"name":"vm","volumes":[{"pool":"default","volume_name":"ova_vm_sda","volume_format":"vmdk","disk_id":"sda",` +
		`"disk_size_gb":1},{"pool":"default","volume_name":"ova_vm_sdb","volume_format":"vmdk","disk_id":"sdb","disk_size_gb":1}]}]`
	s.pvc(t, call{"GET", p + "/ova", "", 200, row})
	s.pvc(t, call{"GET", p + "/ova?limit=v", "", 200, row})
	s.pvc(t, call{"GET", p + "/ova/vm", "", 200, row})
	s.pvc(t, call{"GET", p + "/ova/v", "", 404, msg("No OVAs found.")})
	s.pvc(t, call{"GET", p + "/template/system/vm", "", 200, `[{"id":#,"name":"vm","vcpu_count":2,"vram_mb":1024,"serial":false,` +
		`"vnc":true,"vnc_bind":null,"node_limit":null,"node_selector":null,` +
		`"node_autostart":false,"migration_method":null,"ova":#,"migration_max_downtime":300}]`})
	if r := s.do(t, "GET", "/api/v1"+p+"/profile/vm", ""); !strings.Contains(r.body, `"type":"ova","system_template":"vm",`+
		`"network_template":"N/A","storage_template":"N/A","userdata":"N/A","script":"default_ova","ova":"vm"`) {
		t.Errorf("profile: %s", r.body)
	}
	if r := s.do(t, "GET", "/api/v1/images/ova_vm_sda", ""); !strings.Contains(r.body, `"state":"active"`) ||
		!strings.Contains(r.body, `"firmware":"uefi"`) {
		t.Errorf("image: %s", r.body)
	}
	if n := s.shelf.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
	s.uploads(t, "/vm?pool=default&ova_size="+size, data, 400, msg(`The OVA image "vm" already exists.`))
	if r := s.do(t, "DELETE", "/api/v1/images/ova_vm_sda", ""); r.status != 409 || !strings.Contains(r.body, "is a disk of OVA image") {
		t.Errorf("a disk alone: %d %s", r.status, r.body)
	}
	// Other profiles name the objects that came with the OVA.
	s.pvc(t, call{"POST", p + "/profile/second", "profile_type=ova&system_template=vm&script=empty&ova=none",
		400, msg(`The OVA image "none" for profile "second" does not exist.`)})
	s.pvc(t,
		call{"POST", p + "/profile/second", "profile_type=ova&system_template=vm&script=empty&ova=vm", 200, msg(`Created VM profile "second".`)})
	s.pvc(t, call{"POST", p + "/create?name=vm1&profile=vm&start_vm=False", "", 202,
		`{"task_id":"%","task_name":"provisioner.create","run_on":"host1 (primary)"}`})
	inst, err := s.db.InstanceByName(t.Context(), seedbed.InDefault("vm1"))
	if err != nil || len(inst.Volumes) != 2 || inst.Volumes[1].Image != "ova_vm_sdb" || inst.VCPUs != 2 {
		t.Errorf("instance %+v, %v", inst, err)
	}
	if r := s.do(t, "GET", "/api/v1/instances/vm1/console?tail=14", ""); r.status != 409 ||
		!strings.Contains(r.body, "instance vm1 has no serial console") {
		t.Errorf("a console that is none: %d %s", r.status, r.body)
	}
	if r := s.do(t, "GET", "/api/v1/vm/vm1", ""); !strings.Contains(r.body, `"console":"N/A"`) {
		t.Errorf("vm1: %s", r.body)
	}
	if r := s.do(t, "DELETE", "/api/v1"+p+"/ova/vm", ""); r.status != 400 || !strings.Contains(r.body, `Failed to delete entry`) ||
		!strings.Contains(r.body, "vm1") {
		t.Errorf("removal in use: %d %s", r.status, r.body)
	}
	s.pvc(t, call{"DELETE", p + "/ova/none", "", 400, msg(`The OVA image "none" does not exist.`)})
}

func first(path, _ string) string { return path }

func TestOVARemoval(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(t)
	const p = "/provisioner"
	data := machine().Bytes()
	s.pvc(t, call{"POST", p + "/script/ova", "data=x", 200, msg(`Created provisioning script "ova".`)})
	s.uploads(t, fmt.Sprintf("?name=vm&pool=default&ova_size=%d", len(data)), data, 200, msg("Imported OVA image 'vm'."))
	s.pvc(t,
		call{"POST", p + "/profile/second", "profile_type=ova&system_template=vm&script=empty&ova=vm", 200, msg(`Created VM profile "second".`)})
	s.pvc(t, call{"DELETE", p + "/ova/vm", "", 200, msg(`Removed OVA image "vm".`)})
	for _, path := range []string{"/ova/vm", "/template/system/vm", "/profile/vm", "/profile/second"} {
		if r := s.do(t, "GET", "/api/v1"+p+path, ""); r.status != 404 {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if r := s.do(t, "GET", "/api/v1/images", ""); r.body != "[]" {
		t.Errorf("images: %s", r.body)
	}
	s.pvc(t, call{"DELETE", p + "/ova/vm", "", 400, msg(`The OVA image "vm" does not exist.`)})
	s.uploads(t, fmt.Sprintf("/vm?pool=default&ova_size=%d", len(data)), data, 200, msg("Imported OVA image 'vm'."))
}

func TestImageUpload(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(t)
	path, sum := drivertest.BootableFile(t)
	disk, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := hex.DecodeString(sum)
	inBase64 := base64.StdEncoding.EncodeToString(raw)
	wrong := base64.StdEncoding.EncodeToString(make([]byte, 32))
	one := ovatest.OVA{Firmware: "efi", Disks: []ovatest.Disk{{Name: "a.vmdk", Content: disk}}}.Bytes()
	multi, kind := form(t, disk)
	const octets = "application/octet-stream"
	for _, c := range []struct {
		name, path string
		body       string
		header     []string
		status     int
		want       string
	}{
		{"plain", "/images/plain/content", string(disk), []string{"Content-Type", octets}, 202, `"state":"queued"`},
		{"form", "/images/form/content?pool=default&format=raw", multi, []string{"Content-Type", kind}, 202, ""},
		{"to a node", "/images/there/content?node=host1", string(disk), []string{"Content-Type", octets}, 202, ""},
		{"to a node that is none", "/images/nowhere/content?node=hv9", string(disk), []string{"Content-Type", octets}, 404, "hv9"},
		{"digest of the query", "/images/query/content?sha256=" + strings.ToUpper(sum), string(disk), []string{"Content-Type", octets}, 202, ""},
		{"Content-Digest", "/images/content/content", string(disk),
			[]string{"Content-Type", octets, "Content-Digest", "sha-512=:AAAA:, sha-256=:" + inBase64 + ":"}, 202, ""},
		{"Digest", "/images/digest/content?firmware=uefi", string(disk),
			[]string{"Content-Type", octets, "Digest", "SHA-256=" + inBase64}, 202, ""},
		{"OVA", "/images/one/content?format=ova", string(one), []string{"Content-Type", octets}, 202, ""},
		{"taken", "/images/plain/content", string(disk), []string{"Content-Type", octets}, 409, "exists"},
		{"wrong digest", "/images/x/content?sha256=" + strings.Repeat("0", 64), string(disk), []string{"Content-Type", octets}, 422, "digest"},
		{"wrong Content-Digest", "/images/x/content", string(disk),
			[]string{"Content-Type", octets, "Content-Digest", "sha-256=:" + wrong + ":"}, 422, "digest"},
		{"two digests", "/images/x/content?sha256=" + sum, string(disk),
			[]string{"Content-Type", octets, "Repr-Digest", "sha-256=:" + wrong + ":"}, 422, "two different"},
		{
			"bad Content-Digest", "/images/x/content", string(disk),
			[]string{"Content-Type", octets, "Content-Digest", "sha-256=:xyz:"}, 422, "base64",
		},
		{"bad digest", "/images/x/content?sha256=xyz", string(disk), []string{"Content-Type", octets}, 422, "64 hexadecimal"},
		{"name", "/images/-/content", string(disk), []string{"Content-Type", octets}, 422, "not usable"},
		{"format", "/images/x/content?format=floppy", string(disk), []string{"Content-Type", octets}, 422, "floppy"},
		{"firmware", "/images/x/content?firmware=openboot", string(disk), []string{"Content-Type", octets}, 422, "openboot"},
		{"encoded", "/images/x/content", string(disk), []string{"Content-Type", octets, "Content-Encoding", "gzip"}, 415, "Content-Encoding"},
		{"empty", "/images/x/content", "", []string{"Content-Type", octets}, 400, "no body"},
		{"no file in the form", "/images/x/content", "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n",
			[]string{"Content-Type", "multipart/form-data; boundary=b"}, 400, "one part with a file"},
		{"cut form", "/images/x/content", multi[:len(multi)-10], []string{"Content-Type", kind}, 400, "not well formed"},
		{"too large", "/images/x/content", string(make([]byte, maxUpload+maxUpload/2)), []string{"Content-Type", octets}, 413, "larger"},
	} {
		r := s.do(t, "POST", "/api/v1"+c.path, c.body, c.header...)
		if r.status != c.status || !strings.Contains(r.body, c.want) {
			t.Errorf("%s: %d %s\nwant %d with %q", c.name, r.status, r.body, c.status, c.want)
		}
	}
	for name, firmware := range map[string]seedbed.Firmware{
		"plain": "", "form": "", "query": "", "content": "", "digest": "uefi", "one": "uefi",
	} {
		s.becomes(t, name, firmware)
	}
	if n := s.shelf.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
	s.shelf.SetFull(true)
	if r := s.do(t, "POST", "/api/v1/images/full/content", string(disk), "Content-Type", octets); r.status != 507 {
		t.Errorf("full: %d %s", r.status, r.body)
	}
}

// TestImageUploadBreaksOff checks that an interrupted upload leaves nothing behind, with and
// without a known length.
func TestImageUploadBreaksOff(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(t)
	head := "POST /api/v1/images/x/content%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token +
		"\r\nContent-Type: application/octet-stream\r\n"
	sum := strings.Repeat("0", 64)
	path, _ := drivertest.BootableFile(t)
	disk, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range []string{
		fmt.Sprintf(head, "") + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(disk)+1) + string(disk),
		fmt.Sprintf(head, "?sha256="+sum) + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n", len(disk)) + string(disk) + "\r\n",
		fmt.Sprintf(head, "?sha256="+sum) + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n", len(disk)) + string(disk[:1000]),
	} {
		conn, _ := s.dial(t)
		if _, err := conn.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	conn, r := s.dial(t)
	res := exchange(t, s, conn, r, fmt.Sprintf(head, "")+"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
	if res.StatusCode != http.StatusLengthRequired {
		t.Errorf("a file of unknown length without a digest: %d", res.StatusCode)
	}
	if _, err := s.db.Image(t.Context(), "x"); seedbed.KindName(err) != "not_found" {
		t.Errorf("image x: %v", err)
	}
	if n := s.shelf.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}
