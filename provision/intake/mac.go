package intake

import (
	"encoding/binary"
	"sync"

	"seedbed"
)

// macRun is how many consecutive MACs are used from one random start.
const macRun = 4096

// macs makes the MACs of new NICs. They are consecutive from a random start. So they rarely collide
// with existing ones, however many there are, and index entries that are inserted together are
// close to each other.
type macs struct {
	mu   sync.Mutex
	next uint32 // the last three bytes
	left int
}

// draw returns a MAC that is probably free.
func (m *macs) draw() seedbed.MAC {
	m.mu.Lock()
	defer m.mu.Unlock()
	mac := seedbed.NewMAC()
	if m.left == 0 {
		m.next, m.left = uint32(mac[3])<<16|uint32(mac[4])<<8|uint32(mac[5]), macRun
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], m.next)
	copy(mac[3:], b[1:])
	m.next, m.left = m.next+1, m.left-1
	return mac
}

// another returns a MAC from a new random start, after one that was taken: those that follow it may
// be taken, too.
func (m *macs) another() seedbed.MAC {
	m.mu.Lock()
	m.left = 0
	m.mu.Unlock()
	return m.draw()
}
