package api_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"seedbed"
	"seedbed/store"
)

// TestIfMatch checks that a change with an outdated If-Match is refused.
func TestIfMatch(t *testing.T) {
	t.Parallel()
	s := composable(t)
	s.runVM(t, "web1")
	if r := s.do(t, "POST", "/api/v1/profiles", `{"name":"p","image":"debian","vcpus":1,"memory":"512MiB"}`); r.status != 201 {
		t.Fatalf("%+v", r)
	}
	if r := s.do(t, "POST", "/api/v1/hooks", `{"name":"ci","profiles":["p"]}`); r.status != 201 {
		t.Fatalf("%+v", r)
	}
	tag := func(path string) string {
		t.Helper()
		r := s.do(t, "GET", "/api/v1"+path, "")
		e := r.header.Get("ETag")
		if r.status != 200 || len(e) < 4 || e[0] != '"' || e[len(e)-1] != '"' {
			t.Fatalf("%s: %d with the ETag %s", path, r.status, e)
		}
		if again := s.do(t, "GET", "/api/v1"+path, "").header.Get("ETag"); again != e {
			t.Errorf("%s: ETag %s, and then %s", path, e, again)
		}
		return e
	}
	for path, change := range map[string]string{
		"/instances/web1":   `{"tags":{"a":"b"}}`,
		"/networks/default": `{"identity":"mac"}`,
		"/hooks/ci":         `{"rate":5}`,
	} {
		was := tag(path)
		r := s.do(t, "PATCH", "/api/v1"+path, change, "If-Match", `"x", `+was)
		if is := r.header.Get("ETag"); r.status != 200 || is == was || is != tag(path) {
			t.Errorf("%s: %d %s, ETag %s, before %s", path, r.status, r.body, is, was)
		}
		for _, stale := range []string{was, "W/" + tag(path), "none", `""`} {
			if r := s.do(t, "PATCH", "/api/v1"+path, change, "If-Match", stale); r.status != 412 || !strings.Contains(r.body, "read it again") ||
				!strings.Contains(r.body, `"kind":"conflict"`) {
				t.Errorf("%s with If-Match %s: %+v", path, stale, r)
			}
		}
		if r := s.do(t, "PATCH", "/api/v1"+path, change, "If-Match", "*"); r.status != 200 {
			t.Errorf("%s with If-Match *: %+v", path, r)
		}
	}
	for _, path := range []string{"/hooks/ci", "/profiles/p", "/instances/web1"} {
		if r := s.do(t, "DELETE", "/api/v1"+path, "", "If-Match", `"1-2"`); r.status != 412 {
			t.Errorf("DELETE %s: %+v", path, r)
		}
		want := 204
		if path == "/instances/web1" {
			want = 202
		}
		if r := s.do(t, "DELETE", "/api/v1"+path, "", "If-Match", tag(path)); r.status != want {
			t.Errorf("DELETE %s: %+v", path, r)
		}
	}
	if r := s.do(t, "DELETE", "/api/v1/profiles/p", "", "If-Match", `"1"`); r.status != 404 {
		t.Errorf("what is not there: %+v", r)
	}
}

// TestETagOfAnother checks that a later profile or instance of the same name has another tag.
func TestETagOfAnother(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.importImage(t, "debian")
	var tags []string
	for range 2 {
		if r := s.do(t, "POST", "/api/v1/profiles", `{"name":"p","image":"debian","vcpus":1,"memory":"512MiB"}`); r.status != 201 {
			t.Fatalf("%+v", r)
		}
		tags = append(tags, s.do(t, "GET", "/api/v1/profiles/p", "").header.Get("ETag"))
		if r := s.do(t, "POST", "/api/v1/instances", `{"name":"web1","profile":"p"}`); r.status != 202 {
			t.Fatalf("%+v", r)
		}
		tags = append(tags, s.do(t, "GET", "/api/v1/instances/web1", "").header.Get("ETag"))
		job := s.claim(t)
		if err := s.db.Undo(t.Context(), job.Ref(), "no"); err != nil {
			t.Fatal(err)
		}
		if err := s.db.Finish(t.Context(), job.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Error: "no", Drop: true}); err != nil {
			t.Fatal(err)
		}
		if r := s.do(t, "DELETE", "/api/v1/profiles/p", ""); r.status != 204 {
			t.Fatalf("%+v", r)
		}
	}
	if tags[0] == tags[2] || tags[1] == tags[3] {
		t.Errorf("ETags %v", tags)
	}
}

