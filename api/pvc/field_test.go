package pvc

import (
	"errors"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseBody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, body string
		want       url.Values
	}{
		"none": {"", "", nil},
		"a form": {
			"application/x-www-form-urlencoded; charset=utf-8", "a=1&b=x+y%2B&a=2&c", url.Values{"a": {"1", "2"}, "b": {"x y+"}, "c": {""}},
		},
		"multipart": {"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\ny\r\n--b--\r\n",
			url.Values{"a": {"x\r\ny"}}},
		"no parts": {"multipart/form-data; boundary=b", "--b--\r\n", url.Values{}},
		"a file": {
			"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=a; filename=x\r\n\r\nx\r\n--b--\r\n", url.Values{},
		},
		"JSON": {"application/json", `{"a":["1",2,true,null],"b":null,"c":-1.5,"d":"","e":[]}`,
			url.Values{"a": {"1", "2", "true"}, "c": {"-1.5"}, "d": {""}}},
	} {
		got, err := parseBody(c.kind, []byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func FuzzParseBody(f *testing.F) {
	f.Add("application/x-www-form-urlencoded", []byte("a=1&a=%41"))
	f.Add("multipart/form-data; boundary=b", []byte("--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--b--\r\n"))
	f.Add("application/json", []byte(`{"a":[1,"x",null],"b":true}`))
	f.Add("application/json", []byte(`{"a":{"b":1}}`))
	f.Fuzz(func(t *testing.T, kind string, raw []byte) {
		got, err := parseBody(kind, raw)
		if err != nil {
			if e := (*refusal)(nil); !errors.As(err, &e) || e.status < 400 || e.status > 499 {
				t.Errorf("%q %q: %v", kind, raw, err)
			}
			return
		}
		f := &fields{body: got}
		if f.check() != nil {
			return
		}
		for name := range got {
			if f.text(name); f.err == nil && !f.has(name) {
				t.Errorf("%q is there and is not", name)
			}
		}
	})
}

func TestFlag(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"y": true, "YES": true, "t": true, "True": true, "on": true, "1": true, "": false, "2": false,
		"no": false, "false": false, " true": false,
	} {
		if got := (&fields{query: url.Values{"x": {text}}}).flag("x"); got != want {
			t.Errorf("%q is %t", text, got)
		}
	}
}
