package provision

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/feedtest"
	"seedbed/provision/worker/drivertest"
)

// domainText is a domain as scripts make them: one disk, one NIC on each network.
const domainText = `<domain type='kvm'><name>NAME</name><uuid>UUID</uuid><memory unit='MiB'>512</memory><vcpu>2</vcpu><devices>` +
	`<disk type='network' device='disk'><source protocol='rbd' ` +
	`name='default/NAME_sda'><host name='mon1' port='3300'/></source><target dev='sda' bus='scsi'/></disk>` +
	`<interface type='bridge'><mac address='52:54:00:99:99:99'/><source bridge='seedbed0'/><model type='virtio'/></interface>` +
	`<interface type='bridge'><source bridge='br200'/><model type='virtio'/></interface>` +
	`<disk type='file' device='disk'><source file='/dev/shm/vhostmd0'/><target dev='sdz' bus='usb'/></disk></devices></domain>`

// steps returns a script that makes an instance, with the lines of more appended.
func steps(more ...string) string {
	return strings.Join(append([]string{
		"setup: log checking", "create: xml " + domainText,
		"prepare: add_volume default NAME_sda 1G", "prepare: clone_volume default NAME_sdb debian",
		"install: map NAME_sda", "install: mount NAME_sda", "install: print Hello", "cleanup: log done",
	}, more...), "\n")
}

// withScript gives the profile "web" a disk with a mountpoint, and that script.
func (l *lab) withScript(text string) *lab {
	l.t.Helper()
	return l.withProvisioner().scriptedBy(text)
}

// scriptedBy is withScript for a lab that has the profile.
func (l *lab) scriptedBy(text string) *lab {
	l.t.Helper()
	ctx := l.t.Context()
	_, err := l.db.CreateScript(ctx, "build", text)
	l.ok(err)
	l.setOptions("build", func(o *seedbed.ScriptOptions) { o.Network = true })
	_, err = l.db.CreateStorageTemplate(ctx, "made")
	l.ok(err)
	l.addDisk("made", seedbed.TemplateDisk{
		Name: "sda", Pool: "default", Size: seedbed.GiB, Filesystem: "ext4", FilesystemArgs: []string{"-L=root"}, Mountpoint: "/",
	})
	_, err = l.db.ChangeProfile(ctx, "web", func(p *seedbed.Profile) error {
		p.Script, p.Storage, p.Arguments = "build", "made", []string{"deb_release=stable", "who=profile"}
		return nil
	})
	l.ok(err)
	return l
}

