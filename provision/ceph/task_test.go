package ceph

import (
	"strings"
	"testing"
)

const tasks = `[{"id":"a","sequence":1,"message":"Removing image p/v","refs":{"action":"remove","pool_name":"p","image_name":"v"}},
{"id":"b","refs":{"action":"flatten","pool_name":"other","image_name":"v"}},
{"id":"c","in_progress":true,"progress":0.25,"retry_message":"[errno 110] timed out","refs":{"action":"flatten","pool_name":"p","pool_namespace":"","image_name":"v"}},
{"id":"d","progress":7,"refs":{"action":"flatten","pool_name":"p","image_name":"w"}}]`

func TestFindTask(t *testing.T) {
	t.Parallel()
	got, err := findTask([]byte(tasks), "p", "v")
	if err != nil || got == nil || got.ID != "c" || got.Progress != 0.25 || !strings.Contains(got.Retry, "timed out") {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := findTask([]byte(tasks), "p", "w"); err != nil || got == nil || got.Progress != 1 {
		t.Errorf("beyond its end: %+v, %v", got, err)
	}
	for _, none := range []string{"[]", "null", tasks} {
		if got, err := findTask([]byte(none), "p", "x"); err != nil || got != nil {
			t.Errorf("%.20s: %+v, %v", none, got, err)
		}
	}
	for _, bad := range []string{"", "{}", "[1]"} {
		if got, err := findTask([]byte(bad), "p", "v"); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

func FuzzFindTask(f *testing.F) {
	f.Add([]byte(tasks))
	f.Fuzz(func(t *testing.T, answer []byte) {
		got, err := findTask(answer, "p", "v")
		if got != nil && (err != nil || got.Refs.Image != "v" || got.Refs.Pool != "p" || !(got.Progress >= 0 && got.Progress <= 1)) {
			t.Errorf("%q: %+v, %v", answer, got, err)
		}
	})
}
