package lab

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/google/uuid"
)

// Node is another hypervisor of a stack: a worker and a guest plane on a host of their own.
type Node struct {
	Daemons
	Host *Host
	Name string
	URL  string // of its worker
}

// authority makes the authority of a stack of several hosts, and is what its
// control hosts have in their configuration.
func (s *Stack) authority(addr netip.Addr) string {
	s.t.Helper()
	s.Feed = fmt.Sprintf("%s:%d", addr, FreePort(s.t))
	s.must("cluster", "ca", filepath.Join(s.Dir, "ca"))
	tls := s.issue("lab", "control", addr)
	return fmt.Sprintf("feed: {cluster_listen: %q}\ncluster: {ca: %[2]s/ca.pem, control: {cert: %[2]s/control.pem, key: %[2]s/control.key}}\n",
		s.Feed, tls)
}

// issue makes the certificates of a node, and returns their directory.
func (s *Stack) issue(node, roles string, addr netip.Addr) (dir string) {
	s.t.Helper()
	ca := filepath.Join(s.Dir, "ca")
	s.must("cluster", "issue", ca, node, "--role", roles, "--host", addr.String())
	return filepath.Join(ca, node)
}

// must runs the seedbed command, which must succeed.
func (s *Stack) must(args ...string) {
	s.t.Helper()
	if out, stderr, status := s.CLI(args...); status != 0 {
		s.t.Fatalf("seedbed %v: status %d: %s%s", args, status, out, stderr)
	}
}

// AddNode starts a worker and a guest plane on h, to which the stack's control
// host is h.Peer, and makes them known to it.
func (s *Stack) AddNode(h *Host, name string) *Node {
	s.t.Helper()
	n := &Node{Daemons: newDaemons(s.t, h, Dir(s.t), Worker, Metadata), Host: h, Name: name}
	tls, port := s.issue(name, "worker,metadata", h.Addr), FreePort(s.t)
	n.URL = fmt.Sprintf("https://%s:%d", h.Addr, port)
	s.write(n.Config, s.shared+s.network(h.Addr)+fmt.Sprintf(`node: %[1]s
data_dir: %[2]s
run_dir: %[2]s/run
metadata: {health: "127.0.0.1:%[3]d"}
libvirt: {uri: %[4]q, console_dir: %[2]s/console, cdrom_dir: %[2]s/cdrom%[10]s}
worker: {listen: "127.0.0.1:%[5]d", cluster_listen: "%[6]s:%[7]d", state: %[2]s/worker, data_dir: %[2]s/known, spool: %[2]s/spool}
feed: {servers: [%[8]q]}
cluster: {ca: %[9]s/ca.pem, worker: {cert: %[9]s/worker.pem, key: %[9]s/worker.key}, metadata: {cert: %[9]s/metadata.pem, key: %[9]s/metadata.key}}
`, name, n.Dir, FreePort(s.t), s.uri, FreePort(s.t), h.Addr, port, s.Feed, tls, migration(h.Addr)))
	s.t.Cleanup(n.stop)
	for _, d := range n.names {
		n.Start(d)
	}
	s.must("node", "add", name, "--worker", n.URL)
	return n
}

// pki is where libvirt and QEMU of a host have their certificates.
const pki = "/etc/libvirt/seedbed"

// migration is the part of the section libvirt by which guests that run come to a host with that address.
func migration(addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}
	return fmt.Sprintf(", migration: {uri: %q, data_uri: %q, tls: true}", fmt.Sprintf("qemu+tls://%s/system?pkipath=%s", addr, pki),
		fmt.Sprintf("tcp://%s", addr))
}

// Migrations lets guests that run migrate between hosts: it starts their libvirtds again, each with certificates of the stack's authority,
// listening at its address.
func (s *Stack) Migrations(hosts map[string]*Host, addrs map[string]netip.Addr) (daemons map[string]*Process) {
	s.t.Helper()
	daemons = map[string]*Process{}
	for name, h := range hosts {
		dir := s.issue(name, "libvirt", addrs[name])
		h.Run("mkdir", "-p", pki)
		for _, role := range []string{"client", "server"} { // as libvirt and as QEMU call them
			for _, file := range []string{role + "cert.pem", role + "-cert.pem"} {
				h.Run("cp", filepath.Join(dir, "libvirt.pem"), filepath.Join(pki, file))
			}
			for _, file := range []string{role + "key.pem", role + "-key.pem"} {
				h.Run("cp", filepath.Join(dir, "libvirt.key"), filepath.Join(pki, file))
			}
		}
		for _, file := range []string{"cacert.pem", "ca-cert.pem"} {
			h.Run("cp", filepath.Join(dir, "ca.pem"), filepath.Join(pki, file))
		}
		h.Run("sh", "-c", "chmod 755 "+pki+" && chmod 644 "+pki+"/* && "+
			"printf 'migrate_tls_x509_cert_dir = \"%s\"\nmigrate_tls_x509_verify = 1\n' "+pki+" >> /etc/libvirt/qemu.conf")
		daemons[name] = h.listen(addrs[name])
	}
	return daemons
}

// listen starts the host's libvirtd again, listening for others by TLS.
func (h *Host) listen(addr netip.Addr) *Process {
	h.t.Helper()
	conf := filepath.Join(h.Dir, "libvirtd.conf")
	text := fmt.Sprintf(`host_uuid = %q
listen_tls = 1
listen_addr = %q
ca_file = "%[3]s/cacert.pem"
cert_file = "%[3]s/servercert.pem"
key_file = "%[3]s/serverkey.pem"
tls_allowed_dn_list = ["*O=seedbed:libvirt*"]
`, uuid.NewString(), addr, pki)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	h.Run("sh", "-c", "kill $(cat /run/libvirtd.pid); while [ -e /run/libvirtd.pid ]; do sleep 0.1; done")
	return h.Libvirt("-f", conf, "--listen")
}