func TestScripted(t *testing.T) {
	t.Parallel()
	l := newLab(t).withScript(steps())
	receipt, err := l.asPVC(t.Context(),
		seedbed.Request{Name: "web12", Profile: "web", Arguments: []string{"who=request", "mirror=http://m/?a=b"}})
	l.ok(err)
	job := l.runUntil(receipt.Job, seedbed.JobSucceeded)
	inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web12"))
	l.ok(err)
	var volumes []string
	for _, v := range inst.Volumes {
		volumes = append(volumes, fmt.Sprintf("%d %s/%s %s %s", v.Index, v.Pool, v.Name, v.Size, v.Image))
	}
	debian, err := l.db.Image(t.Context(), "debian")
	l.ok(err)
	if d := cmp.Diff([]string{"0 default/web12_sda 1GiB ", fmt.Sprintf("1 default/web12_sdb %s debian", debian.Size)}, volumes); d != "" {
		t.Errorf("volumes (-want +got):\n%s", d)
	}
	spec, _ := l.hv.Spec(inst.ID)
	if spec.Script == nil || !slices.Equal(spec.Script.Volumes, []string{"default/web12_sda", "default/web12_sdb"}) ||
		len(spec.Disks) != 2 || spec.Script.Early {
		t.Errorf("domain %+v", spec.Script)
	}
	if inst.State != seedbed.InstanceRunning || job.Total != 12 || l.host.scripts.Live() != 0 {
		t.Errorf("instance %s, total %d, %d scripts run", inst.State, job.Total, l.host.scripts.Live())
	}
	start := l.host.scripts.Starts()[0]
	if start.Name != "web12" || start.Number != "12" || start.Profile != "web" || start.Instance != inst.ID || !start.Options.Network {
		t.Errorf("began with %+v", start)
	}
	var data map[string]any
	l.ok(json.Unmarshal(start.Data, &data))
	if d := cmp.Diff(map[string]any{"deb_release": "stable", "who": "request", "mirror": "http://m/?a=b"}, data["script_arguments"]); d != "" {
		t.Errorf("arguments (-want +got):\n%s", d)
	}
	history := l.history(receipt.Job)
	for _, want := range []string{
		"info setup: checking", "52:54:01:00:c0:00, to which its IP address belongs, instead of the script's 52:54:00:99:99:99",
		"vhostmd0 is left out", "volume web12_sda is ready",
	} {
		if !strings.Contains(history, want) {
			t.Errorf("history without %q:\n%s", want, history)
		}
	}
	if strings.Contains(history, "who=") || strings.Contains(history, "http://m") {
		t.Errorf("the history has arguments:\n%s", history)
	}
	page, err := l.db.FeedPage(t.Context(), testNode, 0, "")
	l.ok(err)
	if disks := feedtest.Changes(t, page)[0].Guest.Disks; len(disks) != 2 || disks[0].Device != "sda" || disks[1].Device != "" {
		t.Errorf("the guest is told of the disks %v; want those of its domain", disks)
	}
	if _, err := l.db.ScriptRun(t.Context(), receipt.Job); err == nil {
		t.Error("the job's script is still kept")
	}
	l.runUntil(l.remove("web12"), seedbed.JobSucceeded)
	l.nothing("web12")
}

// TestScriptedMapsImage checks that an image that a script maps is presented as a clone, which is
// in no domain and is removed with the script, so that the instance only has the disks that the
// script made.
func TestScriptedMapsImage(t *testing.T) {
	t.Parallel()
	l := newLab(t).withScript(steps("setup: map_volume default debian", "prepare: map_volume default debian"))
	id := l.compose("web1", true)
	var held []string
	l.host.scripts.Fail(func(_ context.Context, name string, point drivertest.Point) error {
		if job, err := l.db.Job(context.Background(), id); err == nil && job.Stage == "cleanup" &&
			name == "RunScript" && point == drivertest.Before {
			volumes, _ := l.pool.Volumes(context.Background())
			held = nil
			for _, v := range volumes {
				held = append(held, strings.ReplaceAll(v.Name, string(v.Instance), "ID"))
			}
		}
		return nil
	})
	l.runUntil(id, seedbed.JobSucceeded)
	slices.Sort(held)
	if d := cmp.Diff([]string{"ID-source-0", "web1_sda", "web1_sdb"}, held); d != "" {
		t.Errorf("volumes while it ran (-want +got):\n%s", d)
	}
	l.scriptedUp("web1")
	inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	for i, v := range inst.Volumes {
		if v.Index != i || v.Name != "web1_sd"+string(rune('a'+i)) {
			t.Errorf("disk %d is %+v", i, v)
		}
	}
	if !strings.Contains(l.history(id), "image debian is shown to the script") {
		t.Errorf("history:\n%s", l.history(id))
	}
	l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
	l.nothing("web1")
}

