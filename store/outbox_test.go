package store

import (
	"path/filepath"
	"testing"
	"time"

	"seedbed"
)

// Whoever had an endpoint in hand is dead once the file is open again: what it
// was sending is due at once, under the same ID.
func TestOutboxReopened(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	db := open(t, path)
	do(db.CreateEndpoint(ctx, seedbed.Endpoint{Name: "ci", URL: "https://ci.example/", Events: []string{"*"}, Keys: []seedbed.EndpointKey{{Key: make([]byte, 32)}}}))(t)
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