// interrupted is a store in which a second writer changes an object just before the change of a
// request.
type interrupted struct{ *store.DB }

// twice calls write for the second writer, who changes nothing but the revision, and then for the
// request.
func twice[T any](
	ctx context.Context, name string, write func(context.Context, string, func(*T) error) (T, error), change func(*T) error,
) (T, error) {
	if _, err := write(context.WithoutCancel(ctx), name, func(*T) error { return nil }); err != nil {
		return *new(T), errors.Join(errors.New("the second writer"), err)
	}
	return write(ctx, name, change)
}

func (i interrupted) ChangeProfile(ctx context.Context, n string, f func(*seedbed.Profile) error) (seedbed.Profile, error) {
	return twice(ctx, n, i.DB.ChangeProfile, f)
}

func (i interrupted) ChangeSystemTemplate(
	ctx context.Context, n string, f func(*seedbed.SystemTemplate) error,
) (seedbed.SystemTemplate, error) {
	return twice(ctx, n, i.DB.ChangeSystemTemplate, f)
}

func (i interrupted) ChangeNetworkTemplate(
	ctx context.Context, n string, f func(*seedbed.NetworkTemplate) error,
) (seedbed.NetworkTemplate, error) {
	return twice(ctx, n, i.DB.ChangeNetworkTemplate, f)
}

func (i interrupted) ChangeStorageTemplate(
	ctx context.Context, n string, f func(*seedbed.StorageTemplate) error,
) (seedbed.StorageTemplate, error) {
	return twice(ctx, n, i.DB.ChangeStorageTemplate, f)
}

func (i interrupted) ChangeUserData(
	ctx context.Context, n string, f func(*seedbed.UserDataDocument) error,
) (seedbed.UserDataDocument, error) {
	return twice(ctx, n, i.DB.ChangeUserData, f)
}

func (i interrupted) ChangeScript(ctx context.Context, n string, f func(*seedbed.Script) error) (seedbed.Script, error) {
	return twice(ctx, n, i.DB.ChangeScript, f)
}

func (i interrupted) ChangeScriptOptions(ctx context.Context, n string, f func(*seedbed.Script) error) (seedbed.Script, error) {
	return twice(ctx, n, i.DB.ChangeScriptOptions, f)
}

