package webhook

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	got, err := decode([]byte(`{"action":"create","name":"web1","profile":"small","params":{"vcpus":2,"ssh_keys":["k"]}}`))
	want := payload{Action: "create", Name: "web1", Profile: "small", Params: map[string]any{"vcpus": 2.0, "ssh_keys": []any{"k"}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for name, test := range map[string]struct{ body, names string }{
		"empty":               {``, "object"},
		"null":                {`null`, "object"},
		"array":               {`[]`, "object"},
		"string":              {`"create"`, "object"},
		"unknown member":      {`{"action":"create","evil":1}`, "/evil"},
		"other case":          {`{"Action":"create"}`, "/Action"},
		"duplicate":           {`{"name":"a","name":"b"}`, "/name"},
		"duplicate in params": {`{"params":{"vcpus":1,"vcpus":2}}`, "/params/vcpus"},
		"wrong type":          {`{"name":1}`, "/name"},
		"params no object":    {`{"params":[]}`, "/params"},
		"trailing data":       {`{"name":"a"}{}`, "JSON"},
		"trailing word":       {`{"name":"a"} x`, "JSON"},
		"NaN":                 {`{"params":{"vcpus":NaN}}`, "JSON"},
		"not UTF-8":           {"{\"name\":\"\xff\"}", "JSON"},
		"cut off":             {`{"name":"a"`, "JSON"},
		"comment":             {`{/**/}`, "JSON"},
		"deep":                {`{"params":{"a":` + strings.Repeat("[", 100_000), "JSON"},
		"long unknown name":   {`{"` + strings.Repeat("x", 10_000) + `":1}`, "…"},
	} {
		_, err := decode([]byte(test.body))
		if err == nil || !strings.Contains(err.Error(), test.names) || len(err.Error()) > 300 {
			t.Errorf("%s: error %v, want one that names %q", name, err, test.names)
		}
	}
}

func TestDecodeErrorHoldsNoValue(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"name":{"a":"hush"}}`, `{"name":"hush","name":"hush"}`, `{"name":"hush" hush}`, `{"params":"hush"}`} {
		if _, err := decode([]byte(body)); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: error %v", body, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"action":"create","name":"web1","profile":"small","params":{"vcpus":2}}`))
	f.Add([]byte(`{"name":"a","name":"b"}`))
	f.Add([]byte(`{"action":"network-add","name":"lab","network":{"prefix":"10.99.1.0/24","overlay":true}}`))
	f.Add([]byte(`{"action":"address-associate","name":"203.0.113.16","instance":"web1","nic":1}`))
	f.Add([]byte(`[[[[`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := decode(body)
		if err == nil {
			_, err = p.request()
		}
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}
