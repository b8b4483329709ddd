package storetest

import (
	"context"
	"strings"
	"time"

	"seedbed"
)

func testEndpoints(b *bench) {
	ctx := context.Background()
	e := endpointOf("ci", "job.*", seedbed.EventInstanceReady)
	e.CloudEvents, e.AllowPrivate, e.Insecure = true, true, true
	made := get(b.CreateEndpoint(ctx, e))(b)
	if made.Created.IsZero() || !made.Enabled || len(made.Keys) != 1 || made.Keys[0].ID == "" || string(made.Keys[0].Key) != string(key32) {
		b.Fatalf("made %+v", made)
	}
	want := e
	want.Enabled, want.Created, want.Keys = true, made.Created, made.Keys
	b.equal(made, want)
	b.equal(get(b.Endpoint(ctx, "ci"))(b), made)
	_, err := b.CreateEndpoint(ctx, e)
	b.want(err, seedbed.ErrExists, `"ci"`)
	b.equal(get(b.Endpoints(ctx))(b), []seedbed.Endpoint{made})
	for what, change := range map[string]func(*seedbed.Endpoint){
		"name":        func(e *seedbed.Endpoint) { e.Name = "../x" },
		"plain http":  func(e *seedbed.Endpoint) { e.URL = "http://x.example/" },
		"user":        func(e *seedbed.Endpoint) { e.URL = "https://u:hunter2@x.example/" },
		"no host":     func(e *seedbed.Endpoint) { e.URL = "https:///x" },
		"scheme":      func(e *seedbed.Endpoint) { e.URL = "file:///etc/passwd" },
		"line end":    func(e *seedbed.Endpoint) { e.URL = "https://x.example/\r\nX: y" },
		"fragment":    func(e *seedbed.Endpoint) { e.URL = "https://x.example/#a" },
		"no event":    func(e *seedbed.Endpoint) { e.Events = nil },
		"wrong event": func(e *seedbed.Endpoint) { e.Events = []string{"job.exploded"} },
		"wrong kind":  func(e *seedbed.Endpoint) { e.Events = []string{"endpoint.*"} },
		"no key":      func(e *seedbed.Endpoint) { e.Keys = nil },
		"short key":   func(e *seedbed.Endpoint) { e.Keys = []seedbed.EndpointKey{{Key: key32[:23]}} },
	} {
		bad := endpointOf("other", "*")
		change(&bad)
		_, err := b.CreateEndpoint(ctx, bad)
		if err == nil {
			b.Errorf("%s: made", what)
			continue
		}
		b.want(err, seedbed.ErrInvalid)
		if strings.Contains(err.Error(), "hunter2") {
			b.Errorf("%s: %v tells the password", what, err)
		}
	}
	b.must(b.DeleteEndpoint(ctx, "ci"))
	for _, err := range []error{
		b.DeleteEndpoint(ctx, "ci"),
		second(b.Endpoint(ctx, "ci")), second(b.SetEndpointEnabled(ctx, "ci", true)), second(b.SetEndpointEnabled(ctx, "ci", false)),
		second(b.RotateEndpointKey(ctx, "ci", key32, 0)), second(b.Resend(ctx, "ci", "x")), second(b.Replay(ctx, "ci", day, false)),
		second(b.OutgoingDeliveries(ctx, "ci", "", 0)),
	} {
		b.want(err, seedbed.ErrNotFound, `"ci"`)
	}
}

func second[T any](_ T, err error) error { return err }

func testEndpointRotation(b *bench) {
	ctx := context.Background()
	first := b.endpoint("ci", "*").Keys[0]
	e := get(b.RotateEndpointKey(ctx, "ci", []byte("second key second key second key"), time.Hour))(b)
	if len(e.Keys) != 2 || e.Keys[0].ID != first.ID || time.Until(e.Keys[0].Expires) < 50*time.Minute || !e.Keys[1].Expires.IsZero() {
		b.Fatalf("keys %+v", e.Keys)
	}
	// A shorter overlap shortens that of the older keys too.
	e = get(b.RotateEndpointKey(ctx, "ci", key32, time.Minute))(b)
	if len(e.Keys) != 3 || time.Until(e.Keys[0].Expires) > time.Minute {
		b.Fatalf("keys %+v", e.Keys)
	}
	get(b.RotateEndpointKey(ctx, "ci", key32, time.Minute))(b)
	_, err := b.RotateEndpointKey(ctx, "ci", key32, time.Minute)
	b.want(err, seedbed.ErrConflict, "4 keys")
	e = get(b.RotateEndpointKey(ctx, "ci", []byte("last key last key last key last key"), 0))(b)
	if len(e.Keys) != 1 || !strings.HasPrefix(string(e.Keys[0].Key), "last") {
		b.Fatalf("keys %+v", e.Keys)
	}
	_, err = b.RotateEndpointKey(ctx, "ci", key32, -1)
	b.want(err, seedbed.ErrInvalid)
	_, err = b.RotateEndpointKey(ctx, "ci", []byte("short"), 0)
	b.want(err, seedbed.ErrInvalid)
}
