package provision

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/ovatest"
	"seedbed/provision/worker/drivertest"
)

const anUpload = "UPLOADUPLOADUPLOAD"

// uploaded puts a file into the pool, as the API does.
func (l *lab) uploaded(data []byte) seedbed.Upload {
	l.t.Helper()
	up, err := l.pool.ReceiveUpload(l.t.Context(), seedbed.UploadSpec{Pool: "default", ID: anUpload}, bytes.NewReader(data))
	l.ok(err)
	return up
}

// withOVAScript adds what an OVA's profile needs.
func (l *lab) withOVAScript() *lab {
	l.t.Helper()
	_, err := l.db.CreateScript(l.t.Context(), "default_ova", "")
	l.ok(err)
	return l
}

func (l *lab) importOVA(name string) seedbed.JobID {
	l.t.Helper()
	data := ovatest.OVA{VCPUs: 2, MemoryMB: 768, Firmware: "efi", Disks: []ovatest.Disk{
		{Name: "a.vmdk", Content: make([]byte, 4096)}, {Name: "b.vmdk", Content: make([]byte, 8192)}}}.Bytes()
	return l.job(l.intake.ImportOVA(l.t.Context(), name, "default_ova", l.uploaded(data), usual))
}

// ovaIs checks that everything of an OVA image exists, or nothing of it.
func (l *lab) ovaIs(name string, want bool) {
	l.t.Helper()
	ctx := l.t.Context()
	images, err := l.pool.Images(ctx)
	l.ok(err)
	var inPool []string
	for _, i := range images {
		if strings.HasPrefix(i.Name, "ova_"+name+"_") {
			inPool = append(inPool, i.Name)
		}
	}
	slices.Sort(inPool)
	all, err := l.db.Images(ctx)
	l.ok(err)
	var known []string
	for _, i := range all {
		if strings.HasPrefix(i.Name, "ova_"+name+"_") && i.State == seedbed.ImageActive {
			known = append(known, i.Name)
		}
	}
	var wanted []string
	if want {
		wanted = []string{"ova_" + name + "_sda", "ova_" + name + "_sdb"}
	}
	if d := cmp.Diff(wanted, inPool); d != "" {
		l.t.Errorf("in the pool (-want +got):\n%s", d)
	}
	if d := cmp.Diff(wanted, known); d != "" {
		l.t.Errorf("in the database (-want +got):\n%s", d)
	}
	m := seedbed.ExactName(name)
	ovas, err := l.db.OVAs(ctx, m)
	l.ok(err)
	systems, err := l.db.SystemTemplates(ctx, m)
	l.ok(err)
	profiles, err := l.db.ScriptedProfiles(ctx, m)
	l.ok(err)
	if n := len(ovas) + len(systems) + len(profiles); want && n != 3 || !want && n != 0 {
		l.t.Errorf("there are %d OVA images, %d system templates and %d profiles of that name", len(ovas), len(systems), len(profiles))
	}
	if n := l.pool.Uploads(); n != 0 {
		l.t.Errorf("%d uploads are left", n)
	}
}

func TestOVAComesAndGoes(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProvisioner().withOVAScript()
	ctx := t.Context()
	id := l.importOVA("vm")
	if _, err := l.asPVC(ctx, seedbed.Request{Name: "early", Profile: "vm", Off: true}); !errors.Is(err, seedbed.ErrInvalid) ||
		!strings.Contains(err.Error(), "importing") {
		t.Errorf("a machine before its disks: %v", err)
	}
	l.runUntil(id, seedbed.JobSucceeded)
	l.ovaIs("vm", true)
	l.invariants(id)
	image, err := l.db.Image(ctx, "ova_vm_sda")
	l.ok(err)
	if image.Firmware != seedbed.FirmwareUEFI || image.Size != 4096 {
		t.Errorf("image %+v", image)
	}

	// Its profile makes clones of its disks, and then the disks that its storage template adds.
	_, err = l.db.ChangeProfile(ctx, "vm", func(p *seedbed.Profile) error { p.Storage, p.NetworkTemplate = "root", "lan"; return nil })
	l.ok(err)
	l.runUntil(l.job(l.asPVC(ctx, seedbed.Request{Name: "vm1", Profile: "vm"})), seedbed.JobSucceeded)
	inst, err := l.db.InstanceByName(ctx, seedbed.InDefault("vm1"))
	l.ok(err)
	var disks []string
	for _, v := range inst.Volumes {
		disks = append(disks, fmt.Sprintf("%d %s %s", v.Index, v.Image, v.Size))
	}
	if d := cmp.Diff([]string{"0 ova_vm_sda 4KiB", "1 ova_vm_sdb 8KiB", "2 debian 4MiB", "3  1GiB"}, disks); d != "" ||
		inst.VCPUs != 2 || inst.Memory != 768*seedbed.MiB || inst.Image != "ova_vm_sda" {
		t.Errorf("disks (-want +got):\n%s\nof %+v", d, inst)
	}
	if _, err := l.intake.RemoveOVA(ctx, "vm", usual); !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), "instance vm1") {
		t.Errorf("removal in use: %v", err)
	}
	l.runUntil(l.remove("vm1"), seedbed.JobSucceeded)
	l.runUntil(l.job(l.intake.RemoveOVA(ctx, "vm", usual)), seedbed.JobSucceeded)
	l.ovaIs("vm", false)
	if _, err := l.intake.RemoveOVA(ctx, "vm", usual); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("removal of what is gone: %v", err)
	}
	l.runUntil(l.importOVA("vm"), seedbed.JobSucceeded)
	l.ovaIs("vm", true)
}

