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

// certificates reports until when this host's certificates are valid for the other hosts.
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

// controls reports whether seedbedd should run on this host. A node whose guest plane follows other
// hosts runs seedbedd if its socket exists.
func (h host) controls() bool {
	if len(h.config.Feed.Servers) == 0 {
		return true
	}
	_, err := os.Lstat(h.config.API.Socket)
	return !errors.Is(err, fs.ErrNotExist)
}

// elsewhere returns the check for a host on which seedbedd does not run.
func (h host) elsewhere() seedbed.Check {
	return seedbed.Check{Name: "api", OK: true, Detail: "seedbedd runs on other hosts: " + strings.Join(h.config.Feed.Servers, ", "),
		Hint: "run the doctor there too, or with --url"}
}
