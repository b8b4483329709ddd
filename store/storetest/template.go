package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
)

var templateCases = map[string]func(*bench){
	"system templates":                      testSystemTemplates,
	"a system template's bounds":            testSystemBounds,
	"names match exactly, by part, by ends": testNameMatch,
	"network templates":                     testNetworkTemplates,
	"storage templates":                     testStorageTemplates,
	"a disk's bounds":                       testDiskBounds,
	"an image that a template names":        testTemplateImage,
	"of many creates of one name":           testTemplateRace,
	"of many creates at once":               testTemplatesAtOnce,
	"of adds and deletes at once":           testTemplateDeleteRace,
}

func systemOf(name string) seedbed.SystemTemplate {
	return seedbed.SystemTemplate{Name: name, VCPUs: 2, Memory: seedbed.GiB, Serial: true, MigrationDowntime: 300 * time.Millisecond}
}

func testSystemTemplates(b *bench) {
	ctx := context.Background()
	full := seedbed.SystemTemplate{
		Name: "big", VCPUs: 255, Memory: 64 * seedbed.TiB, Serial: true, VNC: true, VNCBind: "0.0.0.0", NodeLimit: []string{"hv1", "hv2"},
		NodeSelector: "mem", NodeAutostart: true, MigrationMethod: "live",
		MigrationDowntime: 500 * time.Millisecond, DiskBus: seedbed.BusSCSI, DiskCopy: true,
	}
	made := get(b.CreateSystemTemplate(ctx, full))(b)
	if made.ID == 0 || made.Revision != 1 || time.Since(made.Created) > time.Minute || !made.Changed.Equal(made.Created) {
		b.Errorf("kept as %+v", made.ObjectMeta)
	}
	b.equal(made, full, cmpopts.IgnoreFields(seedbed.SystemTemplate{}, "ObjectMeta"))
	_, err := b.CreateSystemTemplate(ctx, full)
	b.want(err, seedbed.ErrExists, `the system template "big" already exists`)
	small := get(b.CreateSystemTemplate(ctx, systemOf("a.small_one")))(b)
	b.equal(get(b.SystemTemplates(ctx, seedbed.NameMatch{}))(b), []seedbed.SystemTemplate{small, made})
	b.equal(get(b.SystemTemplates(ctx, seedbed.ExactName("big")))(b), []seedbed.SystemTemplate{made})

	changed := get(b.ChangeSystemTemplate(ctx, "big", func(t *seedbed.SystemTemplate) error {
		t.Name, t.VCPUs, t.NodeLimit = "other", 4, nil
		return nil
	}))(b)
	if changed.Name != "big" || changed.VCPUs != 4 || changed.Revision != 2 || changed.Changed.Before(made.Changed) {
		b.Errorf("changed to %+v", changed)
	}
	b.equal(get(b.SystemTemplates(ctx, seedbed.ExactName("big")))(b), []seedbed.SystemTemplate{changed})
	_, err = b.ChangeSystemTemplate(ctx, "big", func(t *seedbed.SystemTemplate) error { t.VCPUs = 0; return nil })
	b.want(err, seedbed.ErrInvalid, "vcpus")
	b.equal(get(b.SystemTemplates(ctx, seedbed.ExactName("big")))(b), []seedbed.SystemTemplate{changed}) // nothing is partly stored
	_, err = b.ChangeSystemTemplate(ctx, "none", func(*seedbed.SystemTemplate) error { return nil })
	b.want(err, seedbed.ErrNotFound, `the system template "none" does not exist`)
	b.must(b.DeleteSystemTemplate(ctx, "big"))
	b.want(b.DeleteSystemTemplate(ctx, "big"), seedbed.ErrNotFound, `the system template "big" does not exist`)
	again := get(b.CreateSystemTemplate(ctx, full))(b)
	if again.ID <= small.ID {
		b.Errorf("number %d was given before", again.ID)
	}
}

