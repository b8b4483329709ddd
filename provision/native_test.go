package provision

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/feedtest"
	"seedbed/provision/intake"
)

const templateHead = "## template: seedbed\n"

func defaultOf(s string) *seedbed.ParamText { t := seedbed.ParamText(s); return &t }

// sized returns a profile whose size, image name and documents depend on parameters.
func sized() seedbed.Profile {
	return seedbed.Profile{
		Name: "sized", Network: "default", Ready: seedbed.ReadyStarted,
		UserData: []byte(templateHead +
			"${vm.name} ${param.role} ${param.key} $(param.gib * 10) ${param.room} ${profile.memory} ${has(param.motd) ? param.motd : \"none\"}\n"),
		Params: []seedbed.Param{
			{Name: "gib", Type: seedbed.ParamInt, Default: defaultOf("1")},
			{Name: "room", Type: seedbed.ParamSize, Default: defaultOf("$(${param.gib} * 2)GiB")},
			{Name: "os", Type: seedbed.ParamEnum, Values: []string{"debian", "alpine"}, Default: defaultOf("debian")},
			{Name: "role", Type: seedbed.ParamString, Pattern: "[a-z]+", Required: true, Description: "what it does"},
			{Name: "key", Type: seedbed.ParamSecret, Required: true},
			{Name: "motd", Type: seedbed.ParamString},
		},
		Expressions: map[string]string{"image": "${param.os}", "memory": "$(1024 * ${param.gib})MiB",
			"disk": "${param.room}", "vcpus": "$(profile.memory / 1073741824)"},
	}
}

func TestNativeParams(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.ok(l.intake.CheckProfile(t.Context(), l.db, sized()))
	_, err := l.db.CreateProfile(t.Context(), sized())
	l.ok(err)
	create := func(name string, params map[string]any) (seedbed.Instance, error) {
		receipt, err := l.intake.Submit(t.Context(), seedbed.Request{Action: "create", Name: name, Profile: "sized", Params: params}, nil)
		if err != nil {
			return seedbed.Instance{}, err
		}
		job, err := l.db.Job(t.Context(), receipt.Job)
		l.ok(err)
		if strings.Contains(string(job.Spec), "hunter22") || strings.Contains(l.history(job.ID), "hunter22") {
			t.Errorf("the job tells the secret: %s\n%s", job.Spec, l.history(job.ID))
		}
		return l.db.InstanceByName(t.Context(), seedbed.InDefault(name))
	}
	for _, tt := range []struct {
		name   string
		params map[string]any
		vcpus  int
		memory seedbed.Bytes
		disk   seedbed.Bytes
		data   string
	}{
		{"a1", map[string]any{"role": "db", "key": "hunter22"}, 1, seedbed.GiB, 2 * seedbed.GiB,
			"a1 db hunter22 10 2147483648 1073741824 none\n"},
		{"a2", map[string]any{"role": "db", "key": "hunter22", "gib": "4", "motd": "hi ${x}"}, 4,
			4 * seedbed.GiB, 8 * seedbed.GiB, "a2 db hunter22 40 8589934592 4294967296 hi ${x}\n"},
		{"a3", map[string]any{"role": "db", "key": "hunter22", "gib": 3.0, "disk": "9GiB", "memory": "2GiB"}, 2,
			2 * seedbed.GiB, 9 * seedbed.GiB, "a3 db hunter22 30 6442450944 2147483648 none\n"},
		{"a4", map[string]any{"role": "db", "key": "hunter22", "vcpus": 7}, 7, seedbed.GiB,
			2 * seedbed.GiB, "a4 db hunter22 10 2147483648 1073741824 none\n"},
	} {
		i, err := create(tt.name, tt.params)
		l.ok(err)
		got := []any{i.VCPUs, i.Memory, i.Volumes[0].Size, string(i.UserData), i.Image}
		if d := cmp.Diff([]any{tt.vcpus, tt.memory, tt.disk, tt.data, "debian"}, got); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
	for name, tt := range map[string]struct {
		params map[string]any
		want   string
	}{
		"missing":      {map[string]any{"key": "x"}, "param role (what it does) is missing, and the profile requires it"},
		"pattern":      {map[string]any{"key": "x", "role": "D B"}, "expected text that matches [a-z]+"},
		"no int":       {map[string]any{"key": "x", "role": "db", "gib": "many"}, `param gib: "many" is not usable: expected a whole number`},
		"fraction":     {map[string]any{"key": "x", "role": "db", "gib": 1.5}, "param gib is a number that does not fit"},
		"no value":     {map[string]any{"key": "x", "role": "db", "os": "plan9"}, "expected one of debian, alpine"},
		"wrong type":   {map[string]any{"key": 12, "role": "db"}, "param key is a number that does not fit: expected a secret"},
		"unknown":      {map[string]any{"key": "x", "role": "db", "rol": "x"}, `param "rol" is unknown: the profile declares gib (int)`},
		"no image":     {map[string]any{"key": "x", "role": "db", "os": "alpine"}, "image alpine, which does not exist"},
		"out of range": {map[string]any{"key": "x", "role": "db", "gib": 100000}, "vcpus is out of range: expected 1 to 255"},
		"overflow":     {map[string]any{"key": "x", "role": "db", "gib": "9223372036854775807"}, "overflow"},
		"contradicts":  {map[string]any{"key": "x", "role": "db", "userdata": "live", "user_data": "x"}, "contradict each other"},
	} {
		if _, err := create("b1", tt.params); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v; want one that says %q", name, err, tt.want)
		}
	}
}

