package feed

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/testdb"
	"seedbed/store"
)

// A guest plane asks and tells in turn about what is its own node's, about what is another node's and about
// what there is not. The last two are answered by the same bytes, and change no row of the database. Each
// route and each kind of event needs a message here.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	h := newMatrix(t)
	kinds := slices.Collect(maps.Keys(eventsOf))
	if diff := cmp.Diff(slices.Sorted(slices.Values(eventKinds)), slices.Sorted(slices.Values(kinds))); diff != "" {
		t.Errorf("kinds of events without a message, and messages of no kind (-kinds +messages):\n%s", diff)
	}
	if diff := cmp.Diff(h.routes(), slices.Sorted(maps.Keys(messagesOf))); diff != "" {
		t.Errorf("routes without a message, and messages of no route (-routes +messages):\n%s", diff)
	}
	for _, route := range slices.Sorted(maps.Keys(messagesOf)) {
		method, path, _ := strings.Cut(route, " ")
		for name, m := range messagesOf[route] {
			name = route + ", " + name
			want, changed := h.send(method, path, m, h.unknown)
			if changed != "" {
				t.Errorf("%s: about what there is not, changes (-before +after):\n%s", name, changed)
			}
			for whose, about := range map[string]subject{"another node's": h.foreign, "what has moved to another node": h.moved} {
				got, changed := h.send(method, path, m, about)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: the answer about %s is not that about what there is not (-none +foreign):\n%s", name, whose, diff)
				}
				if changed != "" {
					t.Errorf("%s: about %s, changes (-before +after):\n%s", name, whose, changed)
				}
			}
			got, changed := h.send(method, path, m, h.own)
			if !strings.HasPrefix(got, "20") || (changed != "") != (method == http.MethodPost) {
				t.Errorf("%s: about its own: %s\nchanges (-before +after):\n%s", name, got, changed)
			}
			// A report of a guest that is no longer there may still be on its way.
			if m.guest {
				if got, changed := h.send(method, path, m, h.removed); !strings.HasPrefix(got, "204") || changed == "" {
					t.Errorf("%s: about a guest that it has just served: %s; expected that it is recorded", name, got)
				}
			}
		}
	}
}

// TestForeignAddresses: a lease of an own guest with the address of another one is no lease.
func TestForeignAddresses(t *testing.T) {
	t.Parallel()
	h := newMatrix(t)
	for whose, other := range map[string]subject{"another node's": h.foreign, "what there is not": h.unknown} {
		mixed := h.own
		mixed.mac, mixed.addr = other.mac, other.addr
		if got, _ := h.send(http.MethodPost, "/v1/events", aboutGuest(seedbed.GuestLease), mixed); !strings.HasPrefix(got, "204") {
			t.Errorf("%s: %s", whose, got)
		}
	}
	if all, err := h.db.Leases(t.Context(), seedbed.AllProjects()); len(all) != 0 || err != nil {
		t.Errorf("leases %+v, %v; expected none", all, err)
	}
}

// subject is what a message is about. All of one field have the same length.
type subject struct {
	node     string
	guest    seedbed.InstanceID
	mac      seedbed.MAC
	addr     netip.Addr
	document string // its digest
}

// message is what a guest plane of node1 sends.
type message struct {
	guest bool // it is about a guest that node1 may have served until now
	path  func(path string, about subject) string
	body  func(about subject, seq int64) any
}

// messagesOf are the messages of each route, by what they are.
var messagesOf = map[string]map[string]message{
	"GET /v1/feed": {"records": {path: func(path string, about subject) string { return path + "?node=" + about.node }}},
	"GET /v1/blobs/:sha256": {"document": {path: func(path string, about subject) string {
		return strings.Replace(path, ":sha256", about.document, 1)
	}}},
	"POST /v1/applied": {"revision": {body: func(about subject, _ int64) any { return appliedBody{about.node, 1} }}},
	"POST /v1/events":  eventMessages(),
}

// eventsOf are an event of each kind, without what all have.
var eventsOf = map[string]seedbed.GuestEvent{
	seedbed.GuestLease:    {Until: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)},
	seedbed.GuestAccess:   {Method: "GET", Path: "/latest/meta-data/", Status: 200, Bytes: 1},
	seedbed.GuestUserData: {Method: "GET", Path: "/latest/user-data", Status: 200, Bytes: 1},
	seedbed.GuestReport:   {Fields: map[string]string{"hostname": "web1"}},
	seedbed.GuestPassword: {Fields: map[string]string{"password": "c2VjcmV0"}},
}

// eventMessages are one of each kind of event, as the caller's node sends it, and as the subject's would.
func eventMessages() map[string]message {
	all := map[string]message{}
	for kind := range eventsOf {
		all[kind] = aboutGuest(kind)
		all[kind+" of its node"] = message{body: func(about subject, seq int64) any {
			return eventBody(about.node, kind, about, seq)
		}}
	}
	return all
}

func aboutGuest(kind string) message {
	return message{guest: true, body: func(about subject, seq int64) any { return eventBody("node1", kind, about, seq) }}
}

func eventBody(node, kind string, about subject, seq int64) any {
	e := eventsOf[kind]
	e.Kind, e.Seq, e.Instance, e.At, e.MAC, e.Addr = kind, seq, about.guest, time.Now(), about.mac, about.addr
	raw, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return eventsBody{node, strings.Repeat("a", 32), []json.RawMessage{raw}}
}

// matrix is an installation with guests on two nodes.
type matrix struct {
	t    *testing.T
	db   *store.DB
	rows *sql.DB // the same database
	up   *upstream
	seq  int64

	own, removed, moved, foreign, unknown subject
}

