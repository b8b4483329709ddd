package feed

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"seedbed"
)

// snapshotMagic begins a feed.snapshot. It is followed by a text of JSON (saved); the number of
// templates and each as a text of JSON; the number of guests and each as 16 bytes of ID, the number
// of its template and its own text (pack); the same of its peers, if there are any; and the SHA-256 of everything
// from the JSON on. Numbers are uvarints, and each text follows its length. The format is fast to load, because guests
// are served from it after a restart.
const snapshotMagic = "seedbed-feed 2\n"

// saved is the head of feed.snapshot. Like the records (report tokens), it contains a secret (the
// token key).
type saved struct {
	Node       string            `json:"node"`
	Generation string            `json:"generation"`
	Revision   int64             `json:"revision"`
	Networks   []seedbed.Network `json:"networks"`
	// Groups are the security groups.
	Groups      []seedbed.SecurityGroup `json:"security_groups,omitempty"`
	TokenKey    []byte                  `json:"token_key"`
	Site        seedbed.Site            `json:"site,omitzero"`
	Maintenance []seedbed.Maintenance   `json:"maintenance,omitempty"`
	// Peers is the revision of the peers.
	Peers int64 `json:"peers,omitempty"`
	// Nodes are the addresses of nodes, by name.
	Nodes map[string]netip.Addr `json:"nodes,omitempty"`
	// Tunnels are those of nodes, by name.
	Tunnels map[string]seedbed.Tunnel `json:"tunnels,omitempty"`
	// Guests is set only in the first version of the file.
	Guests []seedbed.Guest `json:"guests,omitempty"`
}

func (s saved) state() *state {
	p := newState()
	p.generation, p.revision, p.networks, p.tokenKey = s.Generation, s.Revision, s.Networks, s.TokenKey
	p.site, p.maintenance, p.groups, p.peersRevision = s.Site, s.Maintenance, s.Groups, s.Peers
	p.nodes, p.tunnels = s.Nodes, s.Tunnels
	return p
}

func writeSnapshot(w io.Writer, node string, p *state) error {
	sum := sha256.New()
	buf := bufio.NewWriterSize(io.MultiWriter(w, sum), 256<<10)
	head, err := json.Marshal(saved{Node: node, Generation: p.generation, Revision: p.revision, Networks: p.networks,
		Groups: p.groups, TokenKey: p.tokenKey, Site: p.site, Maintenance: p.maintenance, Peers: p.peersRevision,
		Nodes: p.nodes, Tunnels: p.tunnels})
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, snapshotMagic); err != nil {
		return err
	}
	_, _ = buf.Write(appendText(nil, string(head)))
	p.records.write(buf)
	if p.peers.guests.size > 0 {
		p.peers.write(buf)
	}
	if err := buf.Flush(); err != nil {
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

// write writes the templates and the records. An error is kept by w.
func (r records) write(w *bufio.Writer) {
	_, _ = w.Write(binary.AppendUvarint(nil, uint64(len(r.templates))))
	numbers := make(map[*template]uint64, len(r.templates))
	for text, s := range r.templates {
		numbers[s.template] = uint64(len(numbers))
		_, _ = w.Write(appendText(nil, text))
	}
	_, _ = w.Write(binary.AppendUvarint(nil, uint64(r.guests.size)))
	var b []byte
	for u, g := range r.guests.all() {
		b = append(b[:0], u[:]...)
		b = appendText(binary.AppendUvarint(b, numbers[g.template]), g.data)
		_, _ = w.Write(b)
	}
}

// readSnapshot reads what follows the magic, and returns the node that it is for.
func readSnapshot(s string) (p *state, node string, err error) {
	body, sum, err := cutSum(s)
	if err != nil {
		return nil, "", err
	}
	if got := sha256Of(body); got != sum {
		return nil, "", errors.New("its digest is wrong")
	}
	return readBody(body)
}

func cutSum(s string) (body string, sum [sha256.Size]byte, err error) {
	n := len(s) - sha256.Size
	if n < 0 {
		return "", sum, errors.New("it was cut")
	}
	copy(sum[:], s[n:])
	return s[:n], sum, nil
}

// sha256Of returns the digest of s without copying s.
func sha256Of(s string) (sum [sha256.Size]byte) {
	h := sha256.New()
	_, _ = io.Copy(h, strings.NewReader(s))
	h.Sum(sum[:0])
	return sum
}

func readBody(body string) (*state, string, error) {
	r := reader{s: body}
	var head saved
	if err := json.Unmarshal([]byte(r.text()), &head); err != nil {
		return nil, "", fmt.Errorf("its head: %w", err)
	}
	p := head.state()
	var err error
	if p.records, err = readRecords(&r); err != nil {
		return nil, "", err
	}
	if !r.bad && r.s != "" {
		if p.peers, err = readRecords(&r); err != nil {
			return nil, "", fmt.Errorf("peers: %w", err)
		}
	}
	if r.bad || r.s != "" {
		return nil, "", errors.New("it is truncated, or has more data than it declares")
	}
	return p, head.Node, nil
}

// readRecords reads what records.write wrote.
func readRecords(r *reader) (records, error) {
	templates := make([]*template, r.count())
	for i := range templates {
		t, err := newTemplate(r.text())
		if err != nil {
			return records{}, fmt.Errorf("template %d of %d: %w", i+1, len(templates), err)
		}
		templates[i] = t
	}
	n := r.count()
	d := newRecords().builder(true)
	d.expect(n)
	for i := range n {
		var u uuid
		copy(u[:], r.bytes(uint64(len(u))))
		k := r.uvarint()
		g := packed{data: r.text()}
		if r.bad || k >= uint64(len(templates)) {
			return records{}, fmt.Errorf("record %d of %d is cut", i+1, n)
		}
		g.template = templates[k]
		if _, err := g.unpack(u); err != nil {
			return records{}, fmt.Errorf("record %d of %d: %w", i+1, n, err)
		}
		d.put(u, g)
	}
	return d.records, nil
}

// expect allocates room for n guests.
func (b *builder) expect(n int) {
	for i := range b.guests.shard {
		b.guests.shard[i] = make(map[uuid]packed, n/len(b.guests.shard))
		b.copied[i] = true
	}
}

// firstMagic begins the first version of the file. It is followed by the SHA-256 in hexadecimal, a
// line break, and JSON with all guests.
const firstMagic = "seedbed-feed 1 "

func readFirstForm(s string) (*state, string, error) {
	head, body, _ := strings.Cut(s, "\n")
	sum := sha256Of(body)
	if head != firstMagic+hex.EncodeToString(sum[:]) {
		return nil, "", errors.New("its digest is wrong, or another release wrote it")
	}
	var old saved
	if err := json.Unmarshal([]byte(body), &old); err != nil {
		return nil, "", err
	}
	var page packedPage
	for i := range old.Guests {
		packed, err := page.pack(guestChange{Instance: old.Guests[i].ID, Guest: &old.Guests[i]})
		if err != nil {
			return nil, "", err
		}
		page.changes = append(page.changes, packed)
	}
	p := old.state()
	p.records = newRecords().after(true, page.changes)
	return p, old.Node, nil
}