// TestIfMatchOfASecondWriter checks that a change is refused if another one came between the read
// that its If-Match is of and its own write.
func TestIfMatchOfASecondWriter(t *testing.T) {
	t.Parallel()
	s := composable(t)
	for path, body := range map[string]string{
		"/userdata": `{"name":"d","data":"#!x"}`, "/scripts": `{"name":"s","text":"x"}`,
		"/profiles": `{"name":"p","image":"debian","vcpus":1,"memory":"512MiB"}`,
		"/hooks":    `{"name":"h"}`, "/endpoints": `{"name":"e","url":"https://hooks.example/x","events":["*"]}`,
		"/tokens": `{"name":"t","role":"viewer"}`,
	} {
		if r := s.do(t, "POST", "/api/v1"+path, body); r.status != 201 {
			t.Fatalf("%+v", r)
		}
	}
	cfg := s.config()
	cfg.Store = interrupted{s.db}
	s.restart(t, cfg)
	for _, change := range []struct{ method, path, body, object string }{
		{"PUT", "/profiles/p", `{"name":"p","image":"debian","vcpus":2,"memory":"512MiB"}`, "/profiles/p"},
		{"PUT", "/templates/system/small", `{"name":"small","vcpus":2,"memory":"512MiB"}`, "/templates/system/small"},
		{"POST", "/templates/network/lan/vnis", `{"vni":"default","permit_duplicate":true}`, "/templates/network/lan"},
		{"DELETE", "/templates/network/lan/vnis/default", "", "/templates/network/lan"},
		{"POST", "/templates/storage/root/disks", `{"name":"sdb","pool":"default","size":"1GiB"}`, "/templates/storage/root"},
		{"DELETE", "/templates/storage/root/disks/sda", "", "/templates/storage/root"},
		{"PUT", "/userdata/d", `{"data":"#!y"}`, "/userdata/d"},
		{"PUT", "/scripts/s", `{"text":"y"}`, "/scripts/s"},
		{"PATCH", "/scripts/s/options", `{"network":true}`, "/scripts/s"},
		{"PATCH", "/hooks/h", `{"rate":50}`, "/hooks/h"},
		{"POST", "/hooks/h/rotate", `{"secret":"whsec_CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk="}`, "/hooks/h"},
		{"PATCH", "/endpoints/e", `{"insecure":true}`, "/endpoints/e"},
		{"POST", "/endpoints/e/rotate", `{}`, "/endpoints/e"},
		{"PUT", "/tokens/t/quota", `{"max_instances":2}`, "/tokens/t"},
	} {
		read := s.do(t, "GET", "/api/v1"+change.object, "")
		tag := read.header.Get("ETag")
		if r := s.do(t, change.method, "/api/v1"+change.path, change.body, "If-Match", tag); r.status != 412 {
			t.Errorf("%s %s after a second writer: %+v", change.method, change.path, r)
		}
		if is := s.do(t, "GET", "/api/v1"+change.object, "").header.Get("ETag"); is == tag {
			t.Errorf("%s has the ETag %s after a second writer too", change.object, is)
		}
		r := s.do(t, change.method, "/api/v1"+change.path, change.body)
		if r.status != 200 || r.header.Get("ETag") != s.do(t, "GET", "/api/v1"+change.object, "").header.Get("ETag") {
			t.Errorf("%s %s without If-Match: %+v", change.method, change.path, r)
		}
	}
}

// written deletes after a second writer has changed the object.
func written(ctx context.Context, name string, write func(context.Context, string) error, remove func() error) error {
	if err := write(context.WithoutCancel(ctx), name); err != nil {
		return errors.Join(errors.New("the second writer"), err)
	}
	return remove()
}

// touch returns a second writer, who changes nothing but the revision.
func touch[T any](change func(context.Context, string, func(*T) error) (T, error)) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		_, err := change(ctx, name, func(*T) error { return nil })
		return err
	}
}

func (i interrupted) DeleteProfile(ctx context.Context, n string, checks ...func(seedbed.Profile) error) error {
	return written(ctx, n, touch(i.DB.ChangeProfile), func() error { return i.DB.DeleteProfile(ctx, n, checks...) })
}

func (i interrupted) DeleteSystemTemplate(ctx context.Context, n string, checks ...func(seedbed.SystemTemplate) error) error {
	return written(ctx, n, touch(i.DB.ChangeSystemTemplate), func() error { return i.DB.DeleteSystemTemplate(ctx, n, checks...) })
}

func (i interrupted) DeleteNetworkTemplate(ctx context.Context, n string, checks ...func(seedbed.NetworkTemplate) error) error {
	remove := func() error { return i.DB.DeleteNetworkTemplate(ctx, n, checks...) }
	return written(ctx, n, touch(i.DB.ChangeNetworkTemplate), remove)
}

func (i interrupted) DeleteStorageTemplate(ctx context.Context, n string, checks ...func(seedbed.StorageTemplate) error) error {
	remove := func() error { return i.DB.DeleteStorageTemplate(ctx, n, checks...) }
	return written(ctx, n, touch(i.DB.ChangeStorageTemplate), remove)
}

func (i interrupted) DeleteUserData(ctx context.Context, n string, checks ...func(seedbed.UserDataDocument) error) error {
	return written(ctx, n, touch(i.DB.ChangeUserData), func() error { return i.DB.DeleteUserData(ctx, n, checks...) })
}

func (i interrupted) DeleteScript(ctx context.Context, n string, checks ...func(seedbed.Script) error) error {
	return written(ctx, n, touch(i.DB.ChangeScript), func() error { return i.DB.DeleteScript(ctx, n, checks...) })
}

