package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"seedbed"
)

// problem is a key with an invalid value.
type problem struct {
	key   string // dotted path, in the form of yaml.PathString
	value any
	want  string
	// secret keeps the value, and its line, out of the message.
	secret bool
}

func (p problem) String() string {
	if p.secret {
		return fmt.Sprintf("%s: its value, which may be secret, cannot be used: expected %s", p.key, p.want)
	}
	return fmt.Sprintf("%s: %q cannot be used: expected %s", p.key, fmt.Sprint(p.value), p.want)
}

// Validate reports every invalid value, with its key and what would be valid. A configuration from
// Load is valid.
func (c Config) Validate() error {
	var errs []error
	for _, p := range c.problems() {
		errs = append(errs, errors.New(p.String()))
	}
	return errors.Join(errs...)
}

// checker collects problems.
type checker []problem

func (k *checker) need(ok bool, key string, value any, want string) {
	if !ok {
		*k = append(*k, problem{key: key, value: value, want: want})
	}
}

// secret is like need for a value that no message may show.
func (k *checker) secret(ok bool, key, want string) {
	if !ok {
		*k = append(*k, problem{key: key, want: want, secret: true})
	}
}

func (k *checker) oneOf(key, value string, words ...string) {
	k.need(slices.Contains(words, value), key, value, strings.Join(words, " or "))
}

func (k *checker) path(key, value string) {
	k.need(filepath.IsAbs(value) && !strings.ContainsRune(value, 0), key, value, "an absolute path")
}

// socket checks the path of a socket. With its final NUL it must fit into sockaddr_un.sun_path
// (unix(7)).
func (k *checker) socket(key, value string) {
	k.need(filepath.IsAbs(value) && len(value) < 108, key, value, "an absolute path of at most 107 bytes")
}

func (k *checker) tcp(key, value string) {
	host, port, err := net.SplitHostPort(value)
	n, perr := strconv.ParseUint(port, 10, 16)
	k.need(err == nil && perr == nil && n > 0 && host != "", key, value, "an address and a port, such as 127.0.0.1:7370")
}

func (k *checker) loopback(key, value string) {
	a, err := netip.ParseAddrPort(value)
	k.need(err == nil && a.Addr().IsLoopback() && a.Port() > 0, key, value, "a loopback address and a port, such as 127.0.0.1:7372")
}

func (k *checker) between(key string, value, low, high time.Duration) {
	k.need(value >= low && value <= high, key, value, fmt.Sprintf("%s to %s", low, high))
}

func (k *checker) count(key string, value, low, high int) {
	k.need(value >= low && value <= high, key, value, fmt.Sprintf("%d to %d", low, high))
}

func (k *checker) name(key, kind, value string) {
	k.need(seedbed.CheckName(kind, value) == nil, key, value, "1 to 63 letters, digits, '.', '_' or '-', starting with a letter or digit")
}

const (
	day  = 24 * time.Hour
	year = 365 * day
)

