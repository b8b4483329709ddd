package metadata

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seedbed"
)

// Directory is the in-memory index of the guests that are served. Readers do not lock. Each change
// installs a new index, which shares the unchanged parts with the one before it.
type Directory struct {
	apply    sync.Mutex // one writer at a time
	current  atomic.Pointer[index]
	sessions sessions
}

// NewDirectory returns an empty directory that is not in sync.
func NewDirectory() *Directory {
	d := &Directory{}
	x := &index{replaced: make(chan struct{})}
	x.state.Since, x.state.Revision = -1, -1
	d.current.Store(x)
	return d
}

// Apply replaces what is served. It keeps what s points to, which must not change afterwards. Apply
// returns an error and changes nothing if it cannot serve the whole state: a blob is missing, a NIC
// number or MAC occurs twice, a network is unknown, or the key has a wrong length.
func (d *Directory) Apply(s seedbed.GuestPlaneState) error {
	if s.Guests == nil || s.Guest == nil {
		return errors.New("metadata: a state needs Guests and Guest")
	}
	if n := len(s.TokenKey); n != 0 && n != tokenKeyLen {
		return fmt.Errorf("metadata: token key has %d bytes, expected %d", n, tokenKeyLen)
	}
	d.apply.Lock()
	defer d.apply.Unlock()
	old := d.current.Load()
	changed := slices.Compact(slices.Sorted(slices.Values(s.Changed)))
	s.Changed, s.ChangedPeers = nil, nil // the rest of s is kept for long
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
	if small && reflect.DeepEqual(s.Maintenance, old.state.Maintenance) && reflect.DeepEqual(s.Site, old.state.Site) {
		d.sessions.forget(changed, x)
	} else {
		d.sessions.forgetAll(x)
	}
	close(old.replaced)
	return nil
}

// index is one state with the maps that find its NICs. It never changes.
type index struct {
	state    seedbed.GuestPlaneState
	networks map[string]int32 // the place in state.Networks by name
	bridges  map[string]int32 // the place of the first network on that bridge
	marks    shards[uint32, port]
	macs     shards[portKey, uint32] // the mark
	guests   int
	token    *tokenKey
	applied  time.Time
	// replaced is closed when a newer index is in place.
	replaced chan struct{}
}

// portKey is a MAC on a bridge. The first network of the bridge identifies the bridge.
type portKey struct {
	network int32
	mac     seedbed.MAC
}

// port is one NIC at the bridge that it is attached to.
type port struct {
	instance seedbed.InstanceID
	addr     netip.Addr
	mac      seedbed.MAC
	network  int32 // its place in the state's Networks
}

func (x *index) port(mark uint32) (port, bool) { return x.marks.get(byte(mark), mark) }

// portOf finds the NIC that has a MAC on a bridge, and its mark.
func (x *index) portOf(bridge string, mac seedbed.MAC) (p port, mark uint32, ok bool) {
	n, ok := x.bridges[bridge]
	if !ok {
		return port{}, 0, false
	}
	if mark, ok = x.macs.get(mac[5], portKey{n, mac}); !ok {
		return port{}, 0, false
	}
	p, ok = x.port(mark)
	return p, mark, ok
}

func (x *index) bridge(p port) string { return x.state.Networks[p.network].Bridge }
