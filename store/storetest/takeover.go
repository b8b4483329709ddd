package storetest

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"seedbed"
)

var catalogueTakeoverCases = map[string]func(*bench){
	"to an empty one":      testImportCatalogue,
	"of a project":         testCatalogueOfAProject,
	"conflicts":            testImportConflicts,
	"secrets":              testImportSecrets,
	"whole":                testCatalogueWhole,
	"what the checks find": testImportChecks,
	"whom it wakes":        testImportWakes,
}

// wares returns a catalogue with one object of each kind.
func wares() seedbed.Catalogue {
	p := webProfile()
	p.Name = "native"
	return seedbed.Catalogue{
		System: []seedbed.CatalogueSystem{
			{Name: "small", VCPUs: 2, Memory: seedbed.GiB, Serial: true, NodeLimit: []string{"hv1"}, MigrationDowntime: 300},
		},
		Network: []seedbed.CatalogueNetwork{{Name: "lan", MAC: "{prefix}:00:{vmid}0:{netid}0", VNIs: []string{"default", "default"}}},
		Storage: []seedbed.CatalogueStorage{{Name: "root", Disks: []seedbed.CatalogueDisk{{Name: "sda", Pool: "default", Source: "debian"},
			{Name: "sdb", Pool: "default", Size: seedbed.GiB, Filesystem: "ext4", FilesystemArgs: []string{"-L=data"}, Mountpoint: "/data"}}}},
		UserData: []seedbed.CatalogueDocument{{Name: "cloud", Data: "#cloud-config\n"}},
		Scripts:  []seedbed.CatalogueScript{{Name: "install", Text: "print(1)\n", Options: seedbed.ScriptOptions{Network: true}}},
		Provisioner: []seedbed.CatalogueProvisioner{{Name: "web", Type: "provisioner", System: "small", Network: "lan",
			Storage: "root", UserData: "cloud", Script: "install", Arguments: []string{"a=b"}, Follow: seedbed.FollowLive}},
		Profiles: []seedbed.Profile{seedbed.ProfileOfCatalogue(p)},
	}
}

func (b *bench) importCatalogue(c seedbed.Catalogue, how seedbed.CatalogueImport) seedbed.CatalogueReport {
	b.Helper()
	return get(b.ImportCatalogue(context.Background(), c, how))(b)
}

// actions returns the actions of a report, in its order.
func actions(r seedbed.CatalogueReport) (all []string) {
	for _, c := range r.Changes {
		all = append(all, c.Action+" "+c.Name)
	}
	return all
}

func testImportCatalogue(b *bench) {
	ctx := context.Background()
	b.world()
	empty := get(b.Catalogue(ctx, seedbed.DefaultProject))(b)
	if empty.Objects() != 0 {
		b.Fatalf("an empty installation has %+v", empty)
	}
	made := []string{"made small", "made lan", "made root", "made cloud", "made install", "made web", "made native"}
	r := b.importCatalogue(wares(), seedbed.CatalogueImport{DryRun: true})
	b.equal(actions(r), made)
	if r.Applied || get(b.Catalogue(ctx, seedbed.DefaultProject))(b).Objects() != 0 {
		b.Error("a trial has written something")
	}
	before := b.Hint()
	r = b.importCatalogue(wares(), seedbed.CatalogueImport{})
	b.equal(actions(r), made)
	if !r.Applied {
		b.Error("it was not applied")
	}
	select {
	case <-before:
	default:
		b.Error("nobody was told of it")
	}
	kept := get(b.Catalogue(ctx, seedbed.DefaultProject))(b)
	again := b.importCatalogue(kept, seedbed.CatalogueImport{})
	for _, c := range again.Changes {
		if c.Action != seedbed.CatalogueKept {
			b.Errorf("its own catalogue has %s %s", c.Action, c.Name)
		}
	}
	b.equal(get(b.Catalogue(ctx, seedbed.DefaultProject))(b), kept)
	if t := get(b.SystemTemplates(ctx, seedbed.ExactName("small")))(b)[0]; t.Revision != 1 {
		b.Errorf("what was kept has revision %d", t.Revision)
	}

	next := wares()
	next.System[0].VCPUs = 4
	next.Network[0].VNIs = []string{"default"}
	next.Storage[0].Disks = next.Storage[0].Disks[:1]
	next.Scripts[0].Options.Network = false
	next.Provisioner[0].Arguments = nil
	next.Profiles[0].VCPUs = 7
	b.equal(actions(b.importCatalogue(next, seedbed.CatalogueImport{Keep: true})),
		[]string{"kept small", "kept lan", "kept root", "kept cloud", "kept install", "kept web", "kept native"})
	b.equal(get(b.Catalogue(ctx, seedbed.DefaultProject))(b), kept)
	b.equal(actions(b.importCatalogue(next, seedbed.CatalogueImport{})),
		[]string{"changed small", "changed lan", "changed root", "kept cloud", "changed install", "changed web", "changed native"})
	now := get(b.Catalogue(ctx, seedbed.DefaultProject))(b)
	if now.System[0].VCPUs != 4 || len(now.Network[0].VNIs) != 1 || len(now.Storage[0].Disks) != 1 ||
		now.Scripts[0].Options.Network || len(now.Profiles[1].Arguments) != 0 || now.Profiles[0].VCPUs != 7 {
		b.Errorf("%+v", now)
	}
}

