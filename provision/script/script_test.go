package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

const instance = seedbed.InstanceID("ec200000-0000-4000-8000-000000000001")

var call = seedbed.Call{Job: "11111111-1111-4111-8111-111111111111", Epoch: 3, Stage: "setup"}

var begin = seedbed.ScriptTurn{Start: &seedbed.ScriptStart{
	Instance: instance, Name: "web3", Profile: "web", Number: "3", Text: "print(1)", Data: json.RawMessage(`{"a":"b"}`),
	Options: seedbed.ScriptOptions{Network: true, ScriptLimits: seedbed.ScriptLimits{Time: time.Minute, Memory: 2 * seedbed.GiB}},
}}

func step(name string) seedbed.ScriptTurn { return seedbed.ScriptTurn{Step: name} }

func TestSession(t *testing.T) {
	t.Parallel()
	began := make(chan map[string]any, 1)
	b := newBench(t, func(r *runner) {
		began <- r.hear()
		r.output("stdout", []byte("hello \xff"))
		r.say(`{"op":"ready","kind":"class"}`)
		r.hear()
		r.say(`{"op":"log","level":"warn","msg":"two\nlines"}`)
		r.say(`{"op":"call","id":1,"name":"add_volume","args":{"pool":"default","name":"web3_sda","size":"1G"}}`)
		if a := r.hear(); a["ok"] != true || a["message"] != "made" || a["id"] != float64(1) {
			r.say(`{"op":"failed","step":"setup","message":"the answer"}`)
			return
		}
		r.say(`{"op":"call","id":2,"name":"map_volume","args":{"pool":"default","name":"web3_sda"}}`)
		a := r.hear()
		r.say(fmt.Sprintf(`{"op":"done","step":"setup","xml":%q}`, a["message"]))
		r.hear()
		r.say(`{"op":"call","id":3,"name":"unmap_volume","args":{"pool":"default","name":"web3_sda"}}`)
		a = r.hear()
		r.say(fmt.Sprintf(`{"op":"done","step":"cleanup","xml":%q}`, a["message"]))
		r.hear()
	})
	result, lines := b.must(begin)
	if result.Kind != "class" {
		t.Errorf("began as %+v", result)
	}
	if d := cmp.Diff([]seedbed.OutputLine{{Stream: "stdout", Text: "hello �"}}, lines); d != "" {
		t.Errorf("output (-want +got):\n%s", d)
	}
	want := map[string]any{
		"op": "begin", "script": "/run/seedbed/script.py", "vm_name": "web3",
		"vm_id": float64(3), "vm_uuid": string(instance), "vm_profile": "web",
		"vm_data": map[string]any{"a": "b"}, "temporary_directory": "/tmp/target",
	}
	if d := cmp.Diff(want, <-began); d != "" {
		t.Errorf("begin (-want +got):\n%s", d)
	}
	spec := b.specs[0]
	if spec.ID != string(call.Job) || !spec.Network || spec.Privileged || spec.Limits.Time != time.Minute ||
		spec.Limits.Memory != seedbed.GiB ||
		string(spec.Files["script.py"]) != "print(1)" ||
		spec.Files["runner.py"] == nil {
		t.Errorf("sandbox %+v", spec.Limits)
	}
	result, lines = b.must(step("setup"))
	if d := cmp.Diff(&seedbed.ScriptCall{ID: 1, Name: "add_volume", Pool: "default", Volume: "web3_sda", Size: "1G"}, result.Call); d != "" {
		t.Errorf("call (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]seedbed.OutputLine{{Stream: "warn", Text: "two"}, {Stream: "warn", Text: "lines"}}, lines); d != "" {
		t.Errorf("log (-want +got):\n%s", d)
	}
	result, _ = b.must(seedbed.ScriptTurn{Answer: &seedbed.ScriptAnswer{ID: 1, OK: true, Message: "made"}})
	if result.XML != "/dev/rbd/default/web3_sda" || b.boxes[0].devices[result.XML] != "/dev/loop7" {
		t.Errorf("mapped as %+v, %v", result, b.boxes[0].devices)
	}
	b.boxes[0].busy = true
	result, _ = b.must(step("cleanup"))
	if !strings.HasPrefix(result.XML, "ERROR: ") || len(b.m.MappedVolumes(instance)) != 1 {
		t.Errorf("a mounted volume is unmapped: %+v", result)
	}
	if err := b.CloseScript(t.Context(), call.Job, instance); err != nil {
		t.Error(err)
	}
	if len(b.m.MappedVolumes(instance)) != 0 || b.boxes[0].ends() != 1 {
		t.Errorf("closed, still mapped: %v", b.m.mapped)
	}
	if _, _, err := b.run(step("cleanup")); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("a turn after the end: %v", err)
	}
}