func TestCheckProfileParams(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	for name, tt := range map[string]struct {
		change func(*seedbed.Profile)
		want   string
	}{
		"as it is": {func(*seedbed.Profile) {}, ""},
		"unknown param in a document": {func(p *seedbed.Profile) { p.UserData = []byte(templateHead + "a\n ${param.rol}") },
			"user_data line 3, column 2: ${param.rol} reads param.rol, which is unknown"},
		"wrong type in a document": {
			func(p *seedbed.Profile) { p.UserData = []byte(templateHead + "$(param.role + 1)") }, "user_data line 2, column 1",
		},
		"unknown param in a field": {func(p *seedbed.Profile) { p.Expressions["memory"] = "1${param.nope}GiB" },
			"memory line 1, column 2: ${param.nope} reads param.nope"},
		"unknown section": {
			func(p *seedbed.Profile) { p.Expressions["memory"] = "${cluster.memory}" }, "reads cluster.memory, which is unknown",
		},
		"what only an instance has": {func(p *seedbed.Profile) { p.Expressions["image"] = "${vm.ip}" }, "reads vm.ip, which is unknown"},
		"string for a number": {func(p *seedbed.Profile) { p.Expressions["vcpus"] = "${param.role}" },
			"vcpus line 1, column 1: ${param.role} gives a string: expected a whole number"},
		"bool for a size": {
			func(p *seedbed.Profile) { p.Expressions["memory"] = "${param.gib > 2}" }, "gives true or false: expected a whole number",
		},
		"unknown field":            {func(p *seedbed.Profile) { p.Expressions["nodes"] = "x" }, `"nodes", which is not a field`},
		"default of another type":  {func(p *seedbed.Profile) { p.Params[0].Default = defaultOf("few") }, `param gib: "few" is not usable`},
		"default that is no value": {func(p *seedbed.Profile) { p.Params[2].Default = defaultOf("plan9") }, "expected one of debian, alpine"},
		"param that needs itself": {func(p *seedbed.Profile) { p.Params[0].Default = defaultOf("$(param.gib + 1)") },
			"param.gib line 1, column 1 needs itself: param.gib → param.gib"},
		"cycle of params": {func(p *seedbed.Profile) { p.Params[0].Default = defaultOf("$(param.room / 2)") },
			"needs itself: param.gib → param.room → param.gib"},
		"cycle of fields": {func(p *seedbed.Profile) { p.Expressions["memory"] = "$(profile.vcpus * 1024)MiB" },
			"memory line 1, column 1 needs itself: profile.memory → profile.vcpus → profile.memory"},
		"cycle through a template": {func(p *seedbed.Profile) { p.Expressions["system_template"] = "${system.name}" }, "needs itself"},
		"secret in a field": {
			func(p *seedbed.Profile) { p.Expressions["image"] = "${param.key}" }, "image line 1, column 1: it reads the secret param.key",
		},
		"name of a common param": {func(p *seedbed.Profile) { p.Params[0].Name = "vcpus" }, "every profile already has a param of that name"},
		"out of range": {
			func(p *seedbed.Profile) { p.Expressions["memory"] = "$(param.gib)MiB" }, "memory is 1MiB: expected 64MiB to 64TiB",
		},
		"division by zero": {func(p *seedbed.Profile) { p.Expressions["memory"] = "$(1 / (param.gib - 1))" }, "division by zero"},
		"no such template": {func(p *seedbed.Profile) { p.System = "none" }, `the system template "none" for profile "sized" does not exist`},
		"named by a param": {func(p *seedbed.Profile) { p.Expressions["system_template"] = "s-${param.os}" },
			`the system template "s-debian" for profile "sized" does not exist`},
	} {
		p := sized()
		tt.change(&p)
		err := l.intake.CheckProfile(t.Context(), l.db, p)
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v; want one that says %q", name, err, tt.want)
		}
	}
}

