//go:build integration

package python_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"seedbed/internal/lab"
)

// TestDebootstrap has the example install Debian on Btrfs in a real sandbox, and
// boots what comes of it by its own boot loader. Roots on ext4 and XFS are
// booted from a webhook in internal/e2e.
func TestDebootstrap(t *testing.T) {
	packages := lab.DebianPackages(t)
	j := newJob(t, packages.Tarball)
	j.run(example(t, "debootstrap.py"), []volume{
		{Pool: "default", Disk: "sda", Size: 1, Mountpoint: "/boot", Filesystem: "ext4", Args: "-q"},
		{Pool: "default", Disk: "sdb", Size: 3, Mountpoint: "/", Filesystem: "btrfs", Args: "-L=root -q"},
		{Pool: "default", Disk: "sdc", Size: 1, Filesystem: "swap"},
	}, map[string]string{"deb_release": packages.Suite, "deb_mirror": packages.Mirror, "deb_tarball": packages.Tarball})

	console := filepath.Join(lab.Dir(t), "console")
	args := []string{
		"-accel", "tcg", "-m", "512", "-display", "none", "-monitor", "none", "-no-reboot", "-nic", "none", "-serial", "file:" + console,
		"-device", "virtio-scsi-pci",
	}
	for _, disk := range []string{"sda", "sdb", "sdc"} {
		args = append(args, "-drive", "if=none,format=raw,id="+disk+",file="+j.pool.file("web1_"+disk), "-device", "scsi-hd,drive="+disk)
	}
	qemu := exec.Command("qemu-system-x86_64", args...)
	var stderr bytes.Buffer
	qemu.Stderr = &stderr
	if err := qemu.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- qemu.Wait() }()
	t.Cleanup(func() {
		qemu.Process.Kill()
		<-ended
	})
	var seen []byte
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("console:\n%s\n%s", seen[max(0, len(seen)-4<<10):], stderr.Bytes())
		}
	})
	lab.Await(t, 4*time.Minute, "the guest asks for a login", func() bool {
		seen, _ = os.ReadFile(console)
		return bytes.Contains(seen, []byte("web1 login:"))
	})
}