// failSecond makes the second import fail.
func (l *lab) failSecond(err error) {
	var imports atomic.Int32
	l.pool.Fail(func(_ context.Context, name string, at drivertest.Point) error {
		if name == "ImportImage" && at == drivertest.Before && imports.Add(1) == 2 {
			return err
		}
		return nil
	})
}

func TestOVAIsUndone(t *testing.T) {
	t.Parallel()
	l := newLab(t).withOVAScript()
	l.failSecond(seedbed.Errorf(seedbed.ErrInvalid, "the uploaded file has a disk that is damaged"))
	job := l.runUntil(l.importOVA("vm"), seedbed.JobRolledBack)
	if !strings.Contains(job.Error, "import disk sdb") || !strings.Contains(job.Error, "damaged") {
		t.Errorf("error %q", job.Error)
	}
	l.ovaIs("vm", false)
}

// TestKillWhileUndoingOVA covers what the matrix omits: a disk whose name a foreign image has.
func TestKillWhileUndoingOVA(t *testing.T) {
	t.Parallel()
	for _, at := range []deathPoint{{"RemoveImage", ""}, {"undone", "import"}} {
		for _, point := range points {
			t.Run(fmt.Sprintf("%s %s", point, at.what), func(t *testing.T) {
				t.Parallel()
				l := newLab(t).withOVAScript()
				l.excuse("I5", "an image of a job that never was is in the pool until the last look")
				stranger := seedbed.NewJobID()
				l.pool.AddImage(stranger, "ova_vm_sdb", 512) // the second disk finds its name taken
				l.die(l.importOVA("vm"), at, point, seedbed.JobRolledBack)
				l.ok(l.pool.RemoveImage(t.Context(), stranger, "ova_vm_sdb")) // it still exists, unchanged
				l.ovaIs("vm", false)
			})
		}
	}
}

func TestImportOfAnUpload(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	disk, err := os.ReadFile(l.imageFile())
	l.ok(err)
	up := l.uploaded(disk)
	spec := seedbed.ImportSpec{Upload: up.ID, SHA256: up.SHA256, Firmware: "efi"}
	id := l.job(l.intake.Import(t.Context(), "base", "default", spec, usual))
	l.runUntil(id, seedbed.JobSucceeded)
	image, err := l.db.Image(t.Context(), "base")
	l.ok(err)
	if image.State != seedbed.ImageActive || image.Firmware != seedbed.FirmwareUEFI || image.Source != "upload" || image.SHA256 != up.SHA256 {
		t.Errorf("image %+v", image)
	}
	if n := l.pool.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
	up = l.uploaded(disk)
	l.pool.SetFull(true)
	l.runUntil(l.job(l.intake.Import(t.Context(), "other", "default", seedbed.ImportSpec{Upload: up.ID, SHA256: up.SHA256}, usual)),
		seedbed.JobRolledBack)
	if n := l.pool.Uploads(); n != 0 {
		t.Errorf("%d uploads are left of one that was undone", n)
	}
	for _, bad := range []seedbed.ImportSpec{{Path: "/x", Format: "floppy"}, {Path: "/x", Firmware: "openboot"}, {}} {
		if _, err := l.intake.Import(t.Context(), "bad", "default", bad, usual); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestCancelledUpload checks that a job that is cancelled before it has begun removes its file.
func TestCancelledUpload(t *testing.T) {
	t.Parallel()
	for _, kind := range []seedbed.JobKind{seedbed.JobImport, seedbed.JobOVA} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withOVAScript()
			var id seedbed.JobID
			if kind == seedbed.JobOVA {
				id = l.importOVA("vm")
			} else {
				disk, err := os.ReadFile(l.imageFile())
				l.ok(err)
				up := l.uploaded(disk)
				id = l.job(l.intake.Import(t.Context(), "base", "default", seedbed.ImportSpec{Upload: up.ID, SHA256: up.SHA256}, usual))
			}
			l.ok(l.db.CancelJob(t.Context(), id))
			l.runUntil(id, seedbed.JobRolledBack)
			l.ovaIs("vm", false)
			if _, err := l.db.Image(t.Context(), "base"); !errors.Is(err, seedbed.ErrNotFound) {
				t.Errorf("image: %v", err)
			}
		})
	}
}