// TestNativeTemplates checks that a native profile that only has templates makes an instance with
// several NICs and disks.
func TestNativeTemplates(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProvisioner()
	ctx := t.Context()
	p := seedbed.Profile{
		Name: "multi", System: "small", NetworkTemplate: "lan", Storage: "root", Ready: seedbed.ReadyStarted, Protected: true,
		Params: []seedbed.Param{{Name: "big", Type: seedbed.ParamBool, Default: defaultOf("false")}},
	}
	l.ok(l.intake.CheckProfile(ctx, l.db, p))
	_, err := l.db.CreateProfile(ctx, p)
	l.ok(err)
	submit := func(req seedbed.Request) (seedbed.Receipt, error) { return l.intake.Submit(ctx, req, nil) }
	receipt, err := submit(seedbed.Request{Action: seedbed.DoCreate, Name: "web3", Profile: "multi"})
	l.ok(err)
	l.runUntil(receipt.Job, seedbed.JobSucceeded)
	inst, err := l.db.InstanceByName(ctx, seedbed.InDefault("web3"))
	l.ok(err)
	spec, _ := l.hv.Spec(inst.ID)
	if len(spec.NICs) != 2 || spec.NICs[0].MAC.String() != "52:54:01:00:30:00" ||
		spec.NICs[1].MAC.String() != "52:54:01:00:30:10" || len(spec.Disks) != 2 || spec.System == nil {
		t.Errorf("domain %+v", spec)
	}
	if inst.VCPUs != 2 || inst.Memory != 512*seedbed.MiB || inst.Image != "debian" || !inst.Protected || len(inst.Volumes) != 2 {
		t.Errorf("made %+v", inst)
	}
	if _, err := submit(seedbed.Request{Action: seedbed.DoRemove, Name: "web3"}); !errors.Is(err, seedbed.ErrConflict) ||
		!strings.Contains(err.Error(), "confirm=web3") {
		t.Errorf("removed unconfirmed: %v", err)
	}
	if _, err := submit(seedbed.Request{Action: seedbed.DoRebuild, Name: "web3"}); !errors.Is(err, seedbed.ErrConflict) ||
		!strings.Contains(err.Error(), "protected") {
		t.Errorf("rebuilt unconfirmed: %v", err)
	}
	// The profile's own values override the templates, and a request overrides both.
	own := p
	own.Name, own.Image, own.VCPUs, own.Network, own.Hold = "own", "debian", 3, "default", true
	own.Expressions = map[string]string{"memory": "${param.big ? system.memory * 4 : system.memory * 2}", "disk": "$(storage.size * 4)"}
	l.ok(l.intake.CheckProfile(ctx, l.db, own))
	_, err = l.db.CreateProfile(ctx, own)
	l.ok(err)
	receipt, err = submit(seedbed.Request{
		Action: seedbed.DoCreate, Name: "web4", Profile: "own", Params: map[string]any{"big": true, "vcpus": 1, "protected": false},
	})
	l.ok(err)
	l.runUntil(receipt.Job, seedbed.JobSucceeded)
	inst, err = l.db.InstanceByName(ctx, seedbed.InDefault("web4"))
	l.ok(err)
	if inst.VCPUs != 1 || inst.Memory != 2*seedbed.GiB || len(inst.NICs) != 3 ||
		inst.NICs[0].Network != "default" || len(inst.Volumes) != 3 || inst.Volumes[0].Size != 4*seedbed.GiB ||
		!inst.Held || inst.State != seedbed.InstanceStopped || inst.Protected {
		t.Errorf("made %+v", inst)
	}
	plan, err := l.intake.Plan(ctx, seedbed.Request{Action: seedbed.DoPlan, Name: "web5", Profile: "own"})
	l.ok(err)
	if len(plan.Problems) != 0 || len(plan.Volumes) != 3 || len(plan.NICs) != 3 {
		t.Errorf("planned %+v", plan)
	}
	larger := seedbed.ResizeRequest{Disk: "1", Size: 6 * seedbed.GiB}
	l.runUntil(l.job(l.intake.Resize(ctx, seedbed.InDefault("web4"), larger, usual)), seedbed.JobSucceeded)
	receipt, err = submit(seedbed.Request{Action: seedbed.DoRebuild, Name: "web4", Params: map[string]any{"force": true}})
	l.ok(err)
	l.runUntil(receipt.Job, seedbed.JobSucceeded)
	again, err := l.db.InstanceByName(ctx, seedbed.InDefault("web4"))
	l.ok(err)
	if again.Memory != inst.Memory || len(again.Volumes) != 3 ||
		again.Volumes[1].Name == inst.Volumes[1].Name || again.Params["big"] != true ||
		again.Volumes[0].Size != 4*seedbed.GiB || again.Volumes[1].Size != 6*seedbed.GiB || again.Volumes[2].Size != inst.Volumes[2].Size {
		t.Errorf("rebuilt %+v", again)
	}
}

