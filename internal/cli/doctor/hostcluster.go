package doctor

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"seedbed"
	"seedbed/internal/config"
	"seedbed/internal/mtls"
)

// certificates tell until when the other hosts take this host's certificates.
func (h host) certificates() (all []seedbed.Check) {
	c := h.config.Cluster
	for _, p := range []struct {
		name string
		config.KeyPair
	}{{"cluster.control", c.Control}, {"cluster.worker", c.Worker}, {"cluster.metadata", c.Metadata}} {
		if p.Given() {
			all = append(all, mtls.CheckFiles(p.name, c.CA, p.Cert))
		}
	}
	return all
}

// controls reports whether seedbedd is to run on this host. One whose guest plane follows
// others has it when its socket is there.
func (h host) controls() bool {
	if len(h.config.Feed.Servers) == 0 {
		return true
	}
	_, err := os.Lstat(h.config.API.Socket)
	return !errors.Is(err, fs.ErrNotExist)
}

// elsewhere is what is said of seedbedd on a host where it is not to run.
func (h host) elsewhere() seedbed.Check {
	return seedbed.Check{Name: "api", OK: true, Detail: "seedbedd runs on other hosts: " + strings.Join(h.config.Feed.Servers, ", "),
		Hint: "run the doctor there too, or with --url"}
}
