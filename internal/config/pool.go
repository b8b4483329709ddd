package config

import (
	"cmp"
	"fmt"
	"regexp"
	"time"
)

// These are the values of Pool.Type.
const (
	PoolDir  = "dir"
	PoolCeph = "ceph"
)

// Pool is a place for volumes and images. The first pool of the list is the default.
type Pool struct {
	Name string `yaml:"name"`
	Type string `yaml:"type"` // PoolDir or PoolCeph
	// Path is the directory of a dir pool.
	Path string `yaml:"path"`
	// Shared says that all nodes with a dir pool of that name share its directory, such as on NFS.
	// A ceph pool is always shared.
	Shared bool `yaml:"shared"`
	// CephPool is the name of a ceph pool in its cluster.
	CephPool string `yaml:"ceph_pool"`
	// Conf is the cluster's configuration file. The default is /etc/ceph/ceph.conf.
	Conf string `yaml:"conf"`
	// User is the Ceph user, without "client.". The default is seedbed.
	User string `yaml:"user"`
	// Keyring is the file with the user's key. The default is /etc/ceph/ceph.client.<user>.keyring.
	Keyring string `yaml:"keyring"`
	// Trash is how long the volumes of a removed instance are kept. Zero, the default, removes them
	// at once.
	Trash time.Duration `yaml:"trash"`
}

// complete fills in a ceph pool's defaults.
func (p *Pool) complete() {
	if p.Type != PoolCeph {
		return
	}
	p.Conf = cmp.Or(p.Conf, "/etc/ceph/ceph.conf")
	p.User = cmp.Or(p.User, "seedbed")
	p.Keyring = cmp.Or(p.Keyring, "/etc/ceph/ceph.client."+p.User+".keyring")
}

// cephName matches the name of a Ceph pool or user. It excludes the characters that are special in
// Ceph's and QEMU's option syntax.
var cephName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$`)

const cephNameWanted = "letters, digits, '.', '_' or '-', starting with a letter or digit"

func (k *checker) pools(pools []Pool) {
	k.need(len(pools) > 0, "storage.pools", "[]", "one pool or more")
	names := map[string]bool{}
	for i, p := range pools {
		key := fmt.Sprintf("storage.pools[%d].", i)
		k.name(key+"name", "pool", p.Name)
		k.need(!names[p.Name], key+"name", p.Name, "a name that no other pool has")
		names[p.Name] = true
		if p.Trash != 0 {
			k.between(key+"trash", p.Trash, time.Minute, year)
		}
		switch p.Type {
		case PoolDir:
			k.path(key+"path", p.Path)
			for _, c := range []struct{ key, value string }{
				{"ceph_pool", p.CephPool}, {"conf", p.Conf}, {"user", p.User}, {"keyring", p.Keyring},
			} {
				k.need(c.value == "", key+c.key, c.value, "no such key in a pool of type dir, or type: ceph")
			}
		case PoolCeph:
			k.need(cephName.MatchString(p.CephPool), key+"ceph_pool", p.CephPool, "the pool's name in Ceph: "+cephNameWanted)
			k.need(cephName.MatchString(p.User), key+"user", p.User, "a Ceph user without \"client.\": "+cephNameWanted)
			k.path(key+"conf", p.Conf)
			k.path(key+"keyring", p.Keyring)
			k.need(p.Path == "", key+"path", p.Path, "no path in a pool of type ceph, or type: dir")
			k.need(!p.Shared, key+"shared", p.Shared, "no such key in a pool of type ceph, which is shared anyway")
		default:
			k.oneOf(key+"type", p.Type, PoolDir, PoolCeph)
		}
	}
}
