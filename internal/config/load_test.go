package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

var compare = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b Prefix) bool { return a == b }),
}

func TestLoadWithoutFile(t *testing.T) {
	t.Parallel()
	got, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), got, compare); diff != "" {
		t.Error(diff)
	}
	missing := filepath.Join(t.TempDir(), "none.yaml")
	if _, err := Load(missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("Load of a named file that is missing: %v, want an error that names it", err)
	}
}

func TestLoadFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seedbed.yaml")
	text := `
node: hv1
data_dir: /srv/seedbed
run_dir: /tmp/sb
webhook: {max_body: 64KiB}
api:
  socket: /elsewhere/api.sock
metadata: {listen: redirect, redirect_port: 8080}
network:
  prefix: 10.9.0.0/24
  nat: false
  dns: [192.0.2.53]
jobs:
  lease: 1s
  stage_timeout: {ready: 90s}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Node, want.DataDir, want.RunDir = "hv1", "/srv/seedbed", "/tmp/sb"
	want.Webhook.MaxBody = 64 * seedbed.KiB
	want.Store.Path = "/srv/seedbed/seedbed.db"
	want.API.Socket, want.API.TokenFile = "/elsewhere/api.sock", "/srv/seedbed/admin.token"
	want.Feed.Socket, want.Worker.Socket = "/tmp/sb/feed.sock", "/tmp/sb/worker.sock"
	want.Metadata.Listen, want.Metadata.RedirectPort, want.Metadata.State = "redirect", 8080, "/srv/seedbed/metadata"
	want.Network.Prefix = Prefix{netip.MustParsePrefix("10.9.0.0/24")}
	want.Network.NAT, want.Network.DNS = false, []netip.Addr{netip.MustParseAddr("192.0.2.53")}
	want.Fencing.KeyFile = "/srv/seedbed/fencing.key"
	want.Jobs.Lease, want.Jobs.StageTimeout["ready"] = time.Second, 90*time.Second
	if diff := cmp.Diff(want, got, compare); diff != "" {
		t.Error(diff)
	}
	if got.Metadata.Port() != 8080 || got.Metadata.Addr() != netip.MustParseAddrPort("169.254.169.254:8080") {
		t.Errorf("metadata binds %s", got.Metadata.Addr())
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"zone of Amazon's form", "metadata: {zone: eu-west-1a}\n", "metadata.zone"},
		{"region of Amazon's form", "metadata: {region: us-gov-west-1}\n", "not of Amazon's form"},
		{"zone that is no word", "metadata: {zone: a/b}\n", "metadata.zone"},
		{"much user-data", "metadata: {max_user_data: 17MiB}\n", "1KiB to 16MiB"},
		{"vendor-data below nothing", "metadata: {vendor_data: vendor.yaml}\n", "metadata.vendor_data"},
		{"domain", "metadata: {domain: \"a b\"}\n", "metadata.domain"},
		{"key without certificate", "identity: {key: /k}\n", "identity.certificate with it"},
		{"certificate without key", "identity: {certificate: /c}\n", "identity.key with it"},
		{"unknown section", "nod: x\n", "f.yaml:1: unknown key \"nod\": expected one of api, cleanup,"},
		{"unknown key", "store:\n  file: /x\n",
			"f.yaml:2: unknown key \"store.file\": expected one of driver, dsn, dsn_file, path\n  >   file: /x"},
		{
			"unknown key of a pool", "storage:\n  pools:\n  - {name: a, type: dir, path: /a, size: 1}\n",
			"f.yaml:3: unknown key \"storage.pools[0].size\"",
		},
		{"key in other case", "Node: x\n", "unknown key \"Node\""},
		{"twice", "node: a\nnode: b\n", "f.yaml:2: mapping key \"node\" already defined at [1:1]\n  > node: b"},
		{"no duration", "jobs:\n  lease: 1x\n", "f.yaml:2: jobs.lease: \"1x\" is not a duration: expected a number and a unit"},
		{"duration without unit", "jobs:\n  lease: 15\n", "f.yaml:2: jobs.lease: \"15\" is not a duration"},
		{"no size", "webhook:\n  max_body: big\n", "f.yaml:2: webhook.max_body: \"big\" is not a size"},
		{"no switch", "network: {nat: maybe}\n", "f.yaml:1: network.nat: \"maybe\" is not a switch: expected true or false"},
		{"no port", "metadata: {redirect_port: 70000}\n", "metadata.redirect_port: \"70000\" is not a number in range"},
		{"no address", "network: {dns: [a]}\n", "network.dns[0]: \"a\" is not an IP address"},
		{"no prefix", "network: {prefix: 10.0.0.0}\n", "network.prefix: \"10.0.0.0\" is not a subnet"},
		{"no encryption", "network: {overlay: {encryption: ipsec}}\n", "network.overlay.encryption: \"ipsec\" cannot be used: expected"},
		{"port of VXLAN", "network: {overlay: {port: 4789}}\n", "network.overlay.port: \"4789\" cannot be used: expected a UDP port"},
		{"no group", "network: {overlay: {group: 192.0.2.1}}\n", "expected a multicast group of your site, such as 239.1.2.3"},
		{"group of the link", "network: {overlay: {group: 224.0.0.1}}\n", "expected a multicast group of your site"},
		{"group of another family", "network: {address: 192.0.2.1, overlay: {group: \"ff05::1\"}}\n", "a group of the family of network.address"},
		{"group with encryption", "network: {overlay: {group: 239.1.2.3, encryption: wireguard}}\n", "where each packet is for one node"},
		{"EVPN with encryption", "network: {overlay: {evpn: true, encryption: wireguard}}\n", "whose tunnels the daemon does not know"},
		{"EVPN with a group", "network: {overlay: {evpn: true, group: 239.1.2.3}}\n", "since the daemon says where the frames for all go"},
		{"no list", "network: {dns: 192.0.2.1}\n", "network.dns: expected a list"},
		{"no mapping", "jobs: 4\n", "f.yaml:1: jobs: expected keys and values"},
		{"text alone", "hello\n", "f.yaml:1: expected keys and values"},
		{"two documents", "node: a\n---\nnode: b\n", "f.yaml:3: a second YAML document"},
		{"broken", "node: [\n", "f.yaml:1: sequence end token ']' not found\n  > node: ["},
		{
			"invalid value", "log:\n  level: loud\n",
			"f.yaml:2: log.level: \"loud\" cannot be used: expected debug or info or warn or error\n  >   level: loud",
		},
		{"relative path", "data_dir: var\n", "data_dir: \"var\" cannot be used: expected an absolute path"},
		{"long socket", "run_dir: /" + strings.Repeat("x", 120) + "\n", "api.socket: \"/xx"},
		{"public health", "worker: {listen: '0.0.0.0:7373'}\n", "worker.listen: \"0.0.0.0:7373\" cannot be used: expected a loopback address"},
		{
			"same listener twice", "webhook: {listen: '127.0.0.1:7370'}\n",
			"webhook.listen: \"127.0.0.1:7370\" cannot be used: expected a place that api.listen does not have",
		},
		{"metadata elsewhere", "metadata: {listen: '0.0.0.0:80'}\n", "expected 169.254.169.254:80 or redirect"},
		{"no pools", "storage: {pools: []}\n", "storage.pools"},
		{"backups in a directory that is not absolute", "storage: {backup_dirs: [mnt]}\n",
			"storage.backup_dirs[0]: \"mnt\" cannot be used: expected an absolute path"},
		{"backups in a directory that climbs", "storage: {backup_dirs: [/mnt/..]}\n", "storage.backup_dirs[0]: \"/mnt/..\" cannot be used"},
		{"empty command of backups", "storage: {backup_commands: [\" \"]}\n", "storage.backup_commands[0]: \" \" cannot be used"},
		{
			"pool type", "storage:\n  pools:\n  - name: a\n    type: nfs\n    path: /a\n",
			"f.yaml:4: storage.pools[0].type: \"nfs\" cannot be used: expected dir or ceph",
		},
		{
			"ceph pool without its name", "storage:\n  pools:\n  - name: a\n    type: ceph\n",
			"storage.pools[0].ceph_pool: \"\" cannot be used: expected the pool's name in Ceph",
		},
		{
			"ceph pool with a path", "storage:\n  pools:\n  - name: a\n    type: ceph\n    ceph_pool: a\n    path: /a\n",
			"f.yaml:6: storage.pools[0].path: \"/a\" cannot be used: expected no path in a pool of type ceph",
		},
		{
			"ceph user with its prefix", "storage:\n  pools:\n  - name: a\n    type: ceph\n    ceph_pool: a\n    user: client/a\n",
			"f.yaml:6: storage.pools[0].user",
		},
		{
			"relative keyring", "storage:\n  pools:\n  - name: a\n    type: ceph\n    ceph_pool: a\n    keyring: k\n",
			"f.yaml:6: storage.pools[0].keyring: \"k\" cannot be used: expected an absolute path",
		},
		{
			"keys of ceph in a directory", "storage:\n  pools:\n  - name: a\n    type: dir\n    path: /a\n    ceph_pool: a\n",
			"f.yaml:6: storage.pools[0].ceph_pool: \"a\" cannot be used: expected no such key in a pool of type dir",
		},
		{"same pool twice", "storage:\n  pools: [{name: a, type: dir, path: /a}, {name: a, type: dir, path: /b}]\n", "storage.pools[1].name"},
		{"long bridge", "network: {bridge: abcdefghijklmnop}\n", "network.bridge"},
		{"host bits", "network: {prefix: 10.0.0.1/24}\n", "network.prefix"},
		{"stage", "jobs: {stage_timeout: {boot: 1m}}\n", "jobs.stage_timeout: \"boot\" cannot be used: expected one of attach, back-up, cleanup"},
		{"no grace", "cleanup: {mappings: {grace: 0s}}\n", "cleanup.mappings.grace: \"0s\" cannot be used: expected 1s to"},
		{"grace below a second", "cleanup: {mappings: {grace: 999ms}}\n", "cleanup.mappings.grace: \"999ms\" cannot be used: expected 1s to"},
		{
			"cron field", "cleanup: {mappings: {schedule: 61 * * * *}}\n",
			"expected five cron fields, such as \"*/10 * * * *\" (end of range (61) above maximum (59)",
		},
		{"cron", "cleanup: {mappings: {schedule: often}}\n", "cleanup.mappings.schedule: \"often\" cannot be used: expected five cron fields"},
		{"coordination", "coordination: {driver: etcd}\n", "coordination.driver: \"etcd\" cannot be used: expected local or zookeeper"},
		{"no servers", "coordination: {driver: zookeeper}\n", "coordination.servers: \"[]\" cannot be used: expected ZooKeeper's servers"},
		{
			"servers of nobody", "coordination:\n  servers: ['a:1']\n",
			"f.yaml:2: coordination.servers: \"[a:1]\" cannot be used: expected no servers, or driver: zookeeper",
		},
		{
			"server without port", "coordination: {driver: zookeeper, servers: [zk1]}\n",
			"coordination.servers[0]: \"zk1\" cannot be used: expected an address and a port",
		},
		{"same server twice", "coordination: {driver: zookeeper, servers: ['a:1', 'a:1']}\n", "coordination.servers[1]: \"a:1\" cannot be used"},
		{"session", "coordination: {session_timeout: 10ms}\n", "coordination.session_timeout: \"10ms\" cannot be used: expected 1s to 5m0s"},
		{"root", "coordination: {root: /}\n", "coordination.root: \"/\" cannot be used: expected the path of a znode"},
		{"root with dots", "coordination: {root: /a/../b}\n", "coordination.root"},
		{"store", "store: {driver: mysql}\n", "store.driver: \"mysql\" cannot be used: expected sqlite or postgres"},
		{
			"postgres without dsn", "store: {driver: postgres}\n",
			"store.driver: \"postgres\" cannot be used: expected store.dsn or store.dsn_file with it",
		},
		{
			"dsn twice", "store: {driver: postgres, dsn: 'host=/run', dsn_file: /a}\n",
			"store.dsn_file: \"/a\" cannot be used: expected store.dsn or store.dsn_file, not both",
		},
		{
			"dsn of sqlite", "store:\n  dsn: host=/run\n",
			"f.yaml:2: store.dsn: its value, which may be secret, cannot be used: expected nothing, or driver: postgres",
		},
		{"dsn file of sqlite", "store: {dsn_file: /a}\n", "store.dsn_file: \"/a\" cannot be used: expected nothing, or driver: postgres"},
		{"relative dsn file", "store: {driver: postgres, dsn_file: a}\n", "store.dsn_file: \"a\" cannot be used: expected an absolute path"},
		{
			"no dsn", "store: {driver: postgres, dsn: db1}\n",
			"store.dsn: its value, which may be secret, cannot be used: expected a connection string",
		},
		{"deliveries", "cleanup: {deliveries: {retention: 24h}}\n",
			"cleanup.deliveries.retention: \"24h0m0s\" cannot be used: expected 48h0m0s to "},
		{"queue", "jobs: {max_queued: -1}\n", "jobs.max_queued: \"-1\" cannot be used: expected 0 to 10000000"},
		{"lease", "jobs: {lease: 1ms}\n", "jobs.lease: \"1ms\" cannot be used: expected 1s to 1h0m0s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("f.yaml", []byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Parse: %v\nwant an error with %q", err, tt.want)
			}
		})
	}
}

func TestParseZooKeeper(t *testing.T) {
	t.Parallel()
	got, err := Parse("f.yaml",
		[]byte("coordination:\n  driver: zookeeper\n  servers: ['zk1:2181', '[2001:db8::1]:2181']\n  session_timeout: 4s\n  root: /a/b-1\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Coordination = Coordination{"zookeeper", []string{"zk1:2181", "[2001:db8::1]:2181"}, 4 * time.Second, "/a/b-1"}
	if diff := cmp.Diff(want, got, compare); diff != "" {
		t.Error(diff)
	}
}

func TestParseTellsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := Parse("f.yaml", []byte("foo: 1\njobs: {lease: x, bar: 2}\n"))
	if err == nil || strings.Count(err.Error(), "f.yaml:") != 3 {
		t.Errorf("Parse: %v, want three problems", err)
	}
	_, err = Parse("f.yaml", []byte("log: {level: x}\njobs: {lease: 1ms}\n"))
	if err == nil || strings.Count(err.Error(), "f.yaml:") != 2 {
		t.Errorf("Parse: %v, want two problems", err)
	}
}

func TestResolvers(t *testing.T) {
	t.Parallel()
	own, given := []netip.Addr{seedbed.ResolverAddr}, []netip.Addr{netip.MustParseAddr("192.0.2.2")}
	for _, c := range []struct{ dns, want []netip.Addr }{{nil, own}, {given, given}} {
		if got := (Network{DNS: c.dns}).Resolvers(); !slices.Equal(got, c.want) {
			t.Errorf("with %v: %v, want %v", c.dns, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(Example()))
	f.Add([]byte("a: &x [*x]\n<<: *x\n"))
	f.Add([]byte("jobs: {stage_timeout: {ready: 1s}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := Parse("f", text); err == nil {
			if err := c.Validate(); err != nil {
				t.Errorf("Parse gave an invalid configuration: %v", err)
			}
		}
	})
}
