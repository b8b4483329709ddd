package metadata

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seedbed"
)

// State is everything that the directory knows, as the feed delivers it. Its
// fields are those of feed.State in the same order, so that one converts into
// the other.
type State struct {
	// Guests are the instances to serve, and Guest finds one of them. The
	// directory keeps no record: it asks again.
	Guests   iter.Seq2[seedbed.InstanceID, seedbed.Guest]
	Networks []seedbed.Network
	// TokenKey is the installation's key for session tokens, 32 bytes. Without
	// one no token is issued or accepted.
	TokenKey []byte
	// Blob finds a document by its lower-case SHA-256.
	Blob     func(sha256 string) ([]byte, bool)
	Revision int64
	// InSync is true once everything that seedbedd had at the last contact is in here.
	InSync bool
	Site   seedbed.Site
	// Maintenance are the events of the node, which every guest is told.
	Maintenance []seedbed.Maintenance
	Guest       func(seedbed.InstanceID) (seedbed.Guest, bool)
	// Since and Changed say what is new to a directory that holds the state of
	// revision Since: the instances of Changed, which came, changed or went. With
	// any other revision, and -1 is none, Guests are gone through.
	Since   int64
	Changed []seedbed.InstanceID
}

// Directory is the in-memory index of the guests that are served. Readers take
// no lock: each change puts a new index in place, which shares with the one
// before it what has not changed.
type Directory struct {
	apply   sync.Mutex // one writer at a time
	current atomic.Pointer[index]
	lives   lives
}

// NewDirectory is an empty directory that is not in sync.
func NewDirectory() *Directory {
	d := &Directory{}
	x := &index{replaced: make(chan struct{})}
	x.state.Since, x.state.Revision = -1, -1
	d.current.Store(x)
	return d
}

// Apply replaces what is served. It keeps what s points to, which must not
// change afterwards. A state that cannot be served as a whole (a blob is missing,
// a NIC number or MAC occurs twice, a network is unknown, the key has a wrong
// length) gives an error and changes nothing.
func (d *Directory) Apply(s State) error {
	if s.Guests == nil || s.Guest == nil {
		return errors.New("metadata: a state needs Guests and Guest")
	}
	if n := len(s.TokenKey); n != 0 && n != tokenKeyLen {
		return fmt.Errorf("metadata: token key has %d bytes, want %d", n, tokenKeyLen)
	}
	d.apply.Lock()
	defer d.apply.Unlock()
	old := d.current.Load()
	changed := slices.Compact(slices.Sorted(slices.Values(s.Changed)))
	s.Changed = nil // the rest is kept for long
	b := newIndex(s, old)
	small := old.state.Guest != nil && s.Since == old.state.Revision && reflect.DeepEqual(s.Networks, old.state.Networks)
	var err error
	if small {
		err = b.change(old, changed)
	} else {
		err = b.addAll()
	}
	if err != nil {
		return err
	}
	x := b.done()
	d.current.Store(x)
	if small {
		d.lives.forget(changed, x)
	} else {
		d.lives.forgetAll(x)
	}
	close(old.replaced)
	return nil
}

// index is one state with what finds its NICs. It never changes.
type index struct {
	state    State
	networks map[string]int32 // the place in state.Networks by name
	bridges  map[string]int32 // the place of the first network on that bridge
	marks    parted[uint32, port]
	macs     parted[seat, uint32] // the mark
	guests   int
	token    *tokenKey
	applied  time.Time
	// replaced is closed when a newer index is in place.
	replaced chan struct{}
}

// seat is where a MAC is: on a bridge, which the first of its networks stands for.
type seat struct {
	network int32
	mac     seedbed.MAC
}

// port is one NIC where it is attached.
type port struct {
	instance seedbed.InstanceID
	addr     netip.Addr
	mac      seedbed.MAC
	network  int32 // its place in State.Networks
}

func (x *index) port(mark uint32) (port, bool) { return x.marks.at(byte(mark), mark) }

// portOf finds who has a MAC on a bridge, with its mark.
func (x *index) portOf(bridge string, mac seedbed.MAC) (p port, mark uint32, ok bool) {
	n, ok := x.bridges[bridge]
	if !ok {
		return port{}, 0, false
	}
	if mark, ok = x.macs.at(mac[5], seat{n, mac}); !ok {
		return port{}, 0, false
	}
	p, ok = x.port(mark)
	return p, mark, ok
}

func (x *index) bridge(p port) string { return x.state.Networks[p.network].Bridge }