// A catalogue is imported into a project and exported from it, with names without the project.
func testCatalogueOfAProject(b *bench) {
	ctx, all := context.Background(), seedbed.Publication{All: true}
	b.world()
	b.owners()
	_, err := b.PublishImage(ctx, "debian", all)
	b.must(err)
	_, err = b.PublishNetwork(ctx, "default", all)
	b.must(err)
	into := seedbed.CatalogueImport{Project: "acme"}
	r := b.importCatalogue(wares(), into)
	b.equal(actions(r), []string{"made small", "made lan", "made root", "made cloud", "made install", "made web", "made native"})
	b.equal(get(b.Catalogue(ctx, seedbed.DefaultProject))(b).Objects(), 0)
	b.equal(get(b.Catalogue(ctx, "shop"))(b).Objects(), 0)
	p := get(b.Profile(ctx, "acme/native"))(b)
	b.equal([]string{p.Name, p.Image}, []string{"acme/native", "default/debian"})
	file := get(b.Catalogue(ctx, "acme"))(b)
	b.equal([]string{file.System[0].Name, file.Storage[0].Disks[0].Source, file.Profiles[0].Name},
		[]string{"small", "default/debian", "native"})
	for _, c := range b.importCatalogue(file, into).Changes {
		if c.Action != seedbed.CatalogueKept {
			b.Errorf("its own catalogue has %s %s: %s", c.Action, c.Name, c.Detail)
		}
	}
	if r := b.importCatalogue(file, seedbed.CatalogueImport{Project: "shop"}); !r.Applied {
		b.Errorf("another project: %+v", r)
	}
	b.equal(get(b.Catalogue(ctx, "shop"))(b), file)
	wrong := seedbed.Catalogue{UserData: []seedbed.CatalogueDocument{{Name: "shop/x", Data: "#!x"}}}
	if r := b.importCatalogue(wrong, into); r.Applied || r.Conflicts() != 1 {
		b.Errorf("a name with a project: %+v", r)
	}
}

// If there is a conflict, nothing is written, and every conflict is reported.
func testImportConflicts(b *bench) {
	ctx := context.Background()
	b.world()
	b.importCatalogue(wares(), seedbed.CatalogueImport{})
	kept := get(b.Catalogue(ctx, seedbed.DefaultProject))(b)
	c := wares()
	c.System = append(c.System, seedbed.CatalogueSystem{Name: "new", VCPUs: 1, Memory: seedbed.GiB},
		seedbed.CatalogueSystem{Name: "a/b", VCPUs: 1, Memory: seedbed.GiB})
	c.Network[0].VNIs = []string{"nowhere"}
	c.Storage[0].Disks[0].Source = "gone"
	c.UserData = append(c.UserData, seedbed.CatalogueDocument{Name: seedbed.Empty, Data: "x"},
		seedbed.CatalogueDocument{Name: "nul", Data: "\x00"})
	c.Provisioner[0].Type, c.Provisioner[0].OVA = "ova", "vm" // these cannot change
	p := c.Profiles[0]
	p.Name, p.Script = "other", "gone"
	c.Profiles = append(c.Profiles, p)
	r := b.importCatalogue(c, seedbed.CatalogueImport{})
	want := []string{"kept small", "made new", "conflict a/b", "conflict lan", "conflict root", "kept cloud",
		"conflict empty", "conflict nul", "kept install", "conflict web", "kept native", "conflict other"}
	b.equal(actions(r), want)
	for _, c := range r.Changes {
		if (c.Detail != "") != (c.Action == seedbed.CatalogueConflict) {
			b.Errorf("%+v", c)
		}
	}
	if r.Applied || r.Conflicts() != 7 {
		b.Errorf("applied %t with %d conflicts", r.Applied, r.Conflicts())
	}
	b.equal(get(b.Catalogue(ctx, seedbed.DefaultProject))(b), kept)
	// The writes of the failed one are gone, and the database still works.
	b.importCatalogue(wares(), seedbed.CatalogueImport{})
}

