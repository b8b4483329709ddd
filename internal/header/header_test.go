package header

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const good = "Host: a\r\nX-API-Key:  k \r\nX-Two: 1\r\nx-two:\t2 \r\nContent-Length: 2\r\n\r\n"
	got, err := Parse([]byte(good), "x-api-key")
	if err != nil {
		t.Fatal(err)
	}
	want := Fields{"host": {"a"}, "x-api-key": {"k"}, "x-two": {"1", "2"}, "content-length": {"2"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.Get("x-api-key") != "k" || got.Get("x-none") != "" || !got.Has("host") || got.Has("x-none") {
		t.Errorf("%v", got)
	}
	for name, raw := range map[string]string{
		"folded with a space":    "Host: a\r\nX-Api-Key: x\r\n y\r\n\r\n",
		"folded with a tab":      "Host: a\r\nX-Api-Key: x\r\n\ty\r\n\r\n",
		"folded first":           " Host: a\r\n\r\n",
		"bare LF":                "Host: a\nX-Api-Key: x\r\n\r\n",
		"bare CR":                "Host: a\rX-Api-Key: x\r\n\r\n",
		"NUL":                    "Host: a\x00\r\n\r\n",
		"space before the colon": "Host : a\r\n\r\n",
		"no colon":               "Host\r\n\r\n",
		"no name":                ": a\r\n\r\n",
		"both lengths":           "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
		"two of a given one":     "X-Api-Key: a\r\nx-api-key: a\r\n\r\n",
		"two hosts":              "Host: a\r\nHost: a\r\n\r\n",
		"two types":              "Content-Type: a/b\r\nContent-Type: a/b\r\n\r\n",
		"two codings":            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
	} {
		if f, err := Parse([]byte(raw), "x-api-key"); err == nil {
			t.Errorf("%s: accepted as %v", name, f)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("Host: a\r\nWebhook-Id: x\r\n\r\n"))
	f.Add([]byte("Host: a\r\n b\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"))
	single := []string{"webhook-id", "authorization"}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := Parse(raw, single...)
		if err != nil {
			return
		}
		for name, values := range got {
			if name == "" || strings.ContainsAny(name+strings.Join(values, ""), "\r\n\x00") {
				t.Errorf("accepted %q: %q", name, values)
			}
		}
		for _, name := range slices.Concat(framing, single) {
			if len(got[name]) > 1 {
				t.Errorf("accepted %s %d times", name, len(got[name]))
			}
		}
	})
}