// A volume that the script sees no more, and that could not be unmapped, is shown
// again when it asks for that; and what it logs has a bound.
// TestPrivilegedNeedsConsent checks that a host runs a privileged script only if it consents,
// whatever the caller asks for.
func TestPrivilegedNeedsConsent(t *testing.T) {
	t.Parallel()
	start := *begin.Start
	start.Options.Privileged = true
	turn := seedbed.ScriptTurn{Start: &start}
	b := newBench(t, func(r *runner) {
		r.hear()
		r.say(`{"op":"ready","kind":"class"}`)
		r.hear()
	})
	b.cfg.Node = "hv1"
	_, _, err := b.run(turn)
	if !errors.Is(err, seedbed.ErrForbidden) || len(b.specs) != 0 {
		t.Fatalf("without consent: %v, and %d sandboxes; want ErrForbidden and none", err, len(b.specs))
	}
	for _, said := range []string{"hv1", "scripts.privileged: true", "--privileged=false"} {
		if !strings.Contains(err.Error(), said) {
			t.Errorf("the refusal does not say %q: %v", said, err)
		}
	}
	b.cfg.Privileged = true
	b.must(turn)
	if len(b.specs) != 1 || !b.specs[0].Privileged {
		t.Errorf("with consent: sandboxes %+v, want one that is privileged", b.specs)
	}
}

func TestSessionMapsAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(r *runner) {
		r.hear()
		r.say(`{"op":"ready","kind":"class"}`)
		r.hear()
		for n, name := range []string{"map_volume", "unmap_volume", "map_volume"} {
			r.say(fmt.Sprintf(`{"op":"call","id":%d,"name":%q,"args":{"pool":"default","name":"web3_sda"}}`, n+1, name))
			if a := r.hear(); a["ok"] != (name == "map_volume") {
				r.say(fmt.Sprintf(`{"op":"failed","step":"setup","message":"call %d"}`, n+1))
				return
			}
		}
		for range 3 {
			r.say(`{"op":"log","level":"info","msg":"` + strings.Repeat("x", 400<<10) + `"}`)
		}
		r.say(`{"op":"done","step":"setup"}`)
		r.hear()
	})
	b.m.stuck = true
	b.must(begin)
	result, lines := b.must(step("setup"))
	if result.Failure != nil || len(b.boxes[0].devices) != 1 {
		t.Errorf("%+v, devices %v", result.Failure, b.boxes[0].devices)
	}
	last := lines[len(lines)-1]
	if len(lines) != 3 || last.Stream != "warn" || !strings.Contains(last.Text, "left out") {
		t.Errorf("%d lines, the last %.80q", len(lines), last.Text)
	}
	b.m.stuck = false
}

