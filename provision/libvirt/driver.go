//go:build libvirt

package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	lv "libvirt.org/go/libvirt"

	"seedbed"
	"seedbed/internal/cgate"
	"seedbed/provision/seed"
)

// DefaultURI is the system libvirtd of this host.
const DefaultURI = "qemu:///system"

// closePatience bounds how long Close waits for calls inside the C library.
const closePatience = 10 * time.Second

// Config says which libvirt to use, and how its domains are made.
type Config struct {
	// URI of the connection (https://libvirt.org/uri.html); empty is DefaultURI.
	URI string
	// DomainType is auto (also when empty), kvm or qemu.
	DomainType string
	// ConsoleDir is the absolute path of the directory of the console logs, which virtlogd writes
	// on the same host. It is created if it is missing.
	ConsoleDir string
	// CDROMDir is the absolute path of the directory of the CD-ROMs by which guests get their metadata. It is created if it
	// is missing.
	CDROMDir string
	// Uplinks are the interfaces of this host for uplinks of another name.
	Uplinks map[string]string
	// Secrets are the keys of the Ceph users of RBD disks. The driver passes them to libvirt when
	// it connects, and before it starts a domain with such a disk.
	Secrets []Secret
	// Volumes finds the volumes of this host's pools; nil if there are none in files.
	Volumes Volumes
	Log     *slog.Logger
}

// Driver is a hypervisor. It satisfies worker.Hypervisor. Its methods may be called concurrently.
type Driver struct {
	cfg  Config
	gate *cgate.Gate
	// agents is the gate in front of guest agents. What they hold up does not hold up other calls: asks is how many are asked at
	// the same time.
	agents *cgate.Gate
	// moves is the gate in front of migrations, which may take hours.
	moves *cgate.Gate
	asks  chan struct{}
	deaf  deafAgents
	conns *connPool[*lv.Connect]
	hub   *hub

	raw        chan rawEvent
	overflow   atomic.Bool // an event did not fit into raw
	mu         sync.Mutex
	known      map[seedbed.InstanceID]bool // tagged domains seen, for events of removed domains
	cachedInfo hostInfo                    // for health reports
	cachedHost cachedHost                  // for new domains

	pools sync.Mutex // held by openPool

	stop context.CancelFunc
	wg   sync.WaitGroup
}

// Open starts a driver, which follows libvirt's events until Close. It does not wait for libvirtd:
// while that is away, calls return seedbed.ErrUnavailable. The error is seedbed.ErrInvalid for a
// configuration that cannot work. ctx is only used during Open.
func Open(ctx context.Context, cfg Config) (*Driver, error) {
	cfg.URI = cmp.Or(cfg.URI, DefaultURI)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkDomainType(cfg.DomainType); err != nil {
		return nil, err
	}
	if err := cmp.Or(openConsoleDir(cfg.ConsoleDir), seed.Open(cfg.CDROMDir)); err != nil {
		return nil, err
	}
	if err := events.acquire(); err != nil {
		return nil, err
	}
	d := &Driver{
		cfg: cfg, gate: newGate(), agents: newAgentGate(), moves: newMoveGate(), asks: make(chan struct{}, maxAsks), hub: newHub(),
		conns: newConns(cfg.URI), raw: make(chan rawEvent, eventBuffer), known: map[seedbed.InstanceID]bool{},
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = stop
	l := &link{uri: cfg.URI, log: cfg.Log, prepare: d.prepare, up: d.followed, down: d.unfollowed}
	d.wg.Go(func() { l.run(running) })
	d.wg.Go(func() { d.dispatch(running) })
	d.wg.Go(func() { d.closeIdleConns(running) })
	return d, nil
}

// Close ends the connections and waits for running calls. It returns an error if calls are stuck
// inside the C library; they then end with the process.
func (d *Driver) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	d.stop()
	err := errors.Join(d.agents.Close(ctx), d.moves.Close(ctx), d.gate.Close(ctx), cgate.Await(ctx, "the connection to libvirt", d.wg.Wait),
		cgate.Await(ctx, "idle connections to libvirt", d.conns.close))
	if err == nil {
		events.release()
	}
	return err
}

// call runs fn with a connection of its own, behind the gate, and explains its error. If the call
// succeeds in time, the connection is kept for later calls.
func call[T any](
	ctx context.Context,
	d *Driver,
	what string,
	key seedbed.InstanceID,
	fn func(context.Context, *lv.Connect) (T, error),
) (T, error) {
	return cgate.Through(ctx, d.gate, what, string(key), func(ctx context.Context) (T, error) { return connected(ctx, d, what, fn) })
}

// connected runs fn with a connection of its own, inside a gate, and explains its error.
func connected[T any](ctx context.Context, d *Driver, what string, fn func(context.Context, *lv.Connect) (T, error)) (T, error) {
	var none T
	conn, err := d.conns.get()
	if err != nil {
		return none, fmt.Errorf("%s: %w", what, err)
	}
	sound := false
	defer func() {
		if sound {
			d.conns.put(conn)
		} else {
			conn.Close()
		}
	}()
	if err := ctx.Err(); err != nil { // the caller has left
		return none, cgate.GaveUp("libvirt", what, err)
	}
	v, err := fn(ctx, conn)
	if err == nil {
		sound = ctx.Err() == nil
		return v, nil
	}
	if alive, aliveErr := conn.IsAlive(); aliveErr != nil || !alive {
		return none, seedbed.Errorf(seedbed.ErrUnavailable, "%s: the connection to libvirt at %s broke: %v", what, d.cfg.URI, err)
	}
	return none, explain(what, err)
}