// both returns params overridden by others.
func both(params, others map[string]any) map[string]any {
	all := map[string]any{}
	maps.Copy(all, params)
	maps.Copy(all, others)
	return all
}

// TestFollower checks that user-data that follows its profile is served again after a change, and
// that a change that cannot be applied leaves it as it was.
func TestFollower(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	f := intake.NewFollower(l.db, l.intake, l.db.Revised, slog.New(slog.DiscardHandler))
	once := func() int {
		t.Helper()
		n, err := f.Once(ctx)
		l.ok(err)
		return n
	}
	p := sized()
	p.Follow = seedbed.FollowLive
	_, err := l.db.CreateProfile(ctx, p)
	l.ok(err)
	params := map[string]any{"role": "db", "key": "hunter22"}
	create := func(name string, more map[string]any) {
		receipt, err := l.intake.Submit(ctx,
			seedbed.Request{Action: seedbed.DoCreate, Name: name, Profile: "sized", Params: both(params, more)}, nil)
		l.ok(err)
		l.runUntil(receipt.Job, seedbed.JobSucceeded)
	}
	create("web1", nil)
	create("web2", map[string]any{"userdata": "pinned"})
	create("web3", map[string]any{"user_data": "mine"})
	data := func(name string) string {
		i, err := l.db.InstanceByName(ctx, seedbed.InDefault(name))
		l.ok(err)
		return string(i.UserData)
	}
	pinned, mine := data("web2"), data("web3")
	change := func(change func(*seedbed.Profile)) {
		t.Helper()
		_, err := l.db.ChangeProfile(ctx, "sized", func(p *seedbed.Profile) error { change(p); return nil })
		l.ok(err)
	}
	if n := once(); n != 0 {
		t.Errorf("%d were due at first", n)
	}
	change(func(p *seedbed.Profile) {
		p.UserData = []byte(templateHead + "second ${vm.name} ${param.role} ${param.key}")
	})
	if n := once(); n != 1 || data("web1") != "second web1 db hunter22" || data("web2") != pinned || data("web3") != mine {
		t.Errorf("%d: %q, %q, %q", n, data("web1"), data("web2"), data("web3"))
	}
	page, err := l.db.FeedPage(ctx, testNode, 0, "")
	l.ok(err)
	served := 0
	for _, c := range feedtest.Changes(t, page) {
		if c.Guest == nil || c.Guest.Name != "web1" {
			continue
		}
		served++
		if blob, err := l.db.Blob(ctx, c.Guest.UserData.SHA256); err != nil || string(blob) != "second web1 db hunter22" {
			t.Errorf("served %q, %v", blob, err)
		}
	}
	if served != 1 {
		t.Errorf("served %d times", served)
	}
	// The parameters do not suit this version.
	change(func(p *seedbed.Profile) { p.UserData = []byte(templateHead + "third ${param.motd}") })
	if n := once(); n != 1 || data("web1") != "second web1 db hunter22" {
		t.Errorf("%d: %q", n, data("web1"))
	}
	if n := once(); n != 0 {
		t.Errorf("%d are due for ever", n)
	}
	change(func(p *seedbed.Profile) { p.UserData = []byte("plain") })
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- f.Run(running) }()
	l.eventually("served anew", func() bool { return data("web1") == "plain" })
	stop()
	l.ok(<-ended)
}

