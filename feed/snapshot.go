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
	"strings"

	"seedbed"
)

// snapshotMagic begins a feed.snapshot. It is followed by a text of JSON (saved); the number of
// templates and each as a text of JSON; the number of guests and each as 16 bytes of ID, the number
// of its template and its own text (pack); and the SHA-256 of everything from the JSON on. Numbers
// are uvarints, and each text follows its length. The format is fast to load, because guests are
// served from it after a restart.
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
	// Guests is set only in the first version of the file.
	Guests []seedbed.Guest `json:"guests,omitempty"`
}

func (s saved) state() *state {
	p := newState()
	p.generation, p.revision, p.networks, p.tokenKey = s.Generation, s.Revision, s.Networks, s.TokenKey
	p.site, p.maintenance, p.groups = s.Site, s.Maintenance, s.Groups
	return p
}

func writeSnapshot(w io.Writer, node string, p *state) error {
	sum := sha256.New()
	buf := bufio.NewWriterSize(io.MultiWriter(w, sum), 256<<10)
	head, err := json.Marshal(saved{Node: node, Generation: p.generation, Revision: p.revision, Networks: p.networks,
		Groups: p.groups, TokenKey: p.tokenKey, Site: p.site, Maintenance: p.maintenance})
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, snapshotMagic); err != nil {
		return err
	}
	b := appendText(nil, string(head))
	b = binary.AppendUvarint(b, uint64(len(p.templates)))
	_, _ = buf.Write(b)
	numbers := make(map[*template]uint64, len(p.templates))
	for text, s := range p.templates {
		numbers[s.template] = uint64(len(numbers))
		_, _ = buf.Write(appendText(nil, text))
	}
	_, _ = buf.Write(binary.AppendUvarint(nil, uint64(p.guests.size)))
	for u, g := range p.guests.all() {
		b = append(b[:0], u[:]...)
		b = appendText(binary.AppendUvarint(b, numbers[g.template]), g.data)
		if _, err := buf.Write(b); err != nil {
			return err
		}
	}
	if err := buf.Flush(); err != nil {
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
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
	templates := make([]*template, r.count())
	for i := range templates {
		t, err := newTemplate(r.text())
		if err != nil {
			return nil, "", fmt.Errorf("template %d of %d: %w", i+1, len(templates), err)
		}
		templates[i] = t
	}
	n := r.count()
	d := p.builder(true)
	d.expect(n)
	for i := range n {
		var u uuid
		copy(u[:], r.bytes(uint64(len(u))))
		k := r.uvarint()
		g := packed{data: r.text()}
		if r.bad || k >= uint64(len(templates)) {
			return nil, "", fmt.Errorf("record %d of %d is cut", i+1, n)
		}
		g.template = templates[k]
		if _, err := g.unpack(u); err != nil {
			return nil, "", fmt.Errorf("record %d of %d: %w", i+1, n, err)
		}
		d.put(u, g)
	}
	if r.bad || r.s != "" {
		return nil, "", errors.New("it is truncated, or has more data than it declares")
	}
	p.guests, p.templates = d.guests, d.templates
	return p, head.Node, nil
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
		if err := page.add(guestChange{Instance: old.Guests[i].ID, Guest: &old.Guests[i]}); err != nil {
			return nil, "", err
		}
	}
	p := old.state()
	d := p.builder(true)
	for _, c := range page.changes {
		d.put(c.id, c.guest)
	}
	p.guests, p.templates = d.guests, d.templates
	return p, old.Node, nil
}
