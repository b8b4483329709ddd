package client

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadEvents(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stream string
		want   []message
	}{
		"one":               {"id: 7\nevent: job\ndata: {}\n\n", []message{{"7", "job", "{}"}}},
		"no space":          {"id:7\ndata:x\n\n", []message{{"7", "", "x"}}},
		"carriage returns":  {"data: x\r\n\r\n", []message{{"", "", "x"}}},
		"several lines":     {"data: a\ndata: b\n\n", []message{{"", "", "a\nb"}}},
		"a heartbeat":       {":\n\n: still here\n\ndata: x\n\n", []message{{"", "", "x"}}},
		"without data":      {"id: 3\nevent: job\n\n", nil},
		"unknown fields":    {"retry: 2000\nfoo\ndata: x\n\n", []message{{"", "", "x"}}},
		"an unfinished one": {"data: x\n\ndata: y\n", []message{{"", "", "x"}}},
		"colons in it":      {"data: a:b: c\n\n", []message{{"", "", "a:b: c"}}},
	} {
		var got []message
		err := readEvents(strings.NewReader(tt.stream), func(m message) error {
			got = append(got, m)
			return nil
		})
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(message{})); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	long := "data: " + strings.Repeat("x", maxEvent)
	for name, stream := range map[string]string{
		"a long line": long, "many lines": strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 5),
	} {
		if err := readEvents(strings.NewReader(stream), func(message) error { return nil }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add("id: 7\nevent: job\ndata: {}\n\n")
	f.Add(":\r\n\r\ndata\n\ndata:\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		err := readEvents(strings.NewReader(stream), func(m message) error {
			if m.data == "" && !strings.Contains(stream, "data") || strings.Contains(m.id+m.kind, "\n") {
				t.Errorf("%q gives %q", stream, m)
			}
			return nil
		})
		if err != nil && len(stream) < maxEvent {
			t.Error(err)
		}
	})
}
