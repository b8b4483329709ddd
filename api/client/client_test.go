package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
)

func serve(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := client.New(client.Options{URL: s.URL + "/", Token: "t0ken"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	tests := []struct {
		name string
		call func(*client.Client) error
		want string // method, target and body
	}{
		{"health", func(c *client.Client) error { _, err := c.Health(ctx); return err }, "GET /api/v1/health "},
		{"doctor", func(c *client.Client) error { _, err := c.Doctor(ctx); return err }, "GET /api/v1/doctor "},
		{"images", func(c *client.Client) error { _, err := c.Images(ctx); return err }, "GET /api/v1/images?limit=1000 "},
		{"image", func(c *client.Client) error { _, err := c.Image(ctx, "a/../b"); return err }, "GET /api/v1/images/a%2F..%2Fb "},
		{"import", func(c *client.Client) error {
			_, err := c.ImportImage(ctx, wire.ImageRequest{Name: "d12", Path: "/i.qcow2"})
			return err
		}, `POST /api/v1/images {"name":"d12","path":"/i.qcow2"}`},
		{"profiles", func(c *client.Client) error { _, err := c.Profiles(ctx); return err }, "GET /api/v1/profiles?limit=1000 "},
		{"profile", func(c *client.Client) error { _, err := c.Profile(ctx, "p"); return err }, "GET /api/v1/profiles/p "},
		{"profile add", func(c *client.Client) error {
			_, err := c.CreateProfile(ctx, seedbed.Profile{Name: "p", Image: "i", VCPUs: 1, Memory: seedbed.GiB, UserData: []byte("x")})
			return err
		}, `POST /api/v1/profiles {"name":"p","image":"i","vcpus":1,"memory":"1GiB","disk_size":"0","network":"","ssh_keys":null,` +
			`"user_data":"eA==","vendor_data":null,"vendor_data_in_user_data":false,"metadata":{},"tags":null,"protected":false,"hold":false}`},
		{"change", func(c *client.Client) error {
			v := "x"
			_, err := c.ChangeInstance(ctx, "v", wire.InstanceChange{Metadata: &seedbed.MetadataOptions{Tokens: "required"},
				Tags: map[string]*string{"a": &v, "b": nil}, Spot: wire.SpotNotice(nil)})
			return err
		}, `PATCH /api/v1/instances/v {"metadata":{"http_tokens":"required"},"tags":{"a":"x","b":null},"spot":null}`},
		{"change of nothing", func(c *client.Client) error {
			_, err := c.ChangeInstance(ctx, "v", wire.InstanceChange{})
			return err
		}, `PATCH /api/v1/instances/v {}`},
		{"announce", func(c *client.Client) error {
			_, err := c.Announce(ctx, "v", wire.MaintenanceRequest{Code: "instance-stop", NotBefore: time.Unix(0, 0).UTC()})
			return err
		}, `POST /api/v1/instances/v/maintenance {"code":"instance-stop","description":"","not_before":"1970-01-01T00:00:00Z"}`},
		{"announce to a node", func(c *client.Client) error {
			_, err := c.AnnounceNode(ctx, "n", wire.MaintenanceRequest{NotBefore: time.Unix(0, 0).UTC(), NotAfter: time.Unix(1, 0).UTC()})
			return err
		},
			`POST /api/v1/nodes/n/maintenance {"code":"","description":"","not_before":"1970-01-01T00:00:00Z","not_after":"1970-01-01T00:00:01Z"}`},
		{"maintenance", func(c *client.Client) error { _, err := c.Maintenance(ctx, "v"); return err }, "GET /api/v1/instances/v/maintenance "},
		{"node maintenance", func(c *client.Client) error { _, err := c.NodeMaintenance(ctx, "n"); return err },
			"GET /api/v1/nodes/n/maintenance "},
		{"complete", func(c *client.Client) error { _, err := c.CompleteMaintenance(ctx, "e"); return err },
			"POST /api/v1/maintenance/e/complete "},
		{"cancel maintenance", func(c *client.Client) error { _, err := c.CancelMaintenance(ctx, "e"); return err },
			"POST /api/v1/maintenance/e/cancel "},
		{"network", func(c *client.Client) error { _, err := c.Network(ctx, "n"); return err }, "GET /api/v1/networks/n "},
		{"network set", func(c *client.Client) error {
			_, err := c.ChangeNetwork(ctx, "n", wire.NetworkChange{Allow: &seedbed.NetworkPermissions{DHCPServer: true}})
			return err
		}, `PATCH /api/v1/networks/n {"allow":{"dhcp_server":true}}`},
		{"certificate", func(c *client.Client) error { _, err := c.IdentityCertificate(ctx); return err }, "GET /api/v1/certificates/identity "},
		{"filtered access", func(c *client.Client) error {
			_, err := c.Access(ctx, "v", client.AccessFilter{Kind: "access", Path: "/latest", Status: "4xx", Since: time.Unix(0, 0)})
			return err
		}, "GET /api/v1/instances/v/access?kind=access&path=%2Flatest&since=1970-01-01T00%3A00%3A00Z&status=4xx "},
		{"nodes", func(c *client.Client) error { _, err := c.Nodes(ctx); return err }, "GET /api/v1/nodes?limit=1000 "},
		{"node", func(c *client.Client) error { _, err := c.Node(ctx, "n/x"); return err }, "GET /api/v1/nodes/n%2Fx "},
		{"node add", func(c *client.Client) error {
			_, err := c.AddNode(ctx, wire.NodeRequest{Name: "n", Worker: "https://n:1"})
			return err
		}, `POST /api/v1/nodes {"name":"n","worker":"https://n:1","cordoned":false}`},
		{"node cordon", func(c *client.Client) error {
			_, err := c.ChangeNode(ctx, "n", wire.NodeChange{Cordoned: new(bool)})
			return err
		}, `PATCH /api/v1/nodes/n {"cordoned":false}`},
		{"node set", func(c *client.Client) error {
			_, err := c.ChangeNode(ctx, "n", wire.NodeChange{Worker: new(string)})
			return err
		}, `PATCH /api/v1/nodes/n {"worker":""}`},
		{"node remove", func(c *client.Client) error { return c.RemoveNode(ctx, "n") }, "DELETE /api/v1/nodes/n "},
		{"create on a node", func(c *client.Client) error {
			_, err := c.CreateInstance(ctx, seedbed.Request{Name: "v", Profile: "p", Node: "n"})
			return err
		}, `POST /api/v1/instances {"name":"v","profile":"p","node":"n"}`},
		{"profile remove", func(c *client.Client) error { return c.DeleteProfile(ctx, "p") }, "DELETE /api/v1/profiles/p "},
		{"hooks", func(c *client.Client) error { _, err := c.Hooks(ctx); return err }, "GET /api/v1/hooks?limit=1000 "},
		{"hook", func(c *client.Client) error { _, err := c.Hook(ctx, "h"); return err }, "GET /api/v1/hooks/h "},
		{"hook add", func(c *client.Client) error {
			_, err := c.AddHook(ctx, wire.HookRequest{Name: "h", Tolerance: time.Second})
			return err
		}, `POST /api/v1/hooks {"name":"h","profiles":null,"actions":null,"tolerance":1000000000}`},
		{"hook remove", func(c *client.Client) error { return c.DeleteHook(ctx, "h") }, "DELETE /api/v1/hooks/h "},
		{"rejections", func(c *client.Client) error { _, err := c.Rejections(ctx, "ci", 5); return err },
			"GET /api/v1/deliveries/rejected?hook=ci&limit=5 "},
		{"deliveries of an ID", func(c *client.Client) error { _, err := c.DeliveriesOf(ctx, "a/b"); return err },
			"GET /api/v1/deliveries?id=a%2Fb "},
		{"deliveries", func(c *client.Client) error { _, err := c.Deliveries(ctx, "", 0); return err }, "GET /api/v1/deliveries "},
		{"create", func(c *client.Client) error {
			_, err := c.CreateInstance(ctx, seedbed.Request{Action: "create", Name: "v", Profile: "p", Params: map[string]any{"vcpus": 2}})
			return err
		}, `POST /api/v1/instances {"name":"v","profile":"p","params":{"vcpus":2}}`},
		{"instances", func(c *client.Client) error { _, err := c.Instances(ctx); return err }, "GET /api/v1/instances?limit=1000 "},
		{"retry", func(c *client.Client) error { _, err := c.RetryJob(ctx, "5f0f7e0d"); return err }, "POST /api/v1/jobs/5f0f7e0d/retry "},
		{"some instances", func(c *client.Client) error {
			_, err := c.ListInstances(ctx,
				seedbed.InstanceQuery{State: seedbed.InstanceStopped, Profile: "web", Node: "hv1", Prefix: "w",
					After: seedbed.InDefault("w1"), Limit: 3})
			return err
		}, "GET /api/v1/instances?after=w1&limit=3&name=w&node=hv1&profile=web&state=stopped "},
		{"some jobs", func(c *client.Client) error {
			_, err := c.ListJobs(ctx, seedbed.JobQuery{Scope: seedbed.AllProjects(), Kind: seedbed.JobStop, State: seedbed.JobFailed, Limit: 2000})
			return err
		}, "GET /api/v1/jobs?all_projects=true&kind=stop&limit=1000&state=failed "},
		{"instance", func(c *client.Client) error { _, err := c.Instance(ctx, "v"); return err }, "GET /api/v1/instances/v "},
		{"remove", func(c *client.Client) error { _, err := c.RemoveInstance(ctx, "v", ""); return err }, "DELETE /api/v1/instances/v "},
		{"access", func(c *client.Client) error { _, err := c.Access(ctx, "v", client.AccessFilter{Max: 7}); return err },
			"GET /api/v1/instances/v/access?limit=7 "},
		{"jobs", func(c *client.Client) error { _, err := c.Jobs(ctx, 5); return err }, "GET /api/v1/jobs?limit=5 "},
		{"job", func(c *client.Client) error { _, err := c.Job(ctx, "0123abcd"); return err }, "GET /api/v1/jobs/0123abcd "},
		{"events", func(c *client.Client) error { _, err := c.JobEvents(ctx, "j", 3, 20*time.Second); return err },
			"GET /api/v1/jobs/j/events?after=3&wait=20s "},
		{"cancel", func(c *client.Client) error { return c.CancelJob(ctx, "j") }, "POST /api/v1/jobs/j/cancel "},
		{"networks", func(c *client.Client) error { _, err := c.Networks(ctx); return err }, "GET /api/v1/networks?limit=1000 "},
		{"leases", func(c *client.Client) error { _, err := c.Leases(ctx); return err }, "GET /api/v1/leases?limit=1000 "},
		{"cleanup", func(c *client.Client) error { _, err := c.Cleanup(ctx, true, false); return err },
			`POST /api/v1/cleanup {"dry_run":true,"force":false}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := ""
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = r.Method + " " + r.RequestURI + " " + string(body)
				if a := r.Header.Get("Authorization"); a != "Bearer t0ken" {
					t.Errorf("Authorization: %q", a)
				}
				if kind := r.Header.Get("Content-Type"); len(body) > 0 && kind != "application/json" {
					t.Errorf("Content-Type: %q", kind)
				}
				io.WriteString(w, "null")
			})
			if err := tt.call(c); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	const body = "\x00raw\n"
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, body+r.RequestURI) })
	got, err := c.Console(t.Context(), "v", 64*seedbed.KiB)
	if want := body + "/api/v1/instances/v/console?tail=64KiB"; err != nil || string(got) != want {
		t.Errorf("Console: %q, %v, want %q", got, err, want)
	}
	got, err = c.Metadata(t.Context(), "v", "/latest/x y")
	if want := body + "/api/v1/instances/v/metadata?path=%2Flatest%2Fx+y"; err != nil || string(got) != want {
		t.Errorf("Metadata: %q, %v, want %q", got, err, want)
	}
}

func TestProblem(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		io.WriteString(w, `{"title":"Conflict","status":409,"detail":"name web1 is taken","kind":"exists","job":"0123abcd-x"}`)
	})
	_, err := c.CreateInstance(t.Context(), seedbed.Request{Name: "web1"})
	e, ok := errors.AsType[*seedbed.Error](err)
	if !ok || !errors.Is(err, seedbed.ErrExists) || e.Msg != "name web1 is taken" || e.Holder != "0123abcd-x" {
		t.Errorf("CreateInstance: %#v", err)
	}
}

func TestStrangeAnswers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"another server", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", 500) },
			"500 Internal Server Error without saying why"},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }, "is not Seedbed's"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "http://192.0.2.1/", 302) }, "302 Found"},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "[")
		}, "does not answer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := serve(t, tt.answer).Images(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Images: %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	for _, o := range []client.Options{{URL: "http://" + addr}, {Socket: filepath.Join(t.TempDir(), "none.sock")}} {
		c, err := client.New(o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Jobs(t.Context(), 1)
		if !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), "does not answer on "+c.Where()+" (is seedbedd running?)") {
			t.Errorf("Jobs: %v", err)
		}
	}
	for _, url := range []string{"", "127.0.0.1:7370", "ftp://x", "http://"} {
		if _, err := client.New(client.Options{URL: url}); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("New(%q): %v, want ErrInvalid", url, err)
		}
	}
}

// TestUnansweredHint checks the hint for a server that seems to be absent but uses the other
// protocol.
func TestUnansweredHint(t *testing.T) {
	t.Parallel()
	plain := func(t *testing.T) string { // hangs up, as a TLS server does that receives plain HTTP
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 1)) // then the connection ends with an end of file, not with a reset
				conn.(*net.TCPConn).CloseWrite()
			}
		}()
		return "http://" + ln.Addr().String()
	}
	trusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(trusted.Close)
	for want, url := range map[string]string{"use https://": plain(t), "with --ca": trusted.URL} {
		c, err := client.New(client.Options{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Health(t.Context()); !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

func TestSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a := r.Header.Get("Authorization"); a != "" {
			t.Errorf("Authorization %q without a token", a)
		}
		io.WriteString(w, `{"status":"ok","version":"1"}`)
	}))
	s.Listener.Close()
	s.Listener = ln
	s.Start()
	defer s.Close()
	c, err := client.New(client.Options{Socket: path})
	if err != nil {
		t.Fatal(err)
	}
	if h, err := c.Health(t.Context()); err != nil || h.Version != "1" || c.Where() != path {
		t.Errorf("Health on %s: %+v, %v", c.Where(), h, err)
	}
}

// TestCutOff checks that a POST whose connection breaks is sent again with its key until it is
// answered, and that nothing else is.
func TestCutOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		call    func(*client.Client) error
		answers []int // 0 is a connection that breaks
		want    error
		sent    int
	}{
		"answered":             {add, []int{201}, nil, 1},
		"cut":                  {add, []int{0, 201}, nil, 2},
		"restart":              {add, []int{0, 503, 503, 201}, nil, 4},
		"being carried out":    {add, []int{0, 409, 201}, nil, 3},
		"cut twice":            {add, []int{0, 0, 201}, seedbed.ErrUnavailable, 2},
		"refused":              {add, []int{0, 422}, seedbed.ErrInvalid, 2},
		"not cut":              {add, []int{503, 201}, seedbed.ErrUnavailable, 1},
		"removal":              {remove, []int{0, 204}, seedbed.ErrUnavailable, 1},
		"never again answered": {add, []int{0, 503, 503, 503, 503, 503, 503, 503}, seedbed.ErrUnavailable, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var keys []string
			cl := serve(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				keys = append(keys, r.Header.Get("Idempotency-Key"))
				status := c.answers[len(keys)-1]
				mu.Unlock()
				kind := map[int]string{409: "in_use", 422: "invalid", 503: "unavailable"}
				switch {
				case status == 0:
					panic(http.ErrAbortHandler)
				case status == 204:
					w.WriteHeader(status)
				case status > 299:
					w.WriteHeader(status)
					fmt.Fprintf(w, `{"kind":%q,"detail":"x"}`, kind[status])
				default:
					w.WriteHeader(status)
					io.WriteString(w, "{}")
				}
			})
			err := c.call(cl)
			mu.Lock()
			defer mu.Unlock()
			if !errors.Is(err, c.want) || len(keys) != c.sent || len(slices.Compact(keys)) != 1 {
				t.Errorf("%v after %d requests with the keys %q; want %v after %d", err, len(keys), keys, c.want, c.sent)
			}
		})
	}
}

func add(c *client.Client) error {
	_, err := c.CreateUserData(context.Background(), wire.UserDataRequest{})
	return err
}

func remove(c *client.Client) error { return c.DeleteProfile(context.Background(), "p") }
