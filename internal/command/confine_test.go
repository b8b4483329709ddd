package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
)

// A confined program opens what it was given and nothing else, and has no rights of root.
func TestConfined(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	held, err := os.Open(put("held"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := os.Remove(held.Name()); err != nil {
		t.Fatal(err)
	}
	readable, writable, other := put("readable"), put("writable"), put("other")
	for _, c := range []struct{ name, script, want string }{
		{"an inherited file", "cat /proc/self/fd/3", "held\n"},
		{"a readable file", "cat " + readable, "readable\n"},
		{"a writable file", "cat " + writable + " && echo more >" + writable + " && cat " + writable, "writable\nmore\n"},
		{"an inherited file is not writable", "echo x >/proc/self/fd/3", "-"},
		{"a readable file is not writable", "echo x >" + readable, "-"},
		{"another file", "cat " + other, "-"},
		{"another file is not writable", "echo x >" + other, "-"},
		{"another file stays as long as it is", "truncate -s 0 " + other, "-"},
		{"a new file", "echo x >" + dir + "/new", "-"},
		{"a removed file", "rm " + readable, "-"},
		{"another's mode", "chmod 777 " + other, "-"},
		{"no new rights", "grep NoNewPrivs /proc/self/status | tr -d '\\t '", "NoNewPrivs:1\n"},
		{"its user", "id -u", "65534\n"},
		{"its rights", "grep CapEff /proc/self/status | tr -d '\\t '", "CapEff:0000000000000002\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			switch {
			case os.Geteuid() != 0 && (strings.HasPrefix(c.name, "its") || strings.HasPrefix(c.name, "another's")):
				t.Skip("only root has rights to give up")
			case c.name == "its user" && !mapped(Nobody):
				t.Skip("this user namespace has no nobody")
			}
			cmd := sh(c.script)
			cmd.Limits = Limits{Memory: 1 * seedbed.GiB}
			cmd.Confined = &Confined{Files: []*os.File{held}, Read: []string{readable}, Write: []string{writable}}
			out, err := Run(t.Context(), cmd)
			if got := string(out.Stdout); c.want == "-" && (err == nil || got != "") || c.want != "-" && (err != nil || got != c.want) {
				t.Errorf("got %q, %v; want %q\n%s", got, err, c.want, out.Stderr)
			}
		})
	}
	t.Run("as root", func(t *testing.T) { // for a file that is not on a file system of this host
		if os.Geteuid() != 0 {
			t.Skip("only root has rights to give up")
		}
		cmd := sh("id -u; grep CapEff /proc/self/status | tr -d '\\t '; cat " + other)
		cmd.Confined = &Confined{Read: []string{"/proc/self/status"}}
		out, err := Run(t.Context(), cmd)
		if want := "0\nCapEff:0000000000000004\n"; string(out.Stdout) != want || err == nil {
			t.Errorf("got %q, %v; want %q", out.Stdout, err, want)
		}
	})
	if got, err := os.ReadFile(other); err != nil || string(got) != "other\n" {
		t.Errorf("the other file is %q, %v", got, err)
	}
	// The threads of this program are not confined, and neither is what they start.
	for range 20 {
		if out, err := Run(t.Context(), sh("cat "+other)); err != nil || string(out.Stdout) != "other\n" {
			t.Fatalf("got %q, %v", out.Stdout, err)
		}
	}
}
