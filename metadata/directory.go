package metadata

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"seedbed"
)

// State is everything that the directory knows, as the feed delivers it. Its
// fields are those of feed.State in the same order, so that one converts into
// the other.
type State struct {
	Guests   map[seedbed.InstanceID]seedbed.Guest
	Networks []seedbed.Network
	// TokenKey is the installation's key for session tokens, 32 bytes. Without
	// one no token is issued or accepted.
	TokenKey []byte
	// Blob finds a document by its lower-case SHA-256.
	Blob     func(sha256 string) ([]byte, bool)
	Revision int64
	// InSync is true once everything that seedbedd had at the last contact is in here.
	InSync bool
}

// Directory is the in-memory index of the guests that are served. Readers take
// no lock: each change replaces the whole index.
type Directory struct {
	apply   sync.Mutex // one writer at a time
	current atomic.Pointer[index]
}

type index struct {
	entries  map[seedbed.InstanceID]*entry
	marks    map[uint32]*port
	macs     map[portKey]*port
	token    tokenKey
	revision int64
	inSync   bool
	applied  time.Time
	// replaced is closed when a newer index is in place.
	replaced chan struct{}
}

// portKey is how DHCP knows a NIC.
type portKey struct {
	bridge string
	mac    seedbed.MAC
}

// port is one NIC where it is attached.
type port struct {
	entry  *entry
	nic    seedbed.GuestNIC
	bridge string
}

// entry is one instance: its record as last applied, and what outlives it.
type entry struct {
	record *record
	life   *life
}

// record is what is served of one revision of an instance. It never changes.
type record struct {
	guest seedbed.Guest
	// userData is nil when there is none; an empty document is not nil.
	userData []byte
}

// NewDirectory is an empty directory that is not in sync.
func NewDirectory() *Directory {
	d := &Directory{}
	d.current.Store(&index{replaced: make(chan struct{})})
	return d
}

// Apply replaces what is served. It keeps the records' slices, which must not
// change afterwards, but not the map. A state that cannot be served as a whole
// (a blob is missing, a NIC number or MAC occurs twice, a network is unknown,
// the key has a wrong length) gives an error and changes nothing.
func (d *Directory) Apply(s State) error {
	d.apply.Lock()
	defer d.apply.Unlock()
	old := d.current.Load()
	if n := len(s.TokenKey); n != 0 && n != tokenKeyLen {
		return fmt.Errorf("metadata: token key has %d bytes, want %d", n, tokenKeyLen)
	}
	x := &index{
		entries:  make(map[seedbed.InstanceID]*entry, len(s.Guests)),
		marks:    make(map[uint32]*port, len(s.Guests)),
		macs:     make(map[portKey]*port, len(s.Guests)),
		token:    newTokenKey(s.TokenKey),
		revision: s.Revision,
		inSync:   s.InSync,
		applied:  time.Now(),
		replaced: make(chan struct{}),
	}
	bridges := make(map[string]string, len(s.Networks))
	for _, n := range s.Networks {
		bridges[n.Name] = n.Bridge
	}
	for id, g := range s.Guests {
		e, err := newEntry(g, s.Blob)
		if err != nil {
			return fmt.Errorf("metadata: instance %s: %w", id, err)
		}
		if before, ok := old.entries[id]; ok {
			e.life = before.life
		}
		if err := x.add(id, e, bridges); err != nil {
			return fmt.Errorf("metadata: instance %s: %w", id, err)
		}
	}
	d.current.Store(x)
	close(old.replaced)
	return nil
}

func newEntry(g seedbed.Guest, blob func(string) ([]byte, bool)) (*entry, error) {
	r := &record{guest: g}
	if g.UserData != nil {
		if blob == nil {
			return nil, errors.New("has user-data, but there are no blobs")
		}
		data, ok := blob(g.UserData.SHA256)
		if !ok {
			return nil, fmt.Errorf("user-data %s is not there", g.UserData.SHA256)
		}
		if data == nil {
			data = []byte{}
		}
		r.userData = data
	}
	return &entry{record: r, life: &life{}}, nil
}

func (x *index) add(id seedbed.InstanceID, e *entry, bridges map[string]string) error {
	x.entries[id] = e
	for _, nic := range e.record.guest.NICs {
		if nic.ID < 1 || nic.ID > math.MaxInt32 {
			return fmt.Errorf("NIC number %d is out of range 1 to 2^31-1", nic.ID)
		}
		bridge, ok := bridges[nic.Network]
		if !ok {
			return fmt.Errorf("network %q is not known", nic.Network)
		}
		p := &port{entry: e, nic: nic, bridge: bridge}
		key := portKey{bridge, nic.MAC}
		if x.marks[nic.ID.Mark()] != nil {
			return fmt.Errorf("NIC number %d belongs to another NIC as well", nic.ID)
		}
		if x.macs[key] != nil {
			return fmt.Errorf("MAC %s belongs to another NIC on bridge %s as well", nic.MAC, bridge)
		}
		x.marks[nic.ID.Mark()] = p
		x.macs[key] = p
	}
	return nil
}
