package mapper

import (
	"slices"

	"seedbed"
)

// reserve records that the volume is about to be mapped and returns nil, or returns the existing
// record. The caller must have the volume's turn at the gate.
func (h *Host) reserve(v Volume) *entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.all[v.key()]; e != nil {
		return e
	}
	h.all[v.key()] = &entry{Volume: v}
	return nil
}

func (h *Host) put(e *entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[e.key()] = e
}

func (h *Host) drop(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, key)
}

func (h *Host) find(key string) *entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all[key]
}

// Free returns ErrInUse for a volume that is mapped or just being mapped. A nil Host maps nothing.
func (h *Host) Free(pool, name string) error {
	if h == nil {
		return nil
	}
	if e := h.find(key(pool, name)); e != nil {
		return inUse(e)
	}
	return nil
}

// Volumes returns the names of that instance's mapped volumes in the pool, sorted.
func (h *Host) Volumes(pool string, id seedbed.InstanceID) []string {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, e := range h.all {
		if e.Pool == pool && e.Instance == id {
			all = append(all, e.Name)
		}
	}
	slices.Sort(all)
	return all
}