func (c Config) problems() []problem {
	var k checker
	k.name("node", "node", c.Node)
	k.path("data_dir", c.DataDir)
	k.path("run_dir", c.RunDir)
	k.store(c.Store)
	k.tcp("api.listen", c.API.Listen)
	k.socket("api.socket", c.API.Socket)
	k.path("api.token_file", c.API.TokenFile)
	k.need((c.API.TLS.Cert == "") == (c.API.TLS.Key == ""), "api.tls.key", c.API.TLS.Key, "api.tls.cert and api.tls.key, or neither")
	if c.API.TLS.Cert != "" {
		k.path("api.tls.cert", c.API.TLS.Cert)
		k.path("api.tls.key", c.API.TLS.Key)
	}
	k.oidc(c.OIDC)
	k.webhook(c.Webhook)
	k.socket("feed.socket", c.Feed.Socket)
	k.socket("worker.socket", c.Worker.Socket)
	k.loopback("worker.listen", c.Worker.Listen)
	k.path("worker.state", c.Worker.State)
	k.path("worker.data_dir", c.Worker.DataDir)
	k.path("worker.spool", c.Worker.Spool)
	k.path("worker.hooks_dir", c.Worker.HooksDir)
	k.path("worker.fence_dir", c.Worker.FenceDir)
	k.path("fencing.key_file", c.Fencing.KeyFile)
	k.need(c.Fencing.After == 0 || c.Fencing.After >= MinFencing, "fencing.after", c.Fencing.After, "0, or "+MinFencing.String()+" or more")
	k.need(c.Fencing.Share >= 0 && c.Fencing.Share <= 50, "fencing.share", c.Fencing.Share, "0 to 50")
	k.need(c.Storage.MaxUpload >= seedbed.MiB, "storage.max_upload", c.Storage.MaxUpload, "1MiB or more")
	for i, dir := range c.Storage.ImportDirs {
		key := fmt.Sprintf("storage.import_dirs[%d]", i)
		k.path(key, dir)
		k.need(filepath.Clean(dir) == dir, key, dir, "a path without . and .. and a / at its end")
	}
	for i, dir := range c.Storage.BackupDirs {
		key := fmt.Sprintf("storage.backup_dirs[%d]", i)
		k.path(key, dir)
		k.need(filepath.Clean(dir) == dir, key, dir, "a path without . and .. and a / at its end")
	}
	for i, line := range c.Storage.BackupCommands {
		k.need(len(strings.Fields(line)) > 0, fmt.Sprintf("storage.backup_commands[%d]", i), line, "a program and its arguments")
	}
	k.oneOf("metadata.listen", c.Metadata.Listen, MetadataAddr, MetadataRedirect)
	k.need(c.Metadata.TrackedConnections >= 1 && c.Metadata.TrackedConnections <= 1<<20, "metadata.tracked_connections",
		c.Metadata.TrackedConnections, "1 to 1048576")
	k.need(c.Metadata.FragmentRate >= 0 && c.Metadata.FragmentRate <= 100_000, "metadata.fragment_rate",
		c.Metadata.FragmentRate, "1 to 100000, or 0 for no bound")
	k.need(c.Metadata.RedirectPort >= 1024, "metadata.redirect_port", c.Metadata.RedirectPort, "1024 to 65535")
	k.path("metadata.state", c.Metadata.State)
	k.loopback("metadata.health", c.Metadata.Health)
	k.served(c.Metadata)
	k.identity(c.Identity)
	k.pools(c.Storage.Pools)
	k.libvirt(c.Libvirt)
	k.scripts(c.Scripts)
	k.network(c.Network)
	k.jobs(c.Jobs)
	if _, err := cron.ParseStandard(c.Cleanup.Mappings.Schedule); err != nil {
		k.need(false, "cleanup.mappings.schedule", c.Cleanup.Mappings.Schedule,
			`five cron fields, such as "*/10 * * * *" (`+err.Error()+")")
	}
	k.between("cleanup.mappings.grace", c.Cleanup.Mappings.Grace, time.Second, year)
	// Longer than a timestamp may be off in either direction: otherwise a forgotten delivery could
	// be replayed.
	k.between("cleanup.deliveries.retention", c.Cleanup.Deliveries.Retention, 2*day, 10*year)
	k.between("cleanup.access.retention", c.Cleanup.Access.Retention, time.Hour, 10*year)
	k.between("cleanup.output.retention", c.Cleanup.Output.Retention, time.Hour, 10*year)
	k.between("cleanup.audit.retention", c.Cleanup.Audit.Retention, 24*time.Hour, 10*year)
	k.between("cleanup.backups.retention", c.Cleanup.Backups.Retention, 24*time.Hour, 100*year)
	k.cluster(c)
	k.coordination(c.Coordination)
	k.placement(c.Placement)
	k.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	k.sockets(c)
	return k
}

// sockets refuses two listeners on one address.
func (k *checker) sockets(c Config) {
	seen := map[string]string{}
	for _, l := range []struct{ key, value string }{
		{"api.listen", c.API.Listen}, {"webhook.listen", c.Webhook.Listen},
		{"metadata.health", c.Metadata.Health}, {"worker.listen", c.Worker.Listen},
		{"worker.cluster_listen", c.Worker.ClusterListen}, {"feed.cluster_listen", c.Feed.ClusterListen},
		{"api.socket", c.API.Socket}, {"feed.socket", c.Feed.Socket}, {"worker.socket", c.Worker.Socket},
	} {
		if l.value == "" {
			continue
		}
		other, taken := seen[l.value]
		k.need(!taken, l.key, l.value, "a place that "+other+" does not have")
		seen[l.value] = l.key
	}
}

func (k *checker) libvirt(l Libvirt) {
	u, err := url.Parse(l.URI)
	k.need(err == nil && u.Scheme != "", "libvirt.uri", l.URI, "a libvirt URI, such as qemu:///system")
	k.oneOf("libvirt.domain_type", l.DomainType, "auto", "kvm", "qemu")
	k.path("libvirt.console_dir", l.ConsoleDir)
	k.path("libvirt.cdrom_dir", l.CDROMDir)
}

