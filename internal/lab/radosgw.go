package lab

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Gateway is an S3 server in front of a Ceph cluster, with one user.
type Gateway struct {
	// URL is its address, and KeyID and Secret the user's access key.
	URL, KeyID, Secret string
}

// Gateway starts radosgw on the cluster's address, and stops it with the cluster.
func (c *CephCluster) Gateway(t T) Gateway {
	t.Helper()
	const name = "client.rgw.a"
	data := c.path("rgw")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	keyring, port := filepath.Join(data, "keyring"), FreePort(t)
	c.tool(t, "auth", "get-or-create", name, "mon", "allow rw", "osd", "allow rwx", "mgr", "allow rw", "-o", keyring)
	at := net.JoinHostPort(c.addr, fmt.Sprint(port))
	own := []string{"-c", c.Conf, "-n", name, "--keyring", keyring, "--osd_pool_default_pg_num", "8"}
	p := Start(c.owner, c.path("radosgw.out"), "radosgw", append(own, "-f", "--rgw_data", data, "--rgw_run_sync_thread", "false",
		"--rgw_frontends", "beast endpoint="+at)...)
	Await(t, Patience, "radosgw answers", func() bool {
		if !p.Alive() {
			t.Fatalf("radosgw ended: %s", p.Tail())
		}
		conn, err := net.Dial("tcp", at)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	g := Gateway{URL: "http://" + at, KeyID: "seedbedtestkey", Secret: strings.Repeat("secret", 6)}
	c.must(t, "radosgw-admin", append(own, "user", "create", "--uid", "seedbed", "--display-name", "seedbed", "--access-key", g.KeyID,
		"--secret-key", g.Secret)...)
	return g
}