// TestScriptedFails checks that an error of a script undoes everything that it has made, and is
// reported as in PVC.
func TestScriptedFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"load": {
			steps("load: fail bad syntax"), "stage prepare-script: the script cannot be loaded: ProvisioningError: bad syntax",
		},
		"setup":        {steps("setup: fail no"), "stage setup: Error in script setup() step: no"},
		"create":       {steps("create: fail no"), "stage create: Error in script create() step: no"},
		"prepare":      {steps("prepare: fail no"), "stage prepare: Error in script prepare() step: no"},
		"install":      {steps("install: fail no mirror"), "stage install: Error in script install() step: no mirror"},
		"cleanup":      {steps("cleanup: fail no"), "stage cleanup: Error in script cleanup() step: no"},
		"death":        {steps("install: die"), "the script did not run to its end: killed"},
		"no XML":       {steps("create: xml <domain"), "it is not the XML of a libvirt domain"},
		"another name": {strings.Replace(steps(), "<name>NAME", "<name>other", 1), `its name is "other"`},
		"another's disk": {
			strings.Replace(steps(), "default/NAME_sda'", "default/secret'", 1), "the disk default/secret is not the instance's own",
		},
		"a disk never made": {strings.Replace(steps(), "default/NAME_sda'", "default/NAME_sdq'", 1), "is not one that the script has made"},
		"no disk made": {
			"create: xml " + domainText,
			"the volume default/web1_sda is not one that the script has made: it made none. A domain is only defined on disks that exist",
		},
		"a host device": {strings.Replace(steps(), "<devices>", "<devices><hostdev mode='subsystem' type='usb'/>", 1),
			"hostdev in <devices> is not for scripts"},
		"no such pool": {steps("prepare: add_volume other NAME_sdc 1G"), "Error in script prepare() step: ERROR: "},
		"no size":      {steps("prepare: add_volume default NAME_sdc huge"), `the size "huge" is not usable`},
		"no path":      {steps("prepare: add_volume default ../x 1G"), `volume name "../x" is not usable`},
		"twice":        {steps("prepare: add_volume default NAME_sda 2G"), "exists already"},
		"a clone of nothing": {
			steps("prepare: clone_volume default NAME_sdc nothing"), `No volume with name "nothing" is present in pool "default".`,
		},
		"a map of nothing": {steps("install: map_volume default nothing"), `No volume with name "nothing" is present in pool "default".`},
		"a name of ours": {
			steps("install: map_volume default debian", "install: add_volume default UUID-source-9 1G"), "is kept for clones of images",
		},
		"a disk of ours": {strings.Replace(steps("setup: map_volume default debian"), "default/NAME_sda'", "default/UUID-source-0'", 1),
			"is not the instance's own"},
		"after the map":       {steps("install: map_volume default debian", "install: fail no"), "Error in script install() step: no"},
		"a call that is none": {steps("prepare: drop_volume default NAME_sda"), `unknown call "drop_volume"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withScript(test.text)
			id := l.compose("web1", true)
			job := l.runUntil(id, seedbed.JobRolledBack)
			if !strings.Contains(job.Error, test.want) {
				t.Errorf("error %q; want %q", job.Error, test.want)
			}
			l.nothing("web1")
			if l.host.scripts.Live() != 0 {
				t.Errorf("the script still runs")
			}
			if strings.Contains(test.text, ": fail") && !strings.Contains(l.history(id), "Traceback") {
				t.Errorf("history without a traceback:\n%s", l.history(id))
			}
		})
	}
}

// TestScriptedNameTaken checks that a volume with the name of another instance's volume is refused,
// and that the other volume stays.
func TestScriptedNameTaken(t *testing.T) {
	t.Parallel()
	l := newLab(t).withScript(steps("prepare: add_volume default shared 1G"))
	l.runUntil(l.compose("web1", true), seedbed.JobSucceeded)
	job := l.runUntil(l.compose("web2", true), seedbed.JobRolledBack)
	if !strings.Contains(job.Error, "the volume shared of pool default is another instance's") {
		t.Errorf("error %q", job.Error)
	}
	volumes, err := l.pool.Volumes(t.Context())
	l.ok(err)
	if len(volumes) != 3 {
		t.Errorf("volumes %v; want the three of web1", volumes)
	}
}

func TestScriptedVerify(t *testing.T) {
	t.Parallel()
	l := newLab(t).withScript(steps())
	l.host.scripts.Missing = []string{"mkfs.ext4"}
	job := l.runUntil(l.compose("web1", true), seedbed.JobRolledBack)
	if want := "stage verify: Failed to find binary for mkfs.ext4"; !strings.Contains(job.Error, want) {
		t.Errorf("error %q; want %q", job.Error, want)
	}
	if len(l.host.scripts.Starts()) != 0 {
		t.Error("the script was begun")
	}
}

// TestScriptedLost checks that a script whose process is lost, with its worker or with its engine,
// starts again from its first step, without anything that the former process has made.
func TestScriptedLost(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"setup", "create", "prepare", "install", "cleanup"} {
		t.Run("worker in "+at, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withScript(steps())
			id := l.compose("web1", true)
			var once sync.Once
			l.host.scripts.Fail(func(_ context.Context, name string, point drivertest.Point) error {
				job, err := l.db.Job(context.Background(), id)
				if err == nil && job.Stage == at && name == "RunScript" && point == drivertest.After {
					once.Do(func() { l.host.scripts.Lose(); err = seedbed.Errorf(seedbed.ErrUnavailable, "the worker is gone") })
				}
				return err
			})
			l.runUntil(id, seedbed.JobSucceeded)
			l.scriptedUp("web1")
			if n := len(l.host.scripts.Starts()); n != 2 {
				t.Errorf("the script was begun %d times; want 2", n)
			}
		})
		t.Run("engine in "+at, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withScript(steps(at + ": hang"))
			id := l.compose("web1", true)
			p := l.start()
			l.eventually("stage "+at, func() bool {
				job, err := l.db.Job(t.Context(), id)
				l.ok(err)
				return job.Stage == at && l.host.scripts.Live() == 1
			})
			l.ok(l.db.CancelJob(t.Context(), id))
			l.wait(id, seedbed.JobRolledBack)
			p.stop()
			l.nothing("web1")
		})
	}
}

// scriptedUp checks that the instance runs, on the volumes of one run of its script.
func (l *lab) scriptedUp(name string) {
	l.t.Helper()
	inst, err := l.db.InstanceByName(l.t.Context(), seedbed.InDefault(name))
	l.ok(err)
	volumes, _ := l.pool.Volumes(l.t.Context())
	domains, _ := l.hv.Domains(l.t.Context())
	if inst.State != seedbed.InstanceRunning || len(inst.Volumes) != 2 || len(volumes) != 2 ||
		len(domains) != 1 || domains[0].State != seedbed.DomainRunning || l.host.scripts.Live() != 0 {
		l.t.Errorf("instance %s with %v, volumes %v, domains %v, %d scripts run",
			inst.State, inst.Volumes, volumes, domains, l.host.scripts.Live())
	}
}

// TestScriptedByRequest checks that a webhook may name a provisioner profile; its parameters are
// the script's arguments.
func TestScriptedByRequest(t *testing.T) {
	t.Parallel()
	l := newLab(t).withScript(steps())
	receipt, err := l.intake.Submit(t.Context(), seedbed.Request{Action: "create", Name: "web1", Profile: "web",
		Params: map[string]any{"who": "hook", "count": float64(3), "ready": "metadata"}}, nil)
	l.ok(err)
	l.runUntil(receipt.Job, seedbed.JobSucceeded)
	l.scriptedUp("web1")
	var data map[string]any
	l.ok(json.Unmarshal(l.host.scripts.Starts()[0].Data, &data))
	if d := cmp.Diff(map[string]any{"deb_release": "stable", "who": "hook", "count": "3"}, data["script_arguments"]); d != "" {
		t.Errorf("arguments (-want +got):\n%s", d)
	}
	inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	if inst.Ready != seedbed.ReadyMetadata {
		t.Errorf("ready %s", inst.Ready)
	}
	_, err = l.intake.Submit(t.Context(),
		seedbed.Request{Action: "create", Name: "web2", Profile: "web", Params: map[string]any{"list": []any{"a"}}}, nil)
	if err == nil || !strings.Contains(err.Error(), "param list") {
		t.Errorf("a list is accepted: %v", err)
	}
}
