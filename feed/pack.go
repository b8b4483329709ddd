package feed

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	"seedbed"
)

// uuid is an instance's ID in 16 bytes.
type uuid [16]byte

// parseUUID parses only the lower-case text form.
func parseUUID(id seedbed.InstanceID) (u uuid, ok bool) {
	if len(id) != 36 {
		return u, false
	}
	var digits [32]byte
	n := 0
	for i := range len(id) {
		c := id[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return u, false
			}
			continue
		}
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return u, false
		}
		digits[n] = c
		n++
	}
	_, err := hex.Decode(u[:], digits[:])
	return u, err == nil
}

func (u uuid) id() seedbed.InstanceID {
	var b [36]byte
	at := 0
	for i, group := range [][]byte{u[:4], u[4:6], u[6:8], u[8:10], u[10:]} {
		if i > 0 {
			b[at] = '-'
			at++
		}
		at += hex.Encode(b[at:], group)
	}
	return seedbed.InstanceID(b[:])
}

// packed is the stored form of a guest: some hundred bytes instead of over a thousand, because a
// node may have a hundred thousand guests.
type packed struct {
	data     string
	template *template
}

// template is the part of a record that guests of one profile share: a record without what pack
// removes. It never changes.
type template struct {
	guest seedbed.Guest
	text  string // its JSON form, by which it is recognized
}

func newTemplate(text string) (*template, error) {
	t := &template{text: text}
	if err := json.Unmarshal([]byte(text), &t.guest); err != nil {
		return nil, err
	}
	return t, nil
}

// blobs returns the documents that guests of this template name.
func (t *template) blobs() []seedbed.Blob {
	var out []seedbed.Blob
	for _, b := range []*seedbed.Blob{t.guest.UserData, t.guest.VendorData} {
		if b != nil {
			out = append(out, *b)
		}
	}
	return out
}

// pack splits a guest into its own bytes and the text of its template. Neither contains the ID.
func pack(g seedbed.Guest) (data, text string, err error) {
	b := appendText(nil, g.Name)
	b = appendText(b, string(g.Signature))
	b = appendText(b, g.ReportToken)
	b = binary.AppendVarint(b, g.Created.Unix())
	b = binary.AppendUvarint(b, uint64(g.Created.Nanosecond()))
	b = binary.AppendUvarint(b, uint64(len(g.NICs)))
	shared := slices.Clone(g.NICs)
	for i, nic := range g.NICs {
		b = binary.AppendVarint(b, int64(nic.ID))
		b = append(b, nic.MAC[:]...)
		addr, err := nic.Addr.MarshalBinary()
		if err != nil {
			return "", "", err
		}
		b = appendText(b, string(addr))
		shared[i] = seedbed.GuestNIC{Network: nic.Network, Secondary: nic.Secondary, Groups: nic.Groups, BandwidthIn: nic.BandwidthIn,
			BandwidthOut: nic.BandwidthOut, Forwards: nic.Forwards, Floating: nic.Floating, Floating6: nic.Floating6,
			Index: nic.Index, Hidden: nic.Hidden}
	}
	b = binary.AppendUvarint(b, uint64(len(g.Tags)))
	for _, k := range slices.SortedFunc(maps.Keys(g.Tags), cmp.Compare) {
		b = appendText(appendText(b, k), g.Tags[k])
	}
	g.ID, g.Name, g.Signature, g.ReportToken, g.Created, g.Tags, g.NICs = "", "", nil, "", time.Time{}, nil, shared
	t, err := json.Marshal(g)
	return string(b), string(t), err
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// unpack returns the record. Its strings are parts of p.own.
func (p packed) unpack(u uuid) (seedbed.Guest, error) {
	g := p.template.guest
	g.ID = u.id()
	r := reader{s: p.data}
	g.Name = r.text()
	if s := r.text(); s != "" {
		g.Signature = []byte(s)
	}
	g.ReportToken = r.text()
	g.Created = time.Unix(r.varint(), int64(r.uvarint())).UTC()
	if n := r.uvarint(); n != uint64(len(g.NICs)) {
		return seedbed.Guest{}, fmt.Errorf("a record has %d NICs, and its template %d", n, len(g.NICs))
	}
	if len(g.NICs) > 0 {
		g.NICs = slices.Clone(g.NICs)
	}
	for i := range g.NICs {
		nic := &g.NICs[i]
		nic.ID = seedbed.NICID(r.varint())
		copy(nic.MAC[:], r.bytes(uint64(len(nic.MAC))))
		nic.Addr = addrOf(r.text(), &r)
	}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		if g.Tags == nil {
			g.Tags = make(map[string]string, min(n, seedbed.MaxTags))
		}
		k := r.text()
		g.Tags[k] = r.text()
	}
	if r.bad || r.s != "" {
		return seedbed.Guest{}, fmt.Errorf("a record of %d bytes is cut or too long", len(p.data))
	}
	return g, nil
}

func addrOf(s string, r *reader) netip.Addr {
	switch len(s) {
	case 0:
		return netip.Addr{}
	case 4:
		return netip.AddrFrom4([4]byte([]byte(s)))
	}
	var a netip.Addr
	if err := a.UnmarshalBinary([]byte(s)); err != nil {
		r.bad = true
	}
	return a
}

// reader reads values from a string; bad is true once one was missing.
type reader struct {
	s   string
	bad bool
}

func (r *reader) fail() { r.s, r.bad = "", true }

func (r *reader) bytes(n uint64) string {
	if n > uint64(len(r.s)) {
		r.fail()
		return ""
	}
	s := r.s[:n]
	r.s = r.s[n:]
	return s
}

func (r *reader) text() string { return r.bytes(r.uvarint()) }

func (r *reader) uvarint() uint64 {
	var v uint64
	for i := 0; i < len(r.s) && i < binary.MaxVarintLen64; i++ {
		c := r.s[i]
		if i == binary.MaxVarintLen64-1 && c > 1 {
			break
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			r.s = r.s[i+1:]
			return v
		}
	}
	r.fail()
	return 0
}

func (r *reader) varint() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// count reads a number of items, each of which takes at least one byte.
func (r *reader) count() int {
	n := r.uvarint()
	if n > uint64(len(r.s)) || n > math.MaxInt32 {
		r.fail()
		return 0
	}
	return int(n)
}
