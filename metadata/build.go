package metadata

import (
	"errors"
	"fmt"
	"math"
	"time"

	"seedbed"
)

// builder builds an index.
type builder struct {
	index
	newMarks *shardsBuilder[uint32, port]
	newMACs  *shardsBuilder[portKey, uint32]
}

// newIndex starts an index of s. It reuses the token key's state if the key is unchanged.
func newIndex(s seedbed.GuestPlaneState, old *index) *builder {
	b := &builder{index: index{state: s, applied: time.Now(), replaced: make(chan struct{}),
		networks: make(map[string]int32, len(s.Networks)), bridges: make(map[string]int32, len(s.Networks))}}
	for i, n := range s.Networks {
		b.networks[n.Name] = int32(i)
		if _, ok := b.bridges[n.Bridge]; !ok {
			b.bridges[n.Bridge] = int32(i)
		}
	}
	if b.token = old.token; b.token == nil || !b.token.is(s.TokenKey) {
		b.token = newTokenKey(s.TokenKey)
	}
	return b
}

func (b *builder) done() *index {
	b.marks, b.macs = b.newMarks.shards, b.newMACs.shards
	x := b.index
	return &x
}

// addAll builds the index from scratch.
func (b *builder) addAll() error {
	b.newMarks, b.newMACs = (&shards[uint32, port]{}).builder(), (&shards[portKey, uint32]{}).builder()
	for id, g := range b.state.Guests {
		if err := b.add(g); err != nil {
			return fmt.Errorf("metadata: instance %s: %w", id, err)
		}
	}
	return nil
}

// change builds the index from old and the instances that have changed.
func (b *builder) change(old *index, changed []seedbed.InstanceID) error {
	b.newMarks, b.newMACs, b.guests = old.marks.builder(), old.macs.builder(), old.guests
	for _, id := range changed {
		if g, ok := old.state.Guest(id); ok {
			b.remove(g)
		}
	}
	for _, id := range changed {
		if g, ok := b.state.Guest(id); ok {
			if err := b.add(g); err != nil {
				return fmt.Errorf("metadata: instance %s: %w", id, err)
			}
		}
	}
	return nil
}

func (b *builder) add(g seedbed.Guest) error {
	for _, doc := range [...]*seedbed.Blob{g.UserData, g.VendorData} {
		if doc == nil {
			continue
		}
		if b.state.Blob == nil {
			return errors.New("names a document, but there are no blobs")
		}
		if _, ok := b.state.Blob(doc.SHA256); !ok {
			return fmt.Errorf("document %s is not there", doc.SHA256)
		}
	}
	for _, nic := range g.NICs {
		if nic.ID < 1 || nic.ID > math.MaxInt32 {
			return fmt.Errorf("NIC number %d is out of range 1 to 2^31-1", nic.ID)
		}
		network, ok := b.networks[nic.Network]
		if !ok {
			return fmt.Errorf("network %q is not known", nic.Network)
		}
		mark, at := nic.ID.Mark(), b.portKey(network, nic.MAC)
		marks, macs := b.newMarks.shard(byte(mark)), b.newMACs.shard(nic.MAC[5])
		if _, ok := marks[mark]; ok {
			return fmt.Errorf("NIC number %d belongs to another NIC as well", nic.ID)
		}
		if _, ok := macs[at]; ok {
			return fmt.Errorf("MAC %s belongs to another NIC on bridge %s as well", nic.MAC, b.state.Networks[network].Bridge)
		}
		marks[mark] = port{instance: g.ID, addr: nic.Addr, mac: nic.MAC, network: network}
		macs[at] = mark
	}
	b.guests++
	return nil
}

func (b *builder) remove(g seedbed.Guest) {
	for _, nic := range g.NICs {
		mark := nic.ID.Mark()
		delete(b.newMarks.shard(byte(mark)), mark)
		delete(b.newMACs.shard(nic.MAC[5]), b.portKey(b.networks[nic.Network], nic.MAC))
	}
	b.guests--
}

func (b *builder) portKey(network int32, mac seedbed.MAC) portKey {
	return portKey{b.bridges[b.state.Networks[network].Bridge], mac}
}
