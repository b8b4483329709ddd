//go:build integration && libvirt

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"seedbed/internal/lab"
)

var (
	// tourBlock is a block of commands that TestTour runs.
	tourBlock = regexp.MustCompile(`(?m)^<!-- run: TestTour -->\n\n((?:    .*\n)+)`)
	indent    = regexp.MustCompile(`(?m)^    `)
)

// TestTour runs the tour of the README, as it is written, in one shell of a host of its own that
// has only the programs and the image. Nothing is left at its end.
func TestTour(t *testing.T) {
	beside(t)
	readme, err := os.ReadFile(filepath.Join(lab.Root(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	script := "cd \"$1\"\nexport HOME=/root\nset -ex\n"
	for _, block := range tourBlock.FindAllStringSubmatch(string(readme), -1) {
		script += indent.ReplaceAllString(block[1], "")
	}
	h := lab.NewHost(t)
	here := filepath.Join(h.Dir, "here")
	h.Run("sh", "-ec", `cd "$1"
		mkdir -p here/bin here/.cache root lib/libvirt log/libvirt
		chmod 711 here
		cp "$2"/seedbed* here/bin
		cp --reflink=auto "$3" here/.cache/debian.qcow2
		chmod 644 here/.cache/debian.qcow2
		mount --bind lib /var/lib
		mount --bind log /var/log
		mount --bind root /root
		[ ! -d /etc/seedbed ] || mount -t tmpfs -o mode=755 tmpfs /etc/seedbed`,
		"sh", h.Dir, lab.Programs(t), lab.GuestImage(t))
	h.Libvirt()
	file := filepath.Join(h.Dir, "tour.sh")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	p := h.Start(filepath.Join(h.Dir, "tour.log"), "bash", file, here)
	lab.Await(t, longest, "the tour ends", func() bool { return !p.Alive() })
	out := p.Output()
	if status := p.Cmd.ProcessState.ExitCode(); status != 0 {
		for _, name := range []string{"seedbedd.log", "seedbed-worker.log", "seedbed-metadata.log"} {
			log, _ := os.ReadFile(filepath.Join(here, name))
			out += "\n" + name + "\n" + string(log[max(0, len(log)-4<<10):])
		}
		t.Fatalf("the tour ended with status %d:\n%s", status, out)
	}
	t.Logf("the tour:\n%s", out)
	if said := lineAfter(out, "+ seedbed vm ssh "); said != "web1" {
		t.Errorf("the guest said %q; want its name, and no warning of ssh", said)
	}
	for what, left := range map[string]string{
		"files":   h.Run("sh", "-c", `find /var/lib /var/log /run -maxdepth 1 -name 'seedbed*'; ls "$1"`, "sh", here),
		"links":   h.Run("sh", "-c", "ip -o link | grep -o 'seedbed[0-9]*' || true"),
		"filters": h.Run("sh", "-c", "nft list tables | grep seedbed || true"),
		"domains": strings.Join(h.Domains(), "\n"),
	} {
		if left = strings.TrimSpace(left); left != map[string]string{"files": "bin"}[what] {
			t.Errorf("%s are left: %s", what, left)
		}
	}
}

// lineAfter returns the lines after the one that begins with mark, up to the next command.
func lineAfter(out, mark string) string {
	_, rest, _ := strings.Cut(out, "\n"+mark)
	_, rest, _ = strings.Cut(rest, "\n")
	rest, _, _ = strings.Cut(rest, "\n+ ")
	return rest
}