// No catalogue contains the value of a secret, because a profile has none.
func testImportSecrets(b *bench) {
	ctx := context.Background()
	b.world()
	value, size := seedbed.ParamText("hunter2"), seedbed.ParamText("3")
	c := wares()
	c.Profiles[0].Params = []seedbed.Param{{Name: "password", Type: seedbed.ParamSecret},
		{Name: "size", Type: seedbed.ParamInt, Default: &size}}
	c.Provisioner[0].Params = slices.Clone(c.Profiles[0].Params)
	b.importCatalogue(c, seedbed.CatalogueImport{})
	out := get(b.Catalogue(ctx, seedbed.DefaultProject))(b)
	b.equal(out.Profiles[0].Params, c.Profiles[0].Params)
	b.equal(out.Profiles[1].Params, c.Provisioner[0].Params)
	out.Profiles[1].Params[0].Default = &value
	if r := b.importCatalogue(out, seedbed.CatalogueImport{}); r.Conflicts() != 1 ||
		!strings.Contains(r.Changes[6].Detail, "a secret cannot have a default") {
		b.Errorf("%+v", r)
	}
}

// A check sees the objects before it in the same catalogue. Its error is a conflict.
func testImportChecks(b *bench) {
	b.world()
	var seen []string
	how := seedbed.CatalogueImport{
		Check: func(ctx context.Context, parts seedbed.PartReader, p seedbed.Profile) error {
			seen = append(seen, p.Name)
			if p.Script == "" {
				return seedbed.Errorf(seedbed.ErrInvalid, "no")
			}
			found, err := parts.Parts(ctx, p.Name, seedbed.PartNames{UserData: p.Document})
			if err != nil || found.UserData == nil {
				b.Errorf("the check finds no document %q: %v", p.Document, err)
			}
			return nil
		},
	}
	r := b.importCatalogue(wares(), how)
	if !slices.Equal(seen, []string{"web", "native"}) || r.Conflicts() != 1 || r.Applied || r.Changes[len(r.Changes)-1].Detail != "no" {
		b.Errorf("%v, %+v", seen, r)
	}
}

// Who waits for changes of profiles and documents is woken once they are committed, and not before.
func testImportWakes(b *bench) {
	b.world()
	var rung <-chan struct{}
	woken := func() bool {
		select {
		case <-rung:
			return true
		default:
			return false
		}
	}
	c := wares()
	how := seedbed.CatalogueImport{Check: func(context.Context, seedbed.PartReader, seedbed.Profile) error {
		if woken() {
			b.Error("the import wakes before it is committed")
		}
		return nil
	}}
	rung = b.Revised()
	if b.importCatalogue(c, how); !woken() {
		b.Error("the import wakes no one")
	}
	rung = b.Revised()
	c.UserData[0].Data += "a: b\n"
	if r := b.importCatalogue(c, how); !r.Applied || !woken() {
		b.Errorf("the changing import wakes no one: %+v", r)
	}
	rung = b.Revised()
	if b.importCatalogue(c, seedbed.CatalogueImport{DryRun: true, Check: how.Check}); woken() {
		b.Error("a dry run wakes")
	}
}

// Every field of an object is exported and imported, so a new field must be added to the catalogue.
func testCatalogueWhole(b *bench) {
	left := []string{"ObjectMeta", "OVA", "OVAID", "ID", "Template"} // numbers, and what belongs to an OVA image
	for _, c := range []struct {
		object any
		form   func(any) any
	}{
		{&seedbed.SystemTemplate{}, func(v any) any { return seedbed.SystemOfCatalogue(*v.(*seedbed.SystemTemplate)) }},
		{&seedbed.TemplateDisk{}, func(v any) any {
			return seedbed.StorageOfCatalogue(seedbed.StorageTemplate{Disks: []seedbed.TemplateDisk{*v.(*seedbed.TemplateDisk)}}).Disks[0]
		}},
	} {
		empty := c.form(c.object)
		v := reflect.ValueOf(c.object).Elem()
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if slices.Contains(left, name) {
				continue
			}
			filled := reflect.New(v.Type())
			fillIn(filled.Elem().Field(i))
			if reflect.DeepEqual(c.form(filled.Interface()), empty) {
				b.Errorf("field %s of %s is not in the catalogue", name, strings.TrimPrefix(v.Type().String(), "seedbed."))
			}
		}
	}
}

// fillIn sets a field to a value other than the zero value.
func fillIn(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7_000_000)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	}
}
