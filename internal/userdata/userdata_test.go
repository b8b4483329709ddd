package userdata

import (
	"context"
	"strings"
	"testing"

	"seedbed"
)

// TestLimit checks that a document beyond the limit is not looked into, whether it is packed or not.
func TestLimit(t *testing.T) {
	t.Parallel()
	body := "#cloud-config\na: [" + strings.Repeat("x", int(seedbed.KiB))
	for limit, want := range map[seedbed.Bytes]int{0: 1, seedbed.KiB: 0, 2 * seedbed.KiB: 1} {
		if got, err := (Checker{Limit: limit}).Check(t.Context(), []byte(body)); err != nil || len(got) != want {
			t.Errorf("limit %s: %q, %v", limit, got, err)
		}
	}
}

// TestDeepNesting checks that what nests deeply is refused, and costs neither the stack nor long.
func TestDeepNesting(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{"[", "{a: ", "- ", "? ", "[a,"} {
		got, err := Checker{}.Check(t.Context(), []byte("#cloud-config\n"+strings.Repeat(doc, 1<<17)))
		if err != nil || len(got) != 1 || !strings.Contains(got[0], "is not YAML") {
			t.Errorf("%q: %q, %v", doc, got, err)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, doc := range []string{"", "#cloud-config\na: [1\n", "a: *b", "#!/bin/sh\n", "\x1f\x8b",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\n#cloud-config\na: 1\n--b--\n"} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		problems, err := Checker{Limit: 64 * seedbed.KiB}.Check(context.Background(), doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			if p == "" {
				t.Error("a problem without words")
			}
		}
		Template(doc)
	})
}
