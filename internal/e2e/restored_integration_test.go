//go:build integration && libvirt

package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
)

// ownerData has a guest write 16 MiB to its disk, if nothing is there, or else compare them with the digest beside them.
const ownerData = `#!/bin/sh
have() {
	dd if=/dev/vda bs=1M skip=200 count=16 2>/dev/null | md5sum
}
noted() {
	dd if=/dev/vda bs=1M skip=199 count=1 2>/dev/null | head -n 1
}
case $(noted) in
*-) [ "$(have)" = "$(noted)" ] && echo "SEEDBED whole $(noted)" || echo "SEEDBED damaged $(have)" ;;
*)
	dd if=/dev/urandom of=/dev/vda bs=1M seek=200 count=16 conv=notrunc,fsync 2>/dev/null
	have >/tmp/noted
	dd if=/tmp/noted of=/dev/vda bs=1M seek=199 conv=notrunc,fsync 2>/dev/null
	echo "SEEDBED wrote $(noted)"
	;;
esac
`

var digestLine = regexp.MustCompile(`SEEDBED (wrote|whole) ([0-9a-f]{32})`)

// TestRestoredElsewhere backs a real guest up, and restores it with commands on a second installation, which is empty and has never
// heard of it. The guest boots there and finds what it wrote.
func TestRestoredElsewhere(t *testing.T) {
	beside(t)
	image := lab.SmallGuestImage(t)
	place := lab.Dir(t)
	here := separate(t, place)
	addImage(t, here, "guest", image)
	addProfile(t, here, seedbed.Profile{
		Name: "web", Image: "guest", VCPUs: 1, Memory: 128 * seedbed.MiB, DiskSize: seedbed.GiB, UserData: []byte(ownerData),
		Ready: seedbed.ReadyReport,
	})
	for _, args := range [][]string{
		{"create", "web1", "--profile", "web", "--tag", "role=shop"},
		{"backup", "target", "add", "nas", "--path", place},
	} {
		cli(t, here, args...)
	}
	wrote := digest(t, here, "web1", "wrote")
	cli(t, here, "backup", "create", "web1", "--to", "nas") // while it runs
	was, err := here.API.Instance(t.Context(), "web1")
	if err != nil {
		t.Fatal(err)
	}
	cli(t, here, "vm", "remove", "web1", "-y")
	here.Stop(lab.Seedbedd) // nothing of it is asked any more
	here.Stop(lab.Worker)

	there := separate(t, place)
	cli(t, there, "backup", "target", "add", "shared", "--path", place)
	id := strings.TrimSpace(cli(t, there, "backup", "list", "--target", "shared", "-f", "raw"))
	if shown := cli(t, there, "backup", "show", id, "--target", "shared"); !strings.Contains(shown, "web1") {
		t.Errorf("backup show:\n%s", shown)
	}
	if out := cli(t, there, "backup", "verify", id, "--target", "shared"); !strings.Contains(out, "succeeded") {
		t.Errorf("backup verify:\n%s", out)
	}
	cli(t, there, "network", "add", "lan", "--prefix", "10.96.4.0/24", "--kind", "isolated")
	cli(t, there, "backup", "restore", id, "--target", "shared", "--name", "shop1", "--network", "default=lan")
	if got := digest(t, there, "shop1", "whole"); got != wrote {
		t.Errorf("the restored guest has %s, and wrote %s", got, wrote)
	}
	now, err := there.API.Instance(t.Context(), "shop1")
	if err != nil || now.ID == was.ID || now.NICs[0].MAC == was.NICs[0].MAC || now.NICs[0].Network != "lan" || now.Tags["role"] != "shop" {
		t.Errorf("restored %+v, %v, of %+v", now, err, was)
	}
	cli(t, there, "vm", "remove", "shop1", "-y")
	if d := there.Domains(); len(d) != 0 {
		t.Errorf("domains are left: %v", d)
	}
}

// separate is an installation on a host of its own, whose backups may be in a directory.
func separate(t *testing.T, place string) *lab.Stack {
	t.Helper()
	host := lab.NewHost(t)
	host.Libvirt()
	pool := filepath.Join(lab.Dir(t), "pool")
	return lab.NewStack(t, lab.StackOptions{Host: host, Jobs: lasting,
		Storage: fmt.Sprintf("{backup_dirs: [%q], pools: [{name: default, type: dir, path: %q}]}", place, pool)})
}

// digest waits until a guest has said what its disk has, and returns that.
func digest(t *testing.T, s *lab.Stack, name, says string) (sum string) {
	t.Helper()
	lab.Await(t, 2*lab.Patience, name+" says what its disk has", func() bool {
		all := digestLine.FindAllStringSubmatch(cli(t, s, "vm", "log", name, "--raw", "-n", "1000"), -1)
		at := slices.IndexFunc(all, func(m []string) bool { return m[1] == says })
		if at >= 0 {
			sum = all[at][2]
		}
		return at >= 0
	})
	return sum
}
