package doctor

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"seedbed"
)

// leastRoom is the free space that the daemons' state needs.
const leastRoom = seedbed.GiB

// room checks that the daemons' state can grow. A full disk stops every job.
func (h host) room() seedbed.Check {
	dir := h.config.DataDir
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir) // it is created at the first start
	}
	c := seedbed.Check{Name: "room", OK: true}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		c.OK, c.Detail, c.Hint = false, fmt.Sprintf("%s: %v", dir, err), "check that its disk is mounted and readable"
		return c
	}
	free := seedbed.Bytes(fs.Bavail) * seedbed.Bytes(fs.Bsize)
	c.Detail = fmt.Sprintf("%s free for %s", free/seedbed.MiB*seedbed.MiB, h.config.DataDir)
	if free < leastRoom || fs.Files > 0 && fs.Ffree == 0 {
		c.OK, c.Hint = false, "free space on that disk, or move data_dir to a larger one: a full disk stops all jobs"
	}
	return c
}
