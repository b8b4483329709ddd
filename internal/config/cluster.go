package config

import (
	"fmt"
	"strings"
)

// Cluster holds the certificates by which the hosts of an installation authenticate each other, in
// PEM. All are empty in an installation of one host.
type Cluster struct {
	// CA is the authority that signs all of them. It must sign no other certificates.
	CA string `yaml:"ca"`
	// Control, Worker and Metadata are this host's certificates, one for each daemon.
	Control  KeyPair `yaml:"control"`
	Worker   KeyPair `yaml:"worker"`
	Metadata KeyPair `yaml:"metadata"`
}

// KeyPair is a certificate and its private key. Either both are set or neither.
type KeyPair struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// Given reports whether the pair is set.
func (p KeyPair) Given() bool { return p.Cert != "" }

// cluster checks the certificates, and that those exist which other keys need.
func (k *checker) cluster(c Config) {
	if c.Cluster.CA != "" {
		k.path("cluster.ca", c.Cluster.CA)
	}
	for _, p := range []struct {
		key string
		KeyPair
	}{{"cluster.control", c.Cluster.Control}, {"cluster.worker", c.Cluster.Worker}, {"cluster.metadata", c.Cluster.Metadata}} {
		k.need((p.Cert == "") == (p.Key == ""), p.key+".key", p.Key, p.key+".cert and "+p.key+".key, or neither")
		if !p.Given() {
			continue
		}
		k.path(p.key+".cert", p.Cert)
		if p.Key != "" {
			k.path(p.key+".key", p.Key)
		}
		k.need(c.Cluster.CA != "", "cluster.ca", c.Cluster.CA, "the authority that signed "+p.key+".cert")
	}
	if l := c.Worker.ClusterListen; l != "" {
		k.tcp("worker.cluster_listen", l)
		k.need(c.Cluster.Worker.Given(), "worker.cluster_listen", l, "cluster.worker with it (docs/how-to/cluster.md)")
	}
	if l := c.Feed.ClusterListen; l != "" {
		k.tcp("feed.cluster_listen", l)
		k.need(c.Cluster.Control.Given(), "feed.cluster_listen", l, "cluster.control with it (docs/how-to/cluster.md)")
	}
	seen := map[string]bool{}
	for i, server := range c.Feed.Servers {
		key := fmt.Sprintf("feed.servers[%d]", i)
		k.tcp(key, server)
		k.need(!seen[server], key, server, "a control host that is not named twice")
		seen[server] = true
	}
	k.need(len(c.Feed.Servers) == 0 || c.Cluster.Metadata.Given(), "feed.servers", "["+strings.Join(c.Feed.Servers, ", ")+"]",
		"cluster.metadata with it (docs/how-to/cluster.md)")
}
