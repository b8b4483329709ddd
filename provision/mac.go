package provision

import (
	"encoding/binary"
	"sync"

	"seedbed"
)

// macRun is how many MACs follow each other.
const macRun = 4096

// macs draws the MACs of new NICs. They follow each other from a random one on:
// so they seldom meet those that are taken, however many these are, and the
// database finds the places of those that are made together beside each other.
type macs struct {
	mu   sync.Mutex
	next uint32 // the last three bytes
	left int
}

// draw is a MAC that is probably free.
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

// another is draw after one that was taken: those that follow may be so, too.
func (m *macs) another() seedbed.MAC {
	m.mu.Lock()
	m.left = 0
	m.mu.Unlock()
	return m.draw()
}
