package client

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// groupOf returns the name of a socket's group or, if this user may not look at the socket, that of
// the directory that prevents it.
func groupOf(path string) string {
	st, err := os.Stat(path)
	for err != nil && path != filepath.Dir(path) {
		path = filepath.Dir(path)
		st, err = os.Stat(path)
	}
	if err != nil {
		return "unknown"
	}
	id := strconv.FormatUint(uint64(st.Sys().(*syscall.Stat_t).Gid), 10)
	if g, err := user.LookupGroupId(id); err == nil {
		return g.Name
	}
	return id
}