// do is call without a result.
func (d *Driver) do(ctx context.Context, what string, key seedbed.InstanceID, fn func(context.Context, *lv.Connect) error) error {
	_, err := call(ctx, d, what, key, func(ctx context.Context, conn *lv.Connect) (struct{}, error) {
		return struct{}{}, fn(ctx, conn)
	})
	return err
}

// find looks up a domain that carries our tag; the caller frees it. It returns ErrNotFound if there
// is none of that ID, and ErrConflict if its tag is missing or another domain's.
func find(conn *lv.Connect, id seedbed.InstanceID) (*lv.Domain, Tag, error) {
	if _, err := seedbed.ParseInstanceID(string(id)); err != nil {
		return nil, Tag{}, err
	}
	dom, err := conn.LookupDomainByUUIDString(string(id))
	if err != nil {
		return nil, Tag{}, absentDomain(err, id)
	}
	tag, ours, err := tagOf(dom, id)
	if err == nil && !ours {
		err = seedbed.Errorf(seedbed.ErrConflict,
			"domain %s is not Seedbed's: its metadata does not carry Seedbed's tag, so it is not changed", id)
	}
	if err != nil {
		free(dom)
		return nil, Tag{}, absentDomain(err, id)
	}
	return dom, tag, nil
}

// absentDomain translates err to ErrNotFound if libvirt reports that the domain does not exist.
func absentDomain(err error, id seedbed.InstanceID) error {
	if has(err, lv.ERR_NO_DOMAIN) {
		return seedbed.Errorf(seedbed.ErrNotFound, "domain %s does not exist", id)
	}
	return err
}

// tagOf reads a domain's tag. ours is false if there is none, or it is another domain's.
func tagOf(dom *lv.Domain, id seedbed.InstanceID) (tag Tag, ours bool, err error) {
	doc, err := dom.GetMetadata(lv.DOMAIN_METADATA_ELEMENT, Namespace, lv.DOMAIN_AFFECT_CURRENT)
	if has(err, lv.ERR_NO_DOMAIN_METADATA) {
		return Tag{}, false, nil
	}
	if err != nil {
		return Tag{}, false, err
	}
	tag, err = ParseTag(doc)
	if err != nil {
		return Tag{}, false, nil // another program uses the same element name
	}
	return tag, tag.Instance == id, nil
}

// free releases Go's reference to a domain. It cannot fail for a valid reference.
func free(dom *lv.Domain) { _ = dom.Free() }

// newConns makes the pool of connections for calls (docs/decisions/0002-libvirt-connections.md).
func newConns(uri string) *connPool[*lv.Connect] {
	return &connPool[*lv.Connect]{
		open:      func() (*lv.Connect, error) { return dial(uri) },
		alive:     answers,
		closeConn: func(conn *lv.Connect) { conn.Close() },
	}
}

// answers reports whether libvirtd answers on the connection, with the cheapest call that reaches
// it.
func answers(conn *lv.Connect) bool {
	if alive, err := conn.IsAlive(); err != nil || !alive {
		return false
	}
	_, err := conn.GetLibVersion()
	return err == nil
}

// closeIdleConns closes idle connections until ctx ends.
func (d *Driver) closeIdleConns(ctx context.Context) {
	tick := time.NewTicker(idleTime / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		// Closing a connection is a call to libvirtd too. If it does not answer, the next calls
		// report that.
		_, _ = cgate.Through(ctx, d.gate, "close idle connections", "", func(context.Context) (struct{}, error) {
			d.conns.sweep()
			return struct{}{}, nil
		})
	}
}

// hostCacheTime is how long the host's capabilities are cached while libvirtd lives. libvirtd
// determines them on each request, which takes longer than all else that defining a domain needs.
const hostCacheTime = time.Minute

// cachedHost caches the host for which domains are defined, and the reason for its domain type.
type cachedHost struct {
	host   Host
	reason string
	at     time.Time // zero if nothing is cached
}

// host returns what the domain XML needs to know of the host behind conn, from the cache if it is
// recent.
func (d *Driver) host(conn *lv.Connect) (Host, error) {
	d.mu.Lock()
	c := d.cachedHost
	d.mu.Unlock()
	if !c.at.IsZero() && time.Since(c.at) < hostCacheTime {
		return c.host, nil
	}
	c, err := d.findHost(conn)
	return c.host, err
}

// findHost determines what the domain XML needs to know of the host behind conn, and why its domain
// type was chosen.
func (d *Driver) findHost(conn *lv.Connect) (cachedHost, error) {
	doc, err := conn.GetCapabilities()
	if err != nil {
		return cachedHost{}, explain("ask for libvirt's capabilities", err)
	}
	offer, err := ParseCapabilities(doc)
	if err != nil {
		return cachedHost{}, seedbed.Errorf(seedbed.ErrUnavailable, "libvirt at %s: %v: install qemu-system-x86 and restart libvirtd",
			d.cfg.URI, err)
	}
	choice, reason, err := ChooseDomainType(d.cfg.DomainType, ReadFacts(offer.Types))
	if err != nil {
		return cachedHost{}, err
	}
	c := cachedHost{
		Host{DomainType: choice, Arch: offer.Arch, Emulator: offer.Emulator, Machine: offer.Machine, ConsoleDir: d.cfg.ConsoleDir,
			CDROMDir: d.cfg.CDROMDir, Uplinks: d.cfg.Uplinks}, reason,
		time.Now(),
	}
	d.mu.Lock()
	d.cachedHost = c
	d.mu.Unlock()
	return c, nil
}

// forgetHost clears the cache: libvirtd is away, and may be another version when it is back.
func (d *Driver) forgetHost() {
	d.mu.Lock()
	d.cachedHost = cachedHost{}
	d.mu.Unlock()
}