func testSystemBounds(b *bench) {
	ctx := context.Background()
	for name, spoil := range map[string]func(*seedbed.SystemTemplate){
		"no name":               func(t *seedbed.SystemTemplate) { t.Name = "" },
		"a name with percent":   func(t *seedbed.SystemTemplate) { t.Name = "a%" },
		"a name with a slash":   func(t *seedbed.SystemTemplate) { t.Name = "A/b" },
		"a name with NUL":       func(t *seedbed.SystemTemplate) { t.Name = "a\x00" },
		"a long name":           func(t *seedbed.SystemTemplate) { t.Name = strings.Repeat("a", 10000) },
		"no vcpus":              func(t *seedbed.SystemTemplate) { t.VCPUs = 0 },
		"many vcpus":            func(t *seedbed.SystemTemplate) { t.VCPUs = 256 },
		"little memory":         func(t *seedbed.SystemTemplate) { t.Memory = seedbed.MiB },
		"much memory":           func(t *seedbed.SystemTemplate) { t.Memory = 65 * seedbed.TiB },
		"an address that is no": func(t *seedbed.SystemTemplate) { t.VNCBind = "all" },
		"a node that is no":     func(t *seedbed.SystemTemplate) { t.NodeLimit = []string{"a b"} },
		"a selector":            func(t *seedbed.SystemTemplate) { t.NodeSelector = "best" },
		"a bus":                 func(t *seedbed.SystemTemplate) { t.DiskBus = "ide" },
		"a method":              func(t *seedbed.SystemTemplate) { t.MigrationMethod = "cold" },
		"a negative downtime":   func(t *seedbed.SystemTemplate) { t.MigrationDowntime = -1 },
	} {
		t := systemOf("web")
		spoil(&t)
		if _, err := b.CreateSystemTemplate(ctx, t); seedbed.KindName(err) != "invalid" {
			b.Errorf("%s: %v", name, err)
		}
	}
	b.equal(get(b.SystemTemplates(ctx, seedbed.NameMatch{}))(b), []seedbed.SystemTemplate{})
}

