package feed

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"unicode"

	"seedbed"
)

// The bounds of request and answer bodies.
const (
	maxEventsBody   = 1 << 20
	maxAppliedBody  = 4 << 10
	maxEvents       = 256
	maxPageBody     = 1 << 30
	maxBlob         = 64 << 20
	maxEventPath    = 1 << 10
	maxEventMethod  = 32
	maxFields       = 4 << 10
	maxNode         = 253
	blobContentType = "application/octet-stream"
)

type appliedBody struct {
	Node     string `json:"node"`
	Revision int64  `json:"revision"`
}

type eventsBody struct {
	Node   string            `json:"node"`
	Spool  string            `json:"spool"`
	Events []json.RawMessage `json:"events"`
}

type errorBody struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

var (
	sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)
	spoolForm  = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

func checkNode(node string) error {
	if node == "" || len(node) > maxNode {
		return seedbed.Errorf(seedbed.ErrInvalid, "node has %d bytes, expected 1 to %d", len(node), maxNode)
	}
	for _, r := range node {
		if !unicode.IsPrint(r) {
			return seedbed.Errorf(seedbed.ErrInvalid, "node %q has unprintable characters", node)
		}
	}
	return nil
}

// eventKinds are the kinds of events that a guest plane may send.
var eventKinds = []string{seedbed.GuestLease, seedbed.GuestAccess, seedbed.GuestUserData, seedbed.GuestReport, seedbed.GuestPassword}

// checkEvent returns an error for an event that a correct guest plane never sends. A guest plane
// faces guests, so it is less trusted than this side.
func checkEvent(e seedbed.GuestEvent) error {
	if _, err := seedbed.ParseInstanceID(string(e.Instance)); err != nil {
		return err
	}
	if e.Seq < 1 {
		return seedbed.Errorf(seedbed.ErrInvalid, "event seq %d, expected 1 or more", e.Seq)
	}
	if !slices.Contains(eventKinds, e.Kind) {
		return seedbed.Errorf(seedbed.ErrInvalid, "event kind %.40q is unknown", e.Kind)
	}
	size := 0
	for k, v := range e.Fields {
		size += len(k) + len(v)
	}
	if len(e.Path) > maxEventPath || len(e.Method) > maxEventMethod || size > maxFields {
		return seedbed.Errorf(seedbed.ErrInvalid, "event %d is too large", e.Seq)
	}
	return nil
}

// decodePage decodes a page, packing it record by record, because a snapshot may be large.
func decodePage(r io.Reader) (packedPage, error) {
	var p packedPage
	d := json.NewDecoder(r)
	if err := expect(d, '{'); err != nil {
		return packedPage{}, err
	}
	rest, err := p.readRest(d, map[string]func() error{
		"changes": func() (err error) { p.changes, err = p.readChanges(d); return err },
		"peers":   func() error { return p.readPeers(d) },
	})
	if err != nil {
		return packedPage{}, err
	}
	peers := p.Peers
	if err := json.Unmarshal(rest, &p.FeedPage); err != nil {
		return packedPage{}, err
	}
	p.Peers = peers
	return p, nil
}

// readRest reads an object whose beginning was read, and returns it without the members that functions read.
func (p *packedPage) readRest(d *json.Decoder, by map[string]func() error) ([]byte, error) {
	rest := map[string]json.RawMessage{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		if read := by[key.(string)]; read != nil {
			if err := read(); err != nil {
				return nil, err
			}
			continue
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		rest[key.(string)] = raw
	}
	if err := expect(d, '}'); err != nil {
		return nil, err
	}
	return json.Marshal(rest)
}

// readPeers reads the page of peers, or null.
func (p *packedPage) readPeers(d *json.Decoder) error {
	t, err := d.Token()
	if err != nil || t == nil {
		return err
	}
	if t != json.Delim('{') {
		return fmt.Errorf("feed: peers begin with %v, expected an object", t)
	}
	rest, err := p.readRest(d, map[string]func() error{
		"changes": func() (err error) { p.peers, err = p.readChanges(d); return err },
	})
	if err != nil {
		return err
	}
	p.Peers = &seedbed.PeerPage{}
	return json.Unmarshal(rest, p.Peers)
}

func (p *packedPage) readChanges(d *json.Decoder) (all []change, err error) {
	t, err := d.Token()
	if err != nil || t == nil {
		return nil, err // null is an empty list
	}
	if t != json.Delim('[') {
		return nil, fmt.Errorf("feed: changes begin with %v, expected a list", t)
	}
	for d.More() {
		var c guestChange
		if err := d.Decode(&c); err != nil {
			return nil, err
		}
		packed, err := p.pack(c)
		if err != nil {
			return nil, err
		}
		all = append(all, packed)
	}
	return all, expect(d, ']')
}

func expect(d *json.Decoder, want json.Delim) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t != want {
		return fmt.Errorf("feed: found %v, expected %v", t, want)
	}
	return nil
}

// decodeEvents reads and checks the body of POST /v1/events.
func decodeEvents(body []byte) (node, spool string, events []seedbed.GuestEvent, err error) {
	var b eventsBody
	if err := json.Unmarshal(body, &b); err != nil {
		return "", "", nil, seedbed.Errorf(seedbed.ErrInvalid, "events: %v", err)
	}
	if err := checkNode(b.Node); err != nil {
		return "", "", nil, err
	}
	if !spoolForm.MatchString(b.Spool) {
		return "", "", nil, seedbed.Errorf(seedbed.ErrInvalid, "spool %.40q is not 32 hexadecimal digits", b.Spool)
	}
	if len(b.Events) > maxEvents {
		return "", "", nil, seedbed.Errorf(seedbed.ErrInvalid, "%d events at once, expected at most %d", len(b.Events), maxEvents)
	}
	for i, raw := range b.Events {
		var e seedbed.GuestEvent
		if err := json.Unmarshal(raw, &e); err != nil {
			return "", "", nil, seedbed.Errorf(seedbed.ErrInvalid, "event %d of %d: %v", i+1, len(b.Events), err)
		}
		if err := checkEvent(e); err != nil {
			return "", "", nil, fmt.Errorf("event %d of %d: %w", i+1, len(b.Events), err)
		}
		events = append(events, e)
	}
	return b.Node, b.Spool, events, nil
}