// ifname matches an interface name. With its final NUL it fits into IFNAMSIZ (linux/if.h).
var ifname = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$`)

func (k *checker) network(n Network) {
	k.name("network.name", "network", n.Name)
	k.need(ifname.MatchString(n.Bridge), "network.bridge", n.Bridge, "an interface name of 1 to 15 letters, digits, '_', '.' or '-'")
	if !n.Prefix.Auto() {
		ok := n.Prefix.Addr().Is4() && n.Prefix.Bits() >= 16 && n.Prefix.Bits() <= 29 && n.Prefix.Masked() == n.Prefix.Prefix
		k.need(ok, "network.prefix", n.Prefix, "auto, or an IPv4 subnet of /16 to /29 without host bits, such as 10.80.0.0/24")
	}
	for i, a := range n.DNS {
		k.need(a.Is4() && !a.IsLoopback() && !a.IsUnspecified(), fmt.Sprintf("network.dns[%d]", i), a, "an IPv4 address that guests can reach")
	}
	k.need(len(n.Forwarders) <= 3, "network.forwarders", n.Forwarders, "at most 3 addresses")
	for i, a := range n.Forwarders {
		k.need(a.IsValid() && !a.IsUnspecified() && a != seedbed.ResolverAddr, fmt.Sprintf("network.forwarders[%d]", i), a,
			"the address of a resolver that this host can reach")
	}
	for name, iface := range n.Uplinks {
		k.need(ifname.MatchString(name) && ifname.MatchString(iface), "network.uplinks."+name, iface, "the name of an interface, such as eno1")
	}
	k.need(!n.Address.IsValid() || n.Address == n.Address.Unmap().WithZone("") && !n.Address.IsLoopback() &&
		!n.Address.IsUnspecified() && !n.Address.IsMulticast() && !n.Address.IsLinkLocalUnicast(),
		"network.address", n.Address, "an address of this host that the other nodes reach")
	k.overlay(n.Overlay, n.Address)
	k.need(n.PVCUplink == "" || ifname.MatchString(n.PVCUplink), "network.pvc_uplink", n.PVCUplink, "the name of an uplink, such as br0")
	for i, p := range n.ProjectPrefixes {
		least := 8
		if p.Addr().Is6() {
			least = 16
		}
		k.need(p == p.Masked() && !p.Addr().Is4In6() && p.Bits() >= least, fmt.Sprintf("network.project_prefixes[%d]", i), p,
			"an IPv4 subnet of at least 8 bits or an IPv6 one of at least 16, without host bits, such as 10.128.0.0/9 or fd12:3456:789a::/48")
	}
}

func (k *checker) overlay(o Overlay, node netip.Addr) {
	k.oneOf("network.overlay.encryption", o.Encryption, EncryptionNone, EncryptionWireGuard)
	k.need(o.Port != 0 && o.Port != seedbed.VXLANPort, "network.overlay.port", o.Port,
		"a UDP port of 1 to 65535 other than 4789, such as 51820")
	if g := o.Group; g.IsValid() {
		local := g.IsLinkLocalMulticast() || g.IsInterfaceLocalMulticast()
		k.need(g.IsMulticast() && !local && g == g.Unmap().WithZone(""), "network.overlay.group", g,
			"a multicast group of your site, such as 239.1.2.3 or ff05::4789")
		k.need(!node.IsValid() || g.Is4() == node.Is4(), "network.overlay.group", g, "a group of the family of network.address")
		k.need(!o.Encrypted(), "network.overlay.group", g,
			"none with the encryption wireguard, where each packet is for one node: leave out the group, or the encryption")
	}
	k.need(!o.EVPN || !o.Encrypted(), "network.overlay.evpn", o.EVPN,
		"false with the encryption wireguard, whose tunnels the daemon does not know: leave out one of them")
	k.need(!o.EVPN || !o.Group.IsValid(), "network.overlay.evpn", o.EVPN,
		"false with a group, since the daemon says where the frames for all go: leave out one of them")
}

func (k *checker) jobs(j Jobs) {
	k.count("jobs.workers", j.Workers, 1, 64)
	k.between("jobs.lease", j.Lease, time.Second, time.Hour)
	k.between("jobs.poll", j.Poll, 10*time.Millisecond, time.Minute)
	k.count("jobs.attempts", j.Attempts, 1, 100)
	k.count("jobs.max_queued", j.MaxQueued, 0, 10_000_000)
	k.count("jobs.per_node", j.PerNode, 0, 1000)
	k.count("jobs.per_pool", j.PerPool, 0, 1000)
	known := stageTimeouts()
	for i, h := range j.Hooks {
		key := fmt.Sprintf("jobs.hooks[%d].", i)
		_, ok := known[h.Stage]
		k.need(ok, key+"stage", h.Stage, "one of "+strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		k.need(h.Kind == "" || slices.Contains(seedbed.JobKinds(), h.Kind), key+"kind", h.Kind,
			"a kind of job such as create, or nothing for all kinds")
		k.oneOf(key+"when", h.When, seedbed.HookBefore, seedbed.HookAfter)
		switch {
		case h.Script == "" && h.Endpoint == "":
			k.need(false, key+"endpoint", "", "an endpoint's name, or in its place a script's")
		case h.Script != "" && h.Endpoint != "":
			k.need(false, key+"script", h.Script, "a script or an endpoint, not both")
		case h.Script != "":
			k.name(key+"script", "script", h.Script)
		default:
			k.name(key+"endpoint", "endpoint", h.Endpoint)
		}
		k.between(key+"timeout", h.Limit(), time.Second, time.Hour)
	}
	for _, stage := range slices.Sorted(maps.Keys(j.StageTimeout)) {
		if _, ok := known[stage]; !ok {
			k.need(false, "jobs.stage_timeout", stage, "one of "+strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			continue
		}
		k.between("jobs.stage_timeout."+stage, j.StageTimeout[stage], time.Second, 7*day)
	}
}
