package webhook

import (
	"testing"
)

// FuzzBody feeds the decoders and a rule that looks everywhere.
func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"a":[1,2.5,{"b":null}],"n":"x"}`), "n == 'x'")
	f.Add([]byte(`a=1&b=2`), "")
	r, err := compile(`has(body.n) && body.n == "x"`, `{"action": "create", "name": string(body.n), "params": {"all": body}}`)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte, form string) {
		if _, err := decodeForm(form); err != nil && len(err.Error()) > 200 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		v, err := decodeJSON(body)
		if err != nil {
			return
		}
		e := event{headers: map[string]string{}, query: map[string]string{}, body: v}
		if matched, err := r.matches(t.Context(), e); err == nil && matched {
			if p, err := r.request(t.Context(), e); err == nil && p.Name != "x" {
				t.Errorf("the name is %q", p.Name)
			}
		}
	})
}