func newMatrix(t *testing.T) *matrix {
	t.Helper()
	config := testdb.Empty(t)
	db, err := store.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	rows, err := sql.Open("sqlite", config.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rows.Close() })
	h := &matrix{t: t, db: db, rows: rows}
	for _, node := range []string{"node1", "node2"} {
		if _, err := db.AddNode(t.Context(), seedbed.Node{Name: node, Worker: "https://" + node + ".example:7375"}); err != nil {
			t.Fatal(err)
		}
	}
	prefix := netip.MustParsePrefix("10.99.0.0/24")
	if _, err := db.CreateNetwork(t.Context(), seedbed.Network{Name: "default", Bridge: "seedbed0", MAC: seedbed.NewMAC(), Prefix: prefix,
		Gateway: prefix.Addr().Next(), DHCP: true}); err != nil {
		t.Fatal(err)
	}
	h.own = h.guest("web1", "node1")
	h.removed = h.guest("web2", "node1", "")
	h.moved = h.guest("web3", "node1", "", "node2")
	h.foreign = h.guest("web4", "node2")
	h.unknown = subject{"node9", instance(9), seedbed.MAC{0x52, 0x54, 0, 0, 0, 9}, netip.MustParseAddr("10.99.0.9"), strings.Repeat("0", 64)}

	socket := socketIn(t.TempDir())
	runServer(t, db, socket)
	h.up = newUpstream(socket, remotes(t, "node1", socket))
	t.Cleanup(h.up.close)
	return h
}

// guest makes an instance that the nodes serve in turn; an empty name is that none does.
func (h *matrix) guest(name string, nodes ...string) (s subject) {
	h.t.Helper()
	ctx := h.t.Context()
	n := byte(name[len(name)-1] - '0')
	s.mac = seedbed.MAC{0x52, 0x54, 0, 0, 0, n}
	id := seedbed.NewInstanceID()
	if _, err := h.db.Accept(ctx, seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobCreate},
		Instance: &seedbed.Instance{ID: id, Name: name, Node: nodes[0], VCPUs: 1, Memory: seedbed.GiB,
			NICs: []seedbed.NIC{{MAC: s.mac, Network: "default", Addr: netip.AddrFrom4([4]byte{10, 99, 0, n + 1})}}}}); err != nil {
		h.t.Fatal(err)
	}
	j, err := h.db.ClaimJob(ctx, "test", time.Hour)
	if err != nil || j == nil {
		h.t.Fatal(j, err)
	}
	g := seedbed.Guest{ID: id, Name: name}
	served := ""
	for _, node := range nodes {
		if served != "" {
			_, err = h.db.Retract(ctx, j.Ref(), served, id)
		}
		if node != "" && err == nil {
			_, err = h.db.Publish(ctx, j.Ref(), node, g, seedbed.Documents{UserData: []byte("of " + name)})
		}
		if served = node; err != nil {
			h.t.Fatal(err)
		}
		if node != "" {
			s.node = node
		}
	}
	s.guest, s.addr, s.document = id, netip.AddrFrom4([4]byte{10, 99, 0, n + 1}), newMemory().keep([]byte("of "+name)).SHA256
	return s
}

// routes are the routes of the server.
func (h *matrix) routes() (all []string) {
	nobody := func(context.Context, *fiber.Ctx) (caller, error) { return caller{}, errors.New("nobody") }
	for _, r := range NewServer(h.db, quiet).app(h.t.Context(), nobody).GetRoutes(true) {
		if r.Method != http.MethodHead { // answered by what answers GET
			all = append(all, r.Method+" "+r.Path)
		}
	}
	slices.Sort(all)
	return all
}

// send sends a message about a subject. It returns the answer, with a placeholder for what names the
// subject, and what it has changed in the database.
func (h *matrix) send(method, path string, m message, about subject) (answer, changed string) {
	h.t.Helper()
	if m.path != nil {
		path = m.path(path, about)
	}
	body := ""
	if m.body != nil {
		h.seq++
		b, err := json.Marshal(m.body(about, h.seq))
		if err != nil {
			h.t.Fatal(err)
		}
		body = string(b)
	}
	req, err := http.NewRequestWithContext(h.t.Context(), method, "http://feed"+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	before := h.dump()
	resp, err := h.up.targets[0].http.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	resp.Header.Del("Date")
	var head strings.Builder
	resp.Header.Write(&head)
	answer = fmt.Sprintf("%s\n%s\n%s", resp.Status, &head, got)
	for field, value := range map[string]string{"NODE": about.node, "INSTANCE": string(about.guest), "MAC": about.mac.String(),
		"ADDRESS": about.addr.String(), "DOCUMENT": about.document} {
		answer = strings.ReplaceAll(answer, value, field)
	}
	return answer, cmp.Diff(before, h.dump())
}

// dump returns the rows of all tables.
func (h *matrix) dump() map[string][]string {
	h.t.Helper()
	all := map[string][]string{}
	for _, table := range h.list(`SELECT name FROM sqlite_schema WHERE type = 'table'`) {
		all[table] = h.list(`SELECT * FROM "` + table + `"`)
	}
	return all
}

// list returns the rows of a query, sorted.
func (h *matrix) list(query string) (all []string) {
	h.t.Helper()
	rows, err := h.rows.QueryContext(h.t.Context(), query)
	if err != nil {
		h.t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		h.t.Fatal(err)
	}
	for rows.Next() {
		values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			h.t.Fatal(err)
		}
		row := make([]string, len(values))
		for i, v := range values {
			row[i] = v.String
		}
		all = append(all, strings.Join(row, "|"))
	}
	if err := rows.Err(); err != nil {
		h.t.Fatal(err)
	}
	slices.Sort(all)
	return all
}
