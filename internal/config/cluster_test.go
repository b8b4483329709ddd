package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseCluster(t *testing.T) {
	t.Parallel()
	got, err := Parse("f.yaml", []byte(`
hypervisor: false
worker: {cluster_listen: '10.0.0.2:7375'}
feed: {cluster_listen: '[2001:db8::1]:7374', servers: ['cp1.example:7374', 'cp2.example:7374']}
storage: {pools: [{name: nfs, type: dir, path: /nfs, shared: true}]}
cluster:
  ca: /c/ca.pem
  control: {cert: /c/control.pem, key: /c/control.key}
  worker: {cert: /c/worker.pem, key: /c/worker.key}
  metadata: {cert: /c/metadata.pem, key: /c/metadata.key}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Hypervisor = false
	want.Worker.ClusterListen, want.Feed.ClusterListen = "10.0.0.2:7375", "[2001:db8::1]:7374"
	want.Feed.Servers = []string{"cp1.example:7374", "cp2.example:7374"}
	want.Storage.Pools = []Pool{{Name: "nfs", Type: PoolDir, Path: "/nfs", Shared: true}}
	want.Cluster = Cluster{CA: "/c/ca.pem", Control: KeyPair{"/c/control.pem", "/c/control.key"},
		Worker: KeyPair{"/c/worker.pem", "/c/worker.key"}, Metadata: KeyPair{"/c/metadata.pem", "/c/metadata.key"}}
	if diff := cmp.Diff(want, got, compare); diff != "" {
		t.Error(diff)
	}
	if c := Default(); !c.Hypervisor || c.Cluster.Control.Given() || !got.Cluster.Control.Given() {
		t.Errorf("by default: %+v", c.Cluster)
	}
}

func TestParseRefusesCluster(t *testing.T) {
	t.Parallel()
	const pair = "{ca: /ca, worker: {cert: /c, key: /k}, control: {cert: /c, key: /k}, metadata: {cert: /c, key: /k}}"
	for name, c := range map[string]struct{ text, want string }{
		"certificate without key": {"cluster: {ca: /ca, worker: {cert: /c}}\n",
			"cluster.worker.key: \"\" cannot be used: expected cluster.worker.cert and cluster.worker.key, or neither"},
		"key without certificate": {"cluster: {ca: /ca, metadata: {key: /k}}\n", "cluster.metadata.key: \"/k\" cannot be used"},
		"no authority": {"cluster: {control: {cert: /c, key: /k}}\n",
			"cluster.ca: \"\" cannot be used: expected the authority that signed cluster.control.cert"},
		"relative authority": {"cluster: {ca: ca.pem}\n", "cluster.ca: \"ca.pem\" cannot be used: expected an absolute path"},
		"relative key": {"cluster: {ca: /ca, control: {cert: /c, key: k}}\n",
			"cluster.control.key: \"k\" cannot be used: expected an absolute path"},
		"worker without a pair": {"worker: {cluster_listen: '10.0.0.2:7375'}\n",
			"worker.cluster_listen: \"10.0.0.2:7375\" cannot be used: expected cluster.worker with it"},
		"feed without a pair": {"feed: {cluster_listen: '10.0.0.1:7374'}\n",
			"feed.cluster_listen: \"10.0.0.1:7374\" cannot be used: expected cluster.control with it"},
		"servers without a pair": {"feed: {servers: ['cp1:7374']}\n",
			"feed.servers: \"[cp1:7374]\" cannot be used: expected cluster.metadata with it"},
		"server without a port": {"feed: {servers: [cp1]}\ncluster: " + pair + "\n",
			"feed.servers[0]: \"cp1\" cannot be used: expected an address and a port"},
		"same server twice": {"feed: {servers: ['a:1', 'a:1']}\ncluster: " + pair + "\n",
			"feed.servers[1]: \"a:1\" cannot be used: expected a control host that is not named twice"},
		"listener without a port": {"worker: {cluster_listen: '10.0.0.2'}\ncluster: " + pair + "\n",
			"worker.cluster_listen: \"10.0.0.2\" cannot be used: expected an address and a port"},
		"both in one place": {"worker: {cluster_listen: '10.0.0.2:1'}\nfeed: {cluster_listen: '10.0.0.2:1'}\ncluster: " + pair + "\n",
			"expected a place that worker.cluster_listen does not have"},
		"as the API": {"feed: {cluster_listen: '127.0.0.1:7370'}\ncluster: " + pair + "\n",
			"expected a place that api.listen does not have"},
		"unknown role":            {"cluster: {admin: {}}\n", "unknown key \"cluster.admin\": expected one of ca, control, metadata, worker"},
		"hypervisor of some kind": {"hypervisor: kvm\n", "hypervisor: \"kvm\" is not a switch"},
		"shared ceph pool": {"storage: {pools: [{name: a, type: ceph, ceph_pool: a, shared: true}]}\n",
			"storage.pools[0].shared: \"true\" cannot be used: expected no such key in a pool of type ceph"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("f.yaml", []byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Parse: %v\nwant an error with %q", err, c.want)
			}
		})
	}
}