// TestComposedParams checks that the user-data of a profile with a script follows its document, and
// that its script's arguments hold expressions if it declares parameters.
func TestComposedParams(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProvisioner()
	ctx := t.Context()
	set := func(change func(*seedbed.Profile) error) {
		t.Helper()
		p, err := l.db.ScriptedProfiles(ctx, seedbed.ExactName("web"))
		l.ok(err)
		l.ok(change(&p[0]))
		l.ok(l.intake.CheckProfile(ctx, l.db, p[0]))
		_, err = l.db.ChangeProfile(ctx, "web", change)
		l.ok(err)
	}
	_, err := l.db.CreateUserData(ctx, "doc", templateHead+"${vm.name} is ${param.role}")
	l.ok(err)
	set(func(p *seedbed.Profile) error {
		p.Document, p.Arguments = "doc", []string{"host=${vm.name}", "role=${param.role}", "half=$(system.memory / 2)", "shell=$${HOME}"}
		p.Params = []seedbed.Param{{Name: "role", Type: seedbed.ParamEnum, Values: []string{"db", "web"}, Default: defaultOf("web")}}
		return nil
	})
	profile, err := l.db.Profile(ctx, "web")
	l.ok(err)
	receipt, err := l.asPVC(ctx, seedbed.Request{Name: "web3", Profile: "web", Params: map[string]any{"role": "db"}})
	l.ok(err)
	l.runUntil(receipt.Job, seedbed.JobSucceeded)
	inst, err := l.db.InstanceByName(ctx, seedbed.InDefault("web3"))
	l.ok(err)
	if string(inst.UserData) != "web3 is db" || inst.Follow != seedbed.FollowLive {
		t.Errorf("made %+v with %q", inst, inst.UserData)
	}
	l.setUserData("doc", templateHead+"now ${vm.name} is ${param.role}")
	for data, want := range map[string]string{
		templateHead + "a\n${param.rule}": "for profile web: userdata doc line 3, column 1: ${param.rule} reads param.rule",
		templateHead + "${HOME}":          "userdata doc line 2, column 1: ${HOME} reads HOME",
		"${HOME} is no template":          "", templateHead + "${param.role}": "",
	} {
		err := l.intake.CheckDocument(ctx, "doc", data)
		if want == "" && err != nil || want != "" && (!errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v; want one that says %q", data, err, want)
		}
	}
	n, err := intake.NewFollower(l.db, l.intake, l.db.Revised, slog.New(slog.DiscardHandler)).Once(ctx)
	l.ok(err)
	if inst, err = l.db.InstanceByName(ctx, seedbed.InDefault("web3")); err != nil || n != 1 || string(inst.UserData) != "now web3 is db" {
		t.Errorf("%d, %q, %v", n, inst.UserData, err)
	}
	for name, tt := range map[string]struct {
		params map[string]any
		want   string
	}{
		"unknown": {map[string]any{"rol": "db"}, "the profile declares role (enum)"},
		"value":   {map[string]any{"role": "x"}, "expected one of db, web"},
	} {
		_, err := l.asPVC(ctx, seedbed.Request{Name: "web4", Profile: "web", Params: tt.params, Off: true})
		if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v; want one that says %q", name, err, tt.want)
		}
	}
	for argument, want := range map[string]string{
		"a=${param.none}": "script argument a line 1, column 1: ${param.none} reads param.none",
		"b=x$(vm.name)":   "script argument b line 1, column 2", "c=${vm.ip}": "reads vm.ip",
	} {
		p := profile
		p.Arguments = []string{argument}
		if err := l.intake.CheckProfile(ctx, l.db, p); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v; want one that says %q", argument, err, want)
		}
	}
}