// limit changes a hook, as a second writer.
func (i interrupted) limit(ctx context.Context, name string) error {
	h, err := i.DB.Hook(ctx, name)
	if err == nil {
		h.Rate++
		_, err = i.DB.UpdateHook(ctx, h)
	}
	return err
}

func (i interrupted) DeleteHook(ctx context.Context, n string, checks ...func(seedbed.Hook) error) error {
	return written(ctx, n, i.limit, func() error { return i.DB.DeleteHook(ctx, n, checks...) })
}

func (i interrupted) RemoveHookKey(
	ctx context.Context, n, id string, check func(was, left seedbed.Hook) error,
) (h seedbed.Hook, err error) {
	err = written(ctx, n, i.limit, func() error {
		h, err = i.DB.RemoveHookKey(ctx, n, id, check)
		return err
	})
	return h, err
}

func (i interrupted) RemoveNode(ctx context.Context, n string, checks ...func(seedbed.Node) error) error {
	move := func(ctx context.Context, name string) error {
		_, err := i.DB.ChangeNode(ctx, name, func(n *seedbed.Node) error {
			n.Worker = "https://hv9.example:7376"
			return nil
		})
		return err
	}
	return written(ctx, n, move, func() error { return i.DB.RemoveNode(ctx, n, checks...) })
}

// TestIfMatchOfADeletion checks that a deletion is refused if a change came between the read that
// its If-Match is of and the deletion.
func TestIfMatchOfADeletion(t *testing.T) {
	t.Parallel()
	s := composable(t)
	cfg := s.config()
	cfg.Store = interrupted{s.db}
	s.restart(t, cfg)
	for _, one := range []struct{ path, body, object, remove string }{
		{"/profiles", `{"name":"p","image":"debian","vcpus":1,"memory":"512MiB"}`, "/profiles/p", ""},
		{"/templates/system", `{"name":"s","vcpus":1,"memory":"512MiB"}`, "/templates/system/s", ""},
		{"/templates/network", `{"name":"n"}`, "/templates/network/n", ""},
		{"/templates/storage", `{"name":"d"}`, "/templates/storage/d", ""},
		{"/userdata", `{"name":"u","data":"#!x"}`, "/userdata/u", ""},
		{"/scripts", `{"name":"x","text":"x"}`, "/scripts/x", ""},
		{"/hooks", `{"name":"h"}`, "/hooks/h", ""},
		{"/hooks", `{"name":"k","key_id":"old"}`, "/hooks/k", "/keys/old"},
		{"/endpoints", `{"name":"e","url":"https://hooks.example/x","events":["*"]}`, "/endpoints/e", ""},
		{"/tokens", `{"name":"t","role":"viewer"}`, "/tokens/t", ""},
		{"/nodes", `{"name":"hv9","worker":"https://hv9.example:7375","cordoned":true}`, "/nodes/hv9", ""},
	} {
		if r := s.do(t, "POST", "/api/v1"+one.path, one.body); r.status != 201 {
			t.Errorf("%s: %+v", one.object, r)
			continue
		}
		if one.remove != "" { // a hook keeps one key
			secret := "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32))
			if r := s.do(t, "POST", "/api/v1"+one.object+"/rotate", `{"secret":"`+secret+`"}`); r.status != 200 {
				t.Errorf("%s: %+v", one.object, r)
			}
		}
		tag := s.do(t, "GET", "/api/v1"+one.object, "").header.Get("ETag")
		if r := s.do(t, "DELETE", "/api/v1"+one.object+one.remove, "", "If-Match", tag); r.status != 412 {
			t.Errorf("DELETE %s after a second writer: %+v", one.object, r)
		}
		if r := s.do(t, "GET", "/api/v1"+one.object, ""); r.status != 200 || r.header.Get("ETag") == tag {
			t.Errorf("%s after a second writer: %+v", one.object, r)
		}
		if r := s.do(t, "DELETE", "/api/v1"+one.object+one.remove, ""); r.status != 204 {
			t.Errorf("DELETE %s without If-Match: %+v", one.object, r)
		}
	}
}