// With a suffix the volumes are others in their pool, and the script knows nothing of it.
func TestSessionSuffix(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(r *runner) {
		r.hear()
		r.say(`{"op":"ready","kind":"class"}`)
		r.hear()
		var told []string
		for i, name := range []string{"map_volume", "unmap_volume", "unmap_volume"} {
			r.say(fmt.Sprintf(`{"op":"call","id":%d,"name":%q,"args":{"pool":"default","name":"web3_sda"}}`, i+1, name))
			told = append(told, r.hear()["message"].(string))
			if i == 0 {
				r.say(`{"op":"done","step":"setup"}`)
				r.hear()
			}
		}
		r.say(fmt.Sprintf(`{"op":"done","step":"create","xml":%q}`, strings.Join(told, "; ")))
		r.hear()
	})
	start := *begin.Start
	start.Suffix = "-0193c7f2"
	b.must(seedbed.ScriptTurn{Start: &start})
	b.must(step("setup"))
	if names := b.m.MappedVolumes(instance); !slices.Equal(names, []string{"web3_sda-0193c7f2"}) ||
		b.boxes[0].devices["/dev/rbd/default/web3_sda"] == "" {
		t.Errorf("mapped is %v, inside %v", names, b.boxes[0].devices)
	}
	result, _ := b.must(step("create"))
	want := `/dev/rbd/default/web3_sda; Unmapped RBD volume "web3_sda" in pool "default".; ` +
		`ERROR: Volume "web3_sda" in pool "default" is not mapped.`
	if result.XML != want || len(b.m.MappedVolumes(instance)) != 0 {
		t.Errorf("the script hears %q, mapped is %v", result.XML, b.m.MappedVolumes(instance))
	}
}

// An image is shown by the volume that the engine names for it, under its own name.
func TestSessionImage(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(r *runner) {
		r.hear()
		r.say(`{"op":"ready","kind":"class"}`)
		for i, name := range []string{"map_volume", "map_volume", "unmap_volume", "unmap_volume"} {
			r.hear()
			r.say(fmt.Sprintf(`{"op":"call","id":%d,"name":%q,"args":{"pool":"default","name":"ova_app_sda"}}`, i+1, name))
			a := r.hear()
			r.say(fmt.Sprintf(`{"op":"done","step":"setup","xml":"%v %s"}`, a["ok"], strings.ReplaceAll(a["message"].(string), `"`, `'`)))
		}
		r.hear()
	})
	b.m.images = []string{"ova_app_sda"}
	answer := func(a seedbed.ScriptAnswer) string {
		t.Helper()
		result, _ := b.must(seedbed.ScriptTurn{Answer: &a})
		return result.XML
	}
	b.must(begin)
	for _, test := range []struct {
		answer seedbed.ScriptAnswer
		want   string
		mapped []string
	}{
		{seedbed.ScriptAnswer{ID: 1, Message: "ERROR: there is none"}, "false ERROR: there is none", nil},
		{seedbed.ScriptAnswer{ID: 2, OK: true, Message: "hidden"}, "true /dev/rbd/default/ova_app_sda", []string{"hidden"}},
	} {
		result, _ := b.must(step("setup"))
		if d := cmp.Diff(&seedbed.ScriptCall{ID: test.answer.ID, Name: "map_volume", Pool: "default", Volume: "ova_app_sda"},
			result.Call); d != "" {
			t.Fatalf("call (-want +got):\n%s", d)
		}
		if got := answer(test.answer); got != test.want || !slices.Equal(b.m.MappedVolumes(instance), test.mapped) {
			t.Errorf("the script hears %q, mapped is %v; want %q, %v", got, b.m.MappedVolumes(instance), test.want, test.mapped)
		}
	}
	for _, want := range []string{"true Unmapped", "false ERROR: Volume 'ova_app_sda' in pool 'default' is not mapped"} {
		result, _ := b.must(step("setup"))
		if !strings.HasPrefix(result.XML, want) || len(b.m.MappedVolumes(instance)) != 0 || len(b.boxes[0].devices) != 0 {
			t.Errorf("unmapped: %q, mapped is %v, inside %v; want %q", result.XML, b.m.MappedVolumes(instance), b.boxes[0].devices, want)
		}
	}
}

