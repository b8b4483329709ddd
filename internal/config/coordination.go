package config

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Coordination configures how the control hosts of an installation find each other.
type Coordination struct {
	Driver  string   `yaml:"driver"`  // CoordinationLocal or CoordinationZooKeeper
	Servers []string `yaml:"servers"` // of ZooKeeper, each host:port
	// SessionTimeout is the time after which a silent control host counts as dead.
	SessionTimeout time.Duration `yaml:"session_timeout"`
	Root           string        `yaml:"root"` // the znode below which everything is kept
}

// These are the values of Coordination.Driver.
const (
	CoordinationLocal     = "local"     // one control host, in the process
	CoordinationZooKeeper = "zookeeper" // several, through ZooKeeper
)

// znode matches a znode's path without empty elements. Elements cannot begin with a dot, because
// ZooKeeper refuses "." and "..".
var znode = regexp.MustCompile(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}){1,8}$`)

func (k *checker) coordination(c Coordination) {
	k.oneOf("coordination.driver", c.Driver, CoordinationLocal, CoordinationZooKeeper)
	servers := "[" + strings.Join(c.Servers, ", ") + "]"
	switch c.Driver {
	case CoordinationLocal:
		k.need(len(c.Servers) == 0, "coordination.servers", servers, "no servers, or driver: zookeeper")
	case CoordinationZooKeeper:
		k.need(len(c.Servers) > 0, "coordination.servers", servers, "ZooKeeper's servers, such as [zk1:2181, zk2:2181, zk3:2181]")
	}
	seen := map[string]bool{}
	for i, server := range c.Servers {
		key := fmt.Sprintf("coordination.servers[%d]", i)
		k.tcp(key, server)
		k.need(!seen[server], key, server, "a server that is not named twice")
		seen[server] = true
	}
	k.between("coordination.session_timeout", c.SessionTimeout, time.Second, 5*time.Minute)
	k.need(znode.MatchString(c.Root), "coordination.root", c.Root, "the path of a znode, such as /seedbed")
}
