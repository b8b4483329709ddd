package store

import (
	"path/filepath"
	"testing"
	"time"

	"seedbed"
)

// When the file is opened again, the previous owner of an endpoint is dead. What it was sending is
// due at once, under the same ID.
func TestOutboxReopened(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	db := open(t, path)
	do(db.CreateEndpoint(ctx,
		seedbed.Endpoint{Name: "ci", URL: "https://ci.example/", Events: []string{"*"}, Keys: []seedbed.EndpointKey{{Key: make([]byte, 32)}}}))(t)
	if err := db.CleanupFinished(ctx, nil); err != nil {
		t.Fatal(err)
	}
	old, _, err := db.ClaimOutgoing(ctx, "one", time.Hour)
	if err != nil || old == nil {
		t.Fatalf("%+v, %v", old, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path)
	c, _, err := db.ClaimOutgoing(ctx, "two", time.Hour)
	if err != nil || c == nil || c.Outgoing.ID != old.Outgoing.ID || c.Epoch != old.Epoch+1 {
		t.Fatalf("%+v, %v", c, err)
	}
}

// An endpoint that cannot be read does not block the deliveries to others.
func TestUnreadableEndpoint(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := open(t, filepath.Join(t.TempDir(), "seedbed.db"))
	for _, name := range []string{"bad", "good"} {
		do(db.CreateEndpoint(ctx, seedbed.Endpoint{
			Name: name, URL: "https://ci.example/", Events: []string{"*"}, Keys: []seedbed.EndpointKey{{Key: make([]byte, 32)}},
		}))(t)
	}
	if err := db.CleanupFinished(ctx, nil); err != nil {
		t.Fatal(err)
	}
	do(db.sql.Write.ExecContext(ctx, `UPDATE endpoint SET events = 'x' WHERE name = 'bad'`))(t)
	c, _, err := db.ClaimOutgoing(ctx, "one", time.Hour)
	if err != nil || c == nil || c.Endpoint.Name != "good" {
		t.Fatalf("%+v, %v", c, err)
	}
	if c, _, err := db.ClaimOutgoing(ctx, "one", time.Hour); err == nil || c != nil {
		t.Errorf("%+v, %v: want what is wrong with the other", c, err)
	}
}
