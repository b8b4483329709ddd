package client_test

import (
	"io"
	"net/http"
	"testing"

	"seedbed/api/client"
	"seedbed/api/wire"
)

func TestVolumeRoutes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, tt := range map[string]struct {
		call   func(*client.Client) error
		want   string // method, target and body
		answer string
	}{
		"image remove": {func(c *client.Client) error { _, err := c.RemoveImage(ctx, "a/b"); return err }, "DELETE /api/v1/images/a%2Fb ", "{}"},
		"flatten":      {func(c *client.Client) error { _, err := c.Flatten(ctx, "v"); return err }, "POST /api/v1/instances/v/flatten ", "{}"},
		"snapshots": {
			func(c *client.Client) error { _, err := c.Snapshots(ctx, "v"); return err }, "GET /api/v1/instances/v/snapshots?limit=1000 ", "[]",
		},
		"snapshot": {func(c *client.Client) error {
			_, err := c.TakeSnapshot(ctx, "v", wire.SnapshotRequest{Name: "s"})
			return err
		},
			`POST /api/v1/instances/v/snapshots {"name":"s"}`, "{}"},
		"snapshot restore": {func(c *client.Client) error {
			_, err := c.RestoreSnapshot(ctx, "v", "s", "v", client.Power{Force: true})
			return err
		}, `POST /api/v1/instances/v/snapshots/s/restore {"force":true,"confirm":"v"}`, "{}"},
		"snapshot restore plan": {func(c *client.Client) error {
			_, err := c.PlanRestoreSnapshot(ctx, "v", "s", client.Power{})
			return err
		},
			`POST /api/v1/instances/v/snapshots/s/restore {"dry_run":true}`, "{}"},
		"snapshot remove": {func(c *client.Client) error { _, err := c.RemoveSnapshot(ctx, "v", "../s"); return err },
			"DELETE /api/v1/instances/v/snapshots/..%2Fs ", "{}"},
		"trash": {func(c *client.Client) error { _, err := c.Trash(ctx, "hv1"); return err }, "GET /api/v1/trash?limit=1000&node=hv1 ", "[]"},
		"restore": {func(c *client.Client) error { _, err := c.RestoreVolume(ctx, "hv1", "p", "t1"); return err },
			"POST /api/v1/trash/p/t1/restore?node=hv1 ", "{}"},
		"purge": {func(c *client.Client) error { return c.PurgeVolume(ctx, "", "p", "t1") }, "DELETE /api/v1/trash/p/t1 ", ""},
		"discard": {func(c *client.Client) error { _, err := c.DiscardVolume(ctx, "hv1", "p", "v"); return err },
			`POST /api/v1/trash?node=hv1 {"pool":"p","name":"v"}`, "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = r.Method + " " + r.RequestURI + " " + string(body)
				_, _ = io.WriteString(w, tt.answer)
			})
			if err := tt.call(c); err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

// TestDiscardedForGood checks that a pool without a trash returns no item.
func TestDiscardedForGood(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	item, err := c.DiscardVolume(t.Context(), "", "p", "v")
	if err != nil || item != nil {
		t.Errorf("%v, %v", item, err)
	}
	c = serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"pool":"p","id":"t1","name":"v","instance_name":"web1"}`)
	})
	if item, err = c.DiscardVolume(t.Context(), "", "p", "v"); err != nil || item == nil || item.ID != "t1" || item.InstanceName != "web1" {
		t.Errorf("%+v, %v", item, err)
	}
}