// A process that breaks the rules, or ends, is the script's failure, and no turn follows.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		play func(*runner)
		want string
	}{
		"gone":         {func(*runner) {}, "its process ended"},
		"killed":       {func(r *runner) { r.box.err = errors.New("killed after 1m") }, "killed after 1m"},
		"no message":   {func(r *runner) { r.say("hello") }, "an invalid message"},
		"unknown":      {func(r *runner) { r.say(`{"op":"answer"}`) }, `the message "answer"`},
		"no arguments": {func(r *runner) { r.say(`{"op":"call","id":1,"name":"map_volume"}`) }, "without arguments"},
		"too long":     {func(r *runner) { r.say(strings.Repeat("x", maxLine+1)) }, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(r *runner) {
				r.hear()
				r.say(`{"op":"ready","kind":"class"}`)
				r.hear()
				test.play(r)
			})
			b.must(begin)
			result, _ := b.must(step("setup"))
			if f := result.Failure; f == nil || !f.Ended || f.Step != "setup" || !strings.Contains(f.Message, test.want) {
				t.Errorf("got %+v; want %q", f, test.want)
			}
		})
	}
}

// A turn that is cut off ends the session with all that it has.
func TestSessionCutOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(r *runner) {
		r.hear()
		r.say(`{"op":"ready","kind":"class"}`)
		r.hear()
		r.say(`{"op":"call","id":1,"name":"map_volume","args":{"pool":"default","name":"web3_sda"}}`)
		r.hear()
		r.say(`{"op":"log","level":"info","msg":"mapped"}`)
		r.hear()
	})
	b.must(begin)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := b.RunScript(ctx, call, step("setup"), func(seedbed.OutputLine) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cut off: %v", err)
	}
	if err := b.CloseScript(t.Context(), call.Job, instance); err != nil {
		t.Error(err)
	}
	if len(b.m.MappedVolumes(instance)) != 0 || b.boxes[0].ends() == 0 {
		t.Errorf("still mapped: %v", b.m.mapped)
	}
}

// The newest holder of a job has the one session of it.
func TestSessionReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(r *runner) {
		r.hear()
		r.say(`{"op":"ready","kind":"function"}`)
		r.hear()
	})
	b.must(begin)
	newer := call
	newer.Epoch++
	if _, err := b.RunScript(t.Context(), newer, step("setup"), nil); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("another epoch goes on: %v", err)
	}
	if _, err := b.RunScript(t.Context(), newer, begin, nil); err != nil {
		t.Error(err)
	}
	if b.boxes[0].ends() == 0 || b.boxes[1].ends() != 0 {
		t.Errorf("closed %d and %d times", b.boxes[0].ends(), b.boxes[1].ends())
	}
	if _, _, err := b.run(step("setup")); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("the former epoch goes on: %v", err)
	}
}

// A session whose engine does not come back ends by itself.
func TestSessionIdle(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(r *runner) {
		r.hear()
		r.say(`{"op":"ready","kind":"class"}`)
		r.hear()
	})
	b.cfg.Idle = 10 * time.Millisecond
	b.must(begin)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := b.find(call); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it lives on")
		}
	}
}

// Turns that cannot come next are refused.
func TestSessionOutOfTurn(t *testing.T) {
	t.Parallel()
	calls := func(r *runner) {
		r.hear()
		r.say(`{"op":"ready","kind":"class"}`)
		r.hear()
		r.say(`{"op":"call","id":9,"name":"add_volume","args":{"pool":"p","name":"n","size":"1"}}`)
		r.hear()
	}
	for name, turn := range map[string]seedbed.ScriptTurn{
		"a step before the answer": step("create"),
		"another's answer":         {Answer: &seedbed.ScriptAnswer{ID: 8}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, calls)
			b.must(begin)
			b.must(step("setup"))
			if _, _, err := b.run(turn); !errors.Is(err, seedbed.ErrInvalid) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	got := New(Config{}).Tools([]string{"sh", "mkfs.of-nowhere", "../bin/sh", ""})
	if !slices.Equal(got, []string{"mkfs.of-nowhere", "../bin/sh", ""}) {
		t.Errorf("missing %v", got)
	}
}

func FuzzMessage(f *testing.F) {
	for _, s := range []string{`{"op":"ready","kind":"class"}`, `{"op":"call","id":1,"name":"x","args":{}}`, `{"op":1}`, `[]`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := parseMessage(line)
		if err == nil && (m.Op == "" || m.Op == "call" && m.Args == nil) {
			t.Errorf("%q is %+v", line, m)
		}
	})
}