func testNameMatch(b *bench) {
	ctx := context.Background()
	for _, name := range []string{"web", "web_1", "webx1", "Web", "db-web"} {
		get(b.CreateUserData(ctx, name, ""))(b)
	}
	for pattern, want := range map[string]string{
		"":           "Web db-web empty web web_1 webx1",
		"web":        "db-web web web_1 webx1",
		"^web":       "web web_1 webx1",
		"web$":       "db-web web",
		"^web$":      "web",
		"web_1":      "web_1",
		"_":          "web_1",
		"%":          "",
		`\`:          "",
		"^web%1$":    "",
		"WEB":        "",
		"a\x00":      "",
		"\xff":       "",
		"^$":         "",
		"$":          "Web db-web empty web web_1 webx1",
		"^web_1$":    "web_1",
		"^web_1' OR": "",
	} {
		var names []string
		for _, d := range get(b.UserDataDocuments(ctx, seedbed.ParseNameMatch(pattern)))(b) {
			names = append(names, d.Name)
		}
		if got := strings.Join(names, " "); got != want {
			b.Errorf("%q matches %q, want %q", pattern, got, want)
		}
	}
}

func testNetworkTemplates(b *bench) {
	ctx := context.Background()
	b.network("100", "br100", "10.1.0.0/24")
	b.network("200", "br200", "10.2.0.0/24")
	made := get(b.CreateNetworkTemplate(ctx, "lan", "{prefix}:00:{vmid}0:{netid}0"))(b)
	_, err := b.CreateNetworkTemplate(ctx, "lan", "")
	b.want(err, seedbed.ErrExists, `the network template "lan" already exists`)
	_, err = b.CreateNetworkTemplate(ctx, "bad", "{prefix}:XX:00:00")
	b.want(err, seedbed.ErrInvalid, "is not a MAC address")
	_, err = b.CreateNetworkTemplate(ctx, "a%b", "")
	b.want(err, seedbed.ErrInvalid)

	b.must(b.addNetwork("lan", "200", false))
	b.must(b.addNetwork("lan", "100", false))
	b.want(b.addNetwork("lan", "200", false), seedbed.ErrExists, `the VNI "200" in network template "lan" already exists`)
	b.must(b.addNetwork("lan", "200", true))
	b.want(b.addNetwork("lan", "300", false), seedbed.ErrInvalid, `the network VNI "300" is not present on the cluster`)
	b.want(b.addNetwork("lan", "a\x00", false), seedbed.ErrInvalid)
	b.want(b.addNetwork("wan", "100", false), seedbed.ErrNotFound, `the network template "wan" does not exist`)
	all := get(b.NetworkTemplates(ctx, seedbed.NameMatch{}))(b)
	var vnis []string
	for _, n := range all[0].Networks {
		vnis = append(vnis, n.VNI)
		if n.ID == 0 || n.Template != made.ID {
			b.Errorf("kept as %+v", n)
		}
	}
	b.equal(vnis, []string{"200", "100", "200"})
	if all[0].Revision != 4 || all[0].MAC != made.MAC || len(all) != 1 {
		b.Errorf("%+v", all)
	}
	b.must(b.removeNetwork("lan", "200"))
	b.want(b.removeNetwork("lan", "200"), seedbed.ErrNotFound, `the VNI "200" in network template "lan" does not exist`)
	b.want(b.removeNetwork("wan", "200"), seedbed.ErrNotFound, "network template")
	if nets := get(b.NetworkTemplates(ctx, seedbed.ExactName("lan")))(b)[0].Networks; len(nets) != 1 || nets[0].VNI != "100" {
		b.Errorf("%+v", nets)
	}
	for range 15 {
		b.must(b.addNetwork("lan", "100", true))
	}
	b.want(b.addNetwork("lan", "100", true), seedbed.ErrInvalid, "16 networks")
	b.must(b.DeleteNetworkTemplate(ctx, "lan"))
	b.want(b.DeleteNetworkTemplate(ctx, "lan"), seedbed.ErrNotFound)
}

func diskOf(name string) seedbed.TemplateDisk {
	return seedbed.TemplateDisk{Name: name, Pool: "default", Size: 8 * seedbed.GiB}
}

func testStorageTemplates(b *bench) {
	ctx := context.Background()
	b.world()
	made := get(b.CreateStorageTemplate(ctx, "two"))(b)
	_, err := b.CreateStorageTemplate(ctx, "two")
	b.want(err, seedbed.ErrExists, `the storage template "two" already exists`)
	clone := seedbed.TemplateDisk{Name: "sda", Pool: "default", Source: "debian"}
	data := diskOf("sdb")
	data.Filesystem, data.FilesystemArgs, data.Mountpoint = "ext4", []string{"-L=data", "-m=0"}, "/srv"
	b.must(b.addDisk("two", data))
	b.must(b.addDisk("two", clone))
	b.want(b.addDisk("two", diskOf("sda")), seedbed.ErrExists, `the disk "sda" in storage template "two" already exists`)
	b.want(b.addDisk("one", diskOf("sda")), seedbed.ErrNotFound, `the storage template "one" does not exist`)
	got := get(b.StorageTemplates(ctx, seedbed.ExactName("two")))(b)
	want := []seedbed.StorageTemplate{{ObjectMeta: got[0].ObjectMeta, Name: "two", Disks: []seedbed.TemplateDisk{clone, data}}}
	b.equal(got, want, cmpopts.IgnoreFields(seedbed.TemplateDisk{}, "ID", "Template"))
	if got[0].ID != made.ID || got[0].Revision != 3 || got[0].Disks[0].Template != made.ID || got[0].Disks[0].ID == 0 {
		b.Errorf("%+v", got[0])
	}
	b.must(b.removeDisk("two", "sdb"))
	b.want(b.removeDisk("two", "sdb"), seedbed.ErrNotFound, `the disk "sdb" in storage template "two" does not exist`)
	b.must(b.DeleteStorageTemplate(ctx, "two"))
	b.want(b.DeleteStorageTemplate(ctx, "two"), seedbed.ErrNotFound)
}

func testDiskBounds(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.CreateStorageTemplate(ctx, "s"))(b)
	for name, c := range map[string]struct {
		spoil func(*seedbed.TemplateDisk)
		say   string
	}{
		"no name":             {func(d *seedbed.TemplateDisk) { d.Name = "" }, "disk name"},
		"a name with a slash": {func(d *seedbed.TemplateDisk) { d.Name = "a/b" }, "disk name"},
		"a pool with a slash": {func(d *seedbed.TemplateDisk) { d.Pool = "../x" }, "pool name"},
		"no size":             {func(d *seedbed.TemplateDisk) { d.Size = 0 }, "disk size or a source volume"},
		"a huge size":         {func(d *seedbed.TemplateDisk) { d.Size = 65 * seedbed.TiB }, "disk_size"},
		"a negative size":     {func(d *seedbed.TemplateDisk) { d.Size = -seedbed.GiB }, "disk_size"},
		"a clone with a size": {func(d *seedbed.TemplateDisk) { d.Source = "debian" }, "clone volumes are not compatible"},
		"an unknown source": {
			func(d *seedbed.TemplateDisk) { d.Size, d.Source = 0, "none" }, "source volume default/none could not be found",
		},
		"a source with NUL":     {func(d *seedbed.TemplateDisk) { d.Size, d.Source = 0, "a\x00" }, "could not be found"},
		"another pool's source": {func(d *seedbed.TemplateDisk) { d.Size, d.Pool, d.Source = 0, "fast", "debian" }, "source volume fast/debian"},
		"a mountpoint alone": {
			func(d *seedbed.TemplateDisk) { d.Mountpoint = "/srv" }, "a filesystem must be specified along with a mountpoint",
		},
		"a relative mountpoint":  {func(d *seedbed.TemplateDisk) { d.Filesystem, d.Mountpoint = "ext4", "srv" }, "mountpoint"},
		"a mountpoint that goes": {func(d *seedbed.TemplateDisk) { d.Filesystem, d.Mountpoint = "ext4", "/a/../.." }, "mountpoint"},
		"a filesystem as option": {func(d *seedbed.TemplateDisk) { d.Filesystem = "-F" }, "filesystem"},
		"an argument with lines": {func(d *seedbed.TemplateDisk) { d.Filesystem, d.FilesystemArgs = "ext4", []string{"a\nb"} }, "filesystem_arg"},
	} {
		d := diskOf("sda")
		c.spoil(&d)
		err := b.addDisk("s", d)
		if seedbed.KindName(err) != "invalid" || !strings.Contains(err.Error(), c.say) {
			b.Errorf("%s: %v, want %q", name, err, c.say)
		}
	}
	got := get(b.StorageTemplates(ctx, seedbed.ExactName("s")))(b)[0]
	if len(got.Disks) > 0 || got.Revision != 1 {
		b.Errorf("half stored: %+v", got)
	}
}

// An image that a storage template refers to cannot be removed, and the error names the template.
func testTemplateImage(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.CreateStorageTemplate(ctx, "s"))(b)
	b.must(b.addDisk("s", seedbed.TemplateDisk{Name: "sda", Pool: "default", Source: "debian"}))
	remove := seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobImageRemove, Subject: "debian"}}
	_, err := b.Accept(ctx, remove)
	b.want(err, seedbed.ErrInUse, "storage template s")
	b.must(b.DeleteStorageTemplate(ctx, "s"))
	get(b.Accept(ctx, remove))(b)
}

func testTemplateRace(b *bench) {
	ctx := context.Background()
	const n = 16
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { _, errs[i] = b.CreateSystemTemplate(ctx, systemOf("web")) })
	}
	wg.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
			continue
		}
		b.want(err, seedbed.ErrExists, `"web" already exists`)
	}
	if all := get(b.SystemTemplates(ctx, seedbed.NameMatch{}))(b); made != 1 || len(all) != 1 {
		b.Errorf("%d made it, %d are there", made, len(all))
	}
}

// Concurrent creates share a transaction. A refused one does not affect the others, and no number
// is assigned twice.
func testTemplatesAtOnce(b *bench) {
	ctx := context.Background()
	const n = 40
	get(b.CreateSystemTemplate(ctx, systemOf("t7")))(b)
	ids, errs := make([]int64, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			t, err := b.CreateSystemTemplate(ctx, systemOf(fmt.Sprintf("t%d", i)))
			ids[i], errs[i] = t.ID, err
		})
	}
	wg.Wait()
	kept := map[string]int64{}
	for _, t := range get(b.SystemTemplates(ctx, seedbed.NameMatch{}))(b) {
		kept[t.Name] = t.ID
	}
	seen := map[int64]bool{}
	for i := range n {
		if i == 7 {
			b.want(errs[i], seedbed.ErrExists, `"t7" already exists`)
			continue
		}
		if errs[i] != nil || kept[fmt.Sprintf("t%d", i)] != ids[i] || seen[ids[i]] {
			b.Errorf("t%d: number %d, kept as %d: %v", i, ids[i], kept[fmt.Sprintf("t%d", i)], errs[i])
		}
		seen[ids[i]] = true
	}
}

// A template is deleted while profiles that refer to it are created. Each profile exists with its
// template, or not at all.
func testTemplateDeleteRace(b *bench) {
	ctx := context.Background()
	b.composed()
	for i := range 8 {
		name := fmt.Sprintf("t%d", i)
		get(b.CreateSystemTemplate(ctx, systemOf(name)))(b)
		p := profileOf(name)
		p.System = name
		var made, gone error
		var wg sync.WaitGroup
		wg.Go(func() { _, made = b.CreateProfile(ctx, p) })
		wg.Go(func() { gone = b.DeleteSystemTemplate(ctx, name) })
		wg.Wait()
		left := get(b.SystemTemplates(ctx, seedbed.ExactName(name)))(b)
		profiles := get(b.ScriptedProfiles(ctx, seedbed.ExactName(name)))(b)
		switch {
		case made == nil && len(left) == 1 && len(profiles) == 1:
			b.want(gone, seedbed.ErrInUse, name)
		case gone == nil && len(left) == 0 && len(profiles) == 0:
			b.want(made, seedbed.ErrInvalid, "does not exist")
		default:
			b.Errorf("made: %v, gone: %v, %d templates, %d profiles", made, gone, len(left), len(profiles))
		}
	}
}
