package config

import (
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"seedbed"
)

// Default returns the configuration of a host without a configuration file.
func Default() Config {
	c := initial()
	c.complete()
	return c
}

// initial returns the defaults that do not depend on other keys.
func initial() Config {
	return Config{
		DataDir: "/var/lib/seedbed",
		RunDir:  "/run/seedbed",

		Hypervisor: true,
		Store:      Store{Driver: StoreSQLite},
		API:        API{Listen: "127.0.0.1:7370"},
		OIDC:       defaultOIDC(),
		Webhook:    Webhook{Listen: "127.0.0.1:7371", MaxBody: 256 * seedbed.KiB, TrustedProxies: []netip.Prefix{}, Hooks: []Hook{}},
		Feed:       Feed{Servers: []string{}},
		Worker: Worker{
			Listen: "127.0.0.1:7373", State: "/run/seedbed-worker", DataDir: "/var/lib/seedbed-worker",
			Spool: "/var/lib/seedbed-pools/spool", HooksDir: "/etc/seedbed/hooks.d",
			FenceDir: "/etc/seedbed/fence.d",
		},
		Metadata: Metadata{Listen: MetadataAddr, RedirectPort: 7380, TrackedConnections: 4096, FragmentRate: 6, Health: "127.0.0.1:7372",
			Region: "seedbed", Zone: "seedbed-local", MaxUserData: seedbed.MiB},
		Storage: Storage{Pools: []Pool{{Name: "default", Type: "dir", Path: "/var/lib/seedbed-pools/default"}}, MaxUpload: 1 * seedbed.TiB,
			ImportDirs: []string{}, BackupDirs: []string{"/mnt", "/srv", "/var/lib/seedbed-backups"}, BackupCommands: []string{}},
		Libvirt: Libvirt{URI: "qemu:///system", DomainType: "auto", ConsoleDir: "/var/log/seedbed-console",
			CDROMDir: "/var/lib/seedbed-cdrom"},
		Scripts: defaultScripts(),
		Network: Network{Name: "default", Bridge: "seedbed0", NAT: true, DHCP: true, DNS: []netip.Addr{}, Forwarders: []netip.Addr{},
			ProjectPrefixes: []netip.Prefix{},
			Uplinks:         map[string]string{}, Overlay: Overlay{Encryption: EncryptionNone, Port: seedbed.TunnelPort}},
		Jobs: Jobs{
			Workers: 4, Lease: 15 * time.Second, Poll: 500 * time.Millisecond, Attempts: 5, MaxQueued: 100_000, Hooks: []seedbed.StageHook{},
		},
		Cleanup: Cleanup{
			Mappings:   Mappings{Schedule: "*/10 * * * *", Grace: 10 * time.Minute},
			Deliveries: Records{Retention: 7 * 24 * time.Hour},
			Access:     Records{Retention: 7 * 24 * time.Hour},
			Output:     Records{Retention: 30 * 24 * time.Hour},
			Audit:      Records{Retention: 365 * 24 * time.Hour},
			Backups:    Records{Retention: 365 * 24 * time.Hour},
		},
		Coordination: Coordination{Driver: CoordinationLocal, Servers: []string{}, SessionTimeout: 10 * time.Second, Root: "/seedbed"},
		Placement:    Placement{Selector: "mem", MemoryOvercommit: 1, VCPUOvercommit: Unlimited},
		Fencing:      Fencing{After: time.Minute, Share: 50},
		Log:          Log{Level: "info"},
	}
}

func stageTimeouts() map[string]time.Duration {
	all := scriptTimeouts()
	maps.Copy(all, map[string]time.Duration{
		"volumes": 10 * time.Minute, "define": time.Minute, "publish": time.Minute,
		"start": 2 * time.Minute, "ready": 10 * time.Minute,
		"shutdown": time.Minute, "stop": 2 * time.Minute, "retract": time.Minute, "undefine": time.Minute, "delete": 10 * time.Minute,
		"import": time.Hour, "copy": time.Hour, "generalise": 30 * time.Minute,
		"flatten": 24 * time.Hour, "redefine": time.Minute, "grow": 10 * time.Minute,
		"snapshot": 10 * time.Minute, "delete-snapshot": 10 * time.Minute, "restore": 24 * time.Hour, "delete-image": 10 * time.Minute,
		"make-volume": 10 * time.Minute, "delete-volume": 10 * time.Minute, "show-volume": time.Minute, "hide-volume": time.Minute,
		"attach": 2 * time.Minute, "detach": 2 * time.Minute, "limit": time.Minute, "configure": 2 * time.Minute, "rename": 2 * time.Minute,
		"publish-nic": time.Minute, "plug": 2 * time.Minute, "show-nic": time.Minute, "hide-nic": time.Minute, "unplug": 2 * time.Minute,
		"switch-nic": time.Minute, "drop-nic": time.Minute,
		"move": time.Minute, "migrate": 2 * time.Hour, "leave": 2 * time.Minute,
		"fence": 10 * time.Minute, "recover": time.Hour,
		"back-up": 24 * time.Hour, "verify-backup": 24 * time.Hour, "remove-backup": 10 * time.Minute, "sweep-backups": 24 * time.Hour,
		"take-volumes": 10 * time.Minute, "take-domain": 10 * time.Minute,
		"release-domain": 10 * time.Minute, "release-volumes": 10 * time.Minute,
	})
	return all
}

// complete fills in the defaults that depend on other keys or on the host.
func (c *Config) complete() {
	if c.Node == "" {
		c.Node, _ = os.Hostname() // Validate refuses an empty one
	}
	below := func(p *string, dir, name string) {
		if *p == "" {
			*p = filepath.Join(dir, name)
		}
	}
	below(&c.Store.Path, c.DataDir, "seedbed.db")
	below(&c.API.Socket, c.RunDir, "control.sock")
	below(&c.API.TokenFile, c.DataDir, "admin.token")
	below(&c.Feed.Socket, c.RunDir, "feed.sock")
	below(&c.Worker.Socket, c.RunDir, "worker.sock")
	below(&c.Fencing.KeyFile, c.DataDir, "fencing.key")
	below(&c.Metadata.State, c.DataDir, "metadata")
	for i := range c.Storage.Pools {
		c.Storage.Pools[i].complete()
	}

	all := stageTimeouts()
	maps.Copy(all, c.Jobs.StageTimeout)
	c.Jobs.StageTimeout = all
}
