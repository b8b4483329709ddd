package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
)

// TestObjectRequests checks the request of every call about templates, user-data, scripts and OVA
// images.
func TestObjectRequests(t *testing.T) {
	t.Parallel()
	system := seedbed.CatalogueSystem{Name: "a", VCPUs: 2, Memory: seedbed.GiB}
	read := wire.Stored{ID: 7, Revision: 3, Created: time.UnixMicro(5)}
	tests := []struct {
		name string
		call func(context.Context, *client.Client) error
		want string
	}{
		{"system", func(ctx context.Context, c *client.Client) error { _, err := c.SystemTemplate(ctx, "a/b"); return err },
			"GET /api/v1/templates/system/a%2Fb "},
		{"create system", func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateSystemTemplate(ctx, system)
			return err
		}, `POST /api/v1/templates/system {"name":"a","vcpus":2,"memory":"1GiB"}`},
		{"change system", func(ctx context.Context, c *client.Client) error {
			_, err := c.ChangeSystemTemplate(ctx, wire.SystemTemplate{CatalogueSystem: system, Stored: read})
			return err
		}, `PUT /api/v1/templates/system/a {"name":"a","vcpus":2,"memory":"1GiB"} if "3-5"`},
		{"delete system", func(ctx context.Context, c *client.Client) error { return c.DeleteSystemTemplate(ctx, "a") },
			"DELETE /api/v1/templates/system/a "},
		{"network", func(ctx context.Context, c *client.Client) error { _, err := c.NetworkTemplate(ctx, "a"); return err },
			"GET /api/v1/templates/network/a "},
		{"create network", func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateNetworkTemplate(ctx, wire.NetworkTemplateRequest{Name: "a", MAC: "{prefix}"})
			return err
		}, `POST /api/v1/templates/network {"name":"a","mac_template":"{prefix}"}`},
		{"delete network", func(ctx context.Context, c *client.Client) error { return c.DeleteNetworkTemplate(ctx, "a") },
			"DELETE /api/v1/templates/network/a "},
		{"add VNI", func(ctx context.Context, c *client.Client) error {
			_, err := c.AddTemplateNetwork(ctx, "a", wire.TemplateNetworkRequest{VNI: "v"})
			return err
		}, `POST /api/v1/templates/network/a/vnis {"vni":"v"}`},
		{"add VNI again", func(ctx context.Context, c *client.Client) error {
			_, err := c.AddTemplateNetwork(ctx, "a", wire.TemplateNetworkRequest{VNI: "v", PermitDuplicate: true})
			return err
		}, `POST /api/v1/templates/network/a/vnis {"vni":"v","permit_duplicate":true}`},
		{"remove VNI", func(ctx context.Context, c *client.Client) error { return c.RemoveTemplateNetwork(ctx, "a", "v") },
			"DELETE /api/v1/templates/network/a/vnis/v "},
		{"storage", func(ctx context.Context, c *client.Client) error { _, err := c.StorageTemplate(ctx, "a"); return err },
			"GET /api/v1/templates/storage/a "},
		{"create storage", func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateStorageTemplate(ctx, wire.StorageTemplateRequest{Name: "a"})
			return err
		}, `POST /api/v1/templates/storage {"name":"a"}`},
		{"delete storage", func(ctx context.Context, c *client.Client) error { return c.DeleteStorageTemplate(ctx, "a") },
			"DELETE /api/v1/templates/storage/a "},
		{"add disk", func(ctx context.Context, c *client.Client) error {
			_, err := c.AddTemplateDisk(ctx, "a", seedbed.CatalogueDisk{Name: "sda", Pool: "p", Size: seedbed.GiB, FilesystemArgs: []string{"-L=x"}})
			return err
		}, `POST /api/v1/templates/storage/a/disks {"name":"sda","pool":"p","size":"1GiB","filesystem_args":["-L=x"]}`},
		{"remove disk", func(ctx context.Context, c *client.Client) error { return c.RemoveTemplateDisk(ctx, "a", "sda") },
			"DELETE /api/v1/templates/storage/a/disks/sda "},
		{"userdata", func(ctx context.Context, c *client.Client) error { _, err := c.UserDataDocument(ctx, "a"); return err },
			"GET /api/v1/userdata/a "},
		{"create userdata", func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateUserData(ctx, wire.UserDataRequest{Name: "a", Data: "x\n"})
			return err
		}, `POST /api/v1/userdata {"name":"a","data":"x\n"}`},
		{"change userdata", func(ctx context.Context, c *client.Client) error {
			_, err := c.ChangeUserData(ctx, wire.UserData{Name: "a"})
			return err
		}, `PUT /api/v1/userdata/a {"data":""}`},
		{"delete userdata", func(ctx context.Context, c *client.Client) error { return c.DeleteUserData(ctx, "a") },
			"DELETE /api/v1/userdata/a "},
		{"script", func(ctx context.Context, c *client.Client) error { _, err := c.Script(ctx, "a"); return err },
			"GET /api/v1/scripts/a "},
		{"create script", func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateScript(ctx, wire.ScriptRequest{Name: "a", Text: "x"})
			return err
		}, `POST /api/v1/scripts {"name":"a","text":"x"}`},
		{"change script", func(ctx context.Context, c *client.Client) error {
			_, err := c.ChangeScript(ctx, wire.Script{Name: "a", Text: "x", Stored: read})
			return err
		}, `PUT /api/v1/scripts/a {"text":"x"} if "3-5"`},
		{"change options", func(ctx context.Context, c *client.Client) error {
			_, err := c.ChangeScriptOptions(ctx, "a", wire.ScriptOptionsChange{Network: new(false), Memory: new(seedbed.GiB)})
			return err
		}, `PATCH /api/v1/scripts/a/options {"network":false,"memory":"1GiB"}`},
		{"delete script", func(ctx context.Context, c *client.Client) error { return c.DeleteScript(ctx, "a") },
			"DELETE /api/v1/scripts/a "},
		{"OVA", func(ctx context.Context, c *client.Client) error { _, err := c.OVA(ctx, "a"); return err },
			"GET /api/v1/ovas/a "},
		{"remove OVA", func(ctx context.Context, c *client.Client) error { _, err := c.RemoveOVA(ctx, "a"); return err },
			"DELETE /api/v1/ovas/a "},
		{"create", func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateInstance(ctx,
				seedbed.Request{Name: "v", Profile: "p", Hold: new(true), Undefined: true, Arguments: []string{}, Ready: seedbed.ReadyStarted})
			return err
		}, `POST /api/v1/instances {"name":"v","profile":"p","hold":true,"ready":"started","arguments":[],"disks_only":true}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := ""
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = r.Method + " " + r.RequestURI + " " + string(body)
				if tag := r.Header.Get("If-Match"); tag != "" {
					got += " if " + tag
				}
				io.WriteString(w, `{}`)
			})
			if err := tt.call(t.Context(), c); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestObjectLists checks which objects a pattern lists, and what is asked of the server.
func TestObjectLists(t *testing.T) {
	t.Parallel()
	asked := ""
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.RequestURI
		io.WriteString(w, `[{"id":3,"name":"ab","text":"x","data":"y"},{"id":4,"name":"abc"}]`)
	})
	ctx := t.Context()
	for pattern, want := range map[string]struct {
		names []string
		query string
	}{
		"": {[]string{"ab", "abc"}, "limit=1000"}, "^a": {[]string{"ab", "abc"}, "limit=1000&name=a"}, "b$": {[]string{"ab"}, "limit=1000"},
		"^ab$": {[]string{"ab"}, "limit=1000&name=ab"}, "none": {[]string{}, "limit=1000"}, "^": {[]string{"ab", "abc"}, "limit=1000"},
	} {
		all, err := c.Scripts(ctx, seedbed.Scope{}, pattern)
		names := []string{}
		for _, s := range all {
			names = append(names, s.Name)
		}
		if diff := cmp.Diff(want.names, names); err != nil || all == nil || diff != "" || asked != "/api/v1/scripts?"+want.query {
			t.Errorf("%q: %v, asked for %s: %s", pattern, err, asked, diff)
		}
	}
	asked = ""
	if all, err := c.Scripts(ctx, seedbed.Scope{}, "^a b"); err != nil || all == nil || len(all) != 0 || asked != "" {
		t.Errorf("what no name starts with: %v, %v, asked for %s", all, err, asked)
	}
}

func TestUpload(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("pool") == "full" {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			const problem = `{"title":"No","detail":"no room","kind":"invalid"}`
			fmt.Fprintf(conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(problem), problem)
			conn.Close() // with most of the file unread
			return
		}
		text, _ := io.ReadAll(r.Body)
		if want := "/api/v1/ovas/a/content?pool=p application/octet-stream 7 content"; want != fmt.Sprintf("%s %s %d %s",
			r.RequestURI, r.Header.Get("Content-Type"), r.ContentLength, text) {
			t.Errorf("got %s %s %d %s; want %s", r.RequestURI, r.Header.Get("Content-Type"), r.ContentLength, text, want)
		}
		io.WriteString(w, `{"job":"j","state":"queued","duplicate":false}`)
	})
	if got, err := c.UploadOVA(t.Context(), "a", "p", strings.NewReader("content and more"), 7); err != nil || got.Job != "j" {
		t.Errorf("UploadOVA: %+v, %v", got, err)
	}
	_, err := c.UploadOVA(t.Context(), "a", "full", zeros{}, seedbed.GiB)
	if !errors.Is(err, seedbed.ErrInvalid) || err.Error() != "no room" {
		t.Errorf("UploadOVA to a server that does not read it: %v", err)
	}
}

func TestUploadImage(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if want := "/api/v1/images/a/content?firmware=uefi&format=raw&pool=p&sha256=00 application/octet-stream 7 content"; fmt.Sprintf(
			"%s %s %d %s", r.RequestURI, r.Header.Get("Content-Type"), r.ContentLength, text,
		) != want {
			t.Errorf("got %s %s %d %s; want %s", r.RequestURI, r.Header.Get("Content-Type"), r.ContentLength, text, want)
		}
		w.WriteHeader(http.StatusAccepted)
		io.WriteString(w, `{"job":"j","state":"queued","duplicate":false}`)
	})
	u := wire.ImageRequest{Name: "a", Pool: "p", SHA256: "00", Format: "raw", Firmware: seedbed.FirmwareUEFI}
	if got, err := c.UploadImage(t.Context(), u, strings.NewReader("content and more"), 7); err != nil || got.Job != "j" {
		t.Errorf("%+v, %v", got, err)
	}
}

// zeros is a file without an end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
