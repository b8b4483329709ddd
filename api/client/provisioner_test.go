package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
)

// TestProvisionerRequests checks the request of every call of PVC's provisioner.
func TestProvisionerRequests(t *testing.T) {
	t.Parallel()
	system := client.SystemTemplateRequest{VCPUs: new(2), Serial: new(false), NodeLimit: new("")}
	disk := client.TemplateDiskRequest{Pool: "p", SizeGB: new(0), Filesystem: "ext4", FilesystemArgs: []string{"-L=x"}}
	profile := client.ProvisionerProfileRequest{Type: "provisioner", System: new("s"), Arguments: []string{""}}
	tests := []struct {
		name string
		call func(context.Context, *client.Client) (string, error)
		want string
	}{
		{"add system", func(ctx context.Context, c *client.Client) (string, error) {
			return c.AddSystemTemplate(ctx, "a/b", system)
		},
			`POST /api/v1/provisioner/template/system/a%2Fb {"vcpus":2,"serial":false,"node_limit":""}`},
		{"change system", func(ctx context.Context, c *client.Client) (string, error) {
			return c.ChangeSystemTemplate(ctx, "a", system)
		}, `PUT /api/v1/provisioner/template/system/a {"vcpus":2,"serial":false,"node_limit":""}`},
		{"remove system", func(ctx context.Context, c *client.Client) (string, error) { return c.RemoveSystemTemplate(ctx, "a") },
			"DELETE /api/v1/provisioner/template/system/a "},
		{"add network", func(ctx context.Context, c *client.Client) (string, error) {
			return c.AddNetworkTemplate(ctx, "a", "{prefix}")
		},
			`POST /api/v1/provisioner/template/network/a {"mac_template":"{prefix}"}`},
		{"remove network", func(ctx context.Context, c *client.Client) (string, error) { return c.RemoveNetworkTemplate(ctx, "a") },
			"DELETE /api/v1/provisioner/template/network/a "},
		{"add VNI", func(ctx context.Context, c *client.Client) (string, error) {
			return c.AddTemplateNetwork(ctx, "a", "v", false)
		},
			"POST /api/v1/provisioner/template/network/a/net/v {}"},
		{"add VNI again", func(ctx context.Context, c *client.Client) (string, error) {
			return c.AddTemplateNetwork(ctx, "a", "v", true)
		},
			`POST /api/v1/provisioner/template/network/a/net/v {"permit_duplicate":true}`},
		{"remove VNI", func(ctx context.Context, c *client.Client) (string, error) {
			return c.RemoveTemplateNetwork(ctx, "a", "v")
		},
			"DELETE /api/v1/provisioner/template/network/a/net/v "},
		{"add storage", func(ctx context.Context, c *client.Client) (string, error) { return c.AddStorageTemplate(ctx, "a") },
			"POST /api/v1/provisioner/template/storage/a "},
		{"remove storage", func(ctx context.Context, c *client.Client) (string, error) { return c.RemoveStorageTemplate(ctx, "a") },
			"DELETE /api/v1/provisioner/template/storage/a "},
		{"add disk", func(ctx context.Context, c *client.Client) (string, error) {
			return c.AddTemplateDisk(ctx, "a", "sda", disk)
		},
			`POST /api/v1/provisioner/template/storage/a/disk/sda {"pool":"p","disk_size":0,"filesystem":"ext4","filesystem_arg":["-L=x"]}`},
		{"remove disk", func(ctx context.Context, c *client.Client) (string, error) {
			return c.RemoveTemplateDisk(ctx, "a", "sda")
		},
			"DELETE /api/v1/provisioner/template/storage/a/disk/sda "},
		{"add userdata", func(ctx context.Context, c *client.Client) (string, error) { return c.AddUserData(ctx, "a", "x\n") },
			`POST /api/v1/provisioner/userdata/a {"data":"x\n"}`},
		{"change userdata", func(ctx context.Context, c *client.Client) (string, error) { return c.ChangeUserData(ctx, "a", "") },
			`PUT /api/v1/provisioner/userdata/a {"data":""}`},
		{"remove userdata", func(ctx context.Context, c *client.Client) (string, error) { return c.RemoveUserData(ctx, "a") },
			"DELETE /api/v1/provisioner/userdata/a "},
		{"add script", func(ctx context.Context, c *client.Client) (string, error) { return c.AddScript(ctx, "a", "x") },
			`POST /api/v1/provisioner/script/a {"data":"x"}`},
		{"change script", func(ctx context.Context, c *client.Client) (string, error) { return c.ChangeScript(ctx, "a", "x") },
			`PUT /api/v1/provisioner/script/a {"data":"x"}`},
		{"remove script", func(ctx context.Context, c *client.Client) (string, error) { return c.RemoveScript(ctx, "a") },
			"DELETE /api/v1/provisioner/script/a "},
		{"add profile", func(ctx context.Context, c *client.Client) (string, error) {
			return c.AddProvisionerProfile(ctx, "a", profile)
		}, `POST /api/v1/provisioner/profile/a {"profile_type":"provisioner","system_template":"s","arg":[""]}`},
		{"change profile", func(ctx context.Context, c *client.Client) (string, error) {
			return c.ChangeProvisionerProfile(ctx, "a", client.ProvisionerProfileRequest{UserData: new("u")})
		}, `PUT /api/v1/provisioner/profile/a {"userdata":"u"}`},
		{"remove profile", func(ctx context.Context, c *client.Client) (string, error) {
			return c.RemoveProvisionerProfile(ctx, "a")
		},
			"DELETE /api/v1/provisioner/profile/a "},
		{"remove OVA", func(ctx context.Context, c *client.Client) (string, error) { return c.RemoveOVA(ctx, "a") },
			"DELETE /api/v1/provisioner/ova/a "},
		{"create", func(ctx context.Context, c *client.Client) (string, error) {
			_, err := c.Compose(ctx, client.ComposeRequest{Name: "v", Profile: "p", Define: true})
			return "done", err
		}, `POST /api/v1/provisioner/create {"name":"v","profile":"p","define_vm":true,"start_vm":false}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := ""
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = r.Method + " " + r.RequestURI + " " + string(body)
				io.WriteString(w, `{"message":"done"}`)
			})
			msg, err := tt.call(t.Context(), c)
			if err != nil || msg != "done" {
				t.Errorf("%q, %v, want the server's message", msg, err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestProvisionerLists(t *testing.T) {
	t.Parallel()
	asked := ""
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.RequestURI
		if strings.Contains(r.RequestURI, "none") {
			w.Header().Set(wire.ErrorKind, "not_found")
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"message":"No scripts found."}`)
			return
		}
		io.WriteString(w, `[{"id":3,"name":"a","script":"x","userdata":"y"}]`)
	})
	ctx := t.Context()
	if all, err := c.Scripts(ctx, "^a"); err != nil || cmp.Diff([]client.Script{{ID: 3, Name: "a", Text: "x"}}, all) != "" ||
		asked != "/api/v1/provisioner/script?limit=%5Ea" {
		t.Errorf("Scripts: %v, %v, asked for %s", all, err, asked)
	}
	if all, err := c.Scripts(ctx, "none"); err != nil || all == nil || len(all) != 0 {
		t.Errorf("Scripts without one: %v, %v, want an empty list", all, err)
	}
	if d, err := c.UserDataDocument(ctx, "a"); err != nil || d.Data != "y" || asked != "/api/v1/provisioner/userdata/a" {
		t.Errorf("UserDataDocument: %v, %v, asked for %s", d, err, asked)
	}
	if _, err := c.Script(ctx, "none"); !errors.Is(err, seedbed.ErrNotFound) ||
		err.Error() != `the provisioning script "none" does not exist` {
		t.Errorf("Script without one: %v", err)
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		status int
		body   string
		kind   error
		want   string
	}{
		{"text", 400, `{"message":"A vcpus value must be an integer."}`, seedbed.ErrInvalid, "A vcpus value must be an integer."},
		{"argument", 400, `{"message":{"name":"A name must be specified."}}`, seedbed.ErrInvalid, "name: A name must be specified."},
		{"missing", 400, `{"message":"The script \"x\" does not exist."}`, seedbed.ErrNotFound, `The script "x" does not exist.`},
		{"no profile", 400, `{"message":"Profile \"x\" is not valid."}`, seedbed.ErrNotFound, `Profile "x" is not valid.`},
		{"no token", 401, `{"message":"X-Api-Key Authentication required."}`, seedbed.ErrUnauthenticated, "X-Api-Key Authentication required."},
		{"low role", 403, `{"message":"No."}`, seedbed.ErrForbidden, "No."},
		{"no route", 404, `{"message":"The requested URL was not found on the server."}`, seedbed.ErrNotFound, "The requested URL was not found on the server."},
		{"too large", 413, `{"message":"Too large."}`, seedbed.ErrInvalid, "Too large."},
		{"away", 503, `{"message":"The store is away."}`, seedbed.ErrUnavailable, "The store is away."},
		{"broken", 500, `{"message":"Internal Server Error"}`, nil, "the API failed: Internal Server Error"},
		{"empty", 400, `{"message":""}`, nil, "without saying why"},
		{"strange", 400, `{"message":[1]}`, nil, "without saying why"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if strings.HasPrefix(tt.name, "no profile") || tt.name == "missing" {
					w.Header().Set(wire.ErrorKind, "not_found")
				}
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			})
			_, err := c.RemoveScript(t.Context(), "x")
			if tt.kind != nil && (!errors.Is(err, tt.kind) || err.Error() != tt.want) || tt.kind == nil &&
				!strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("got %v (%s), want %q of kind %v", err, seedbed.KindName(err), tt.want, tt.kind)
			}
			if tt.kind == nil && seedbed.KindName(err) != "internal" {
				t.Errorf("got kind %s, want none", seedbed.KindName(err))
			}
		})
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
			io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 22\r\nConnection: close\r\n\r\n{\"message\":\"No room.\"}")
			conn.Close() // with most of the file unread
			return
		}
		file, head, err := r.FormFile("file")
		if err != nil {
			t.Error(err)
			return
		}
		text, _ := io.ReadAll(file)
		fmt.Fprintf(w, `{"message":"%s %s %s %d"}`, r.RequestURI, text, head.Filename, r.ContentLength-int64(len(text)))
	})
	got, err := c.UploadOVA(t.Context(), "a", "p", strings.NewReader("content and more"), 7)
	if want := "/api/v1/provisioner/ova/a?ova_size=7&pool=p content filename "; err != nil || !strings.HasPrefix(got, want) {
		t.Errorf("UploadOVA: %q, %v, want %q", got, err, want)
	}
	_, err = c.UploadOVA(t.Context(), "a", "full", zeros{}, seedbed.GiB)
	if !errors.Is(err, seedbed.ErrInvalid) || err.Error() != "No room." {
		t.Errorf("UploadOVA to a server that does not read it: %v", err)
	}
}

func TestUploadImage(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if want := "/api/v1/images/a/content?firmware=uefi&format=raw&pool=p&sha256=00 application/octet-stream 7 content"; fmt.Sprintf("%s %s %d %s", r.RequestURI, r.Header.Get("Content-Type"), r.ContentLength, text) != want {
			t.Errorf("got %s %s %d %s; want %s", r.RequestURI, r.Header.Get("Content-Type"), r.ContentLength, text, want)
		}
		w.WriteHeader(http.StatusAccepted)
		io.WriteString(w, `{"job":"j","state":"queued","duplicate":false}`)
	})
	u := client.ImageUpload{Name: "a", Pool: "p", SHA256: "00", Format: "raw", Firmware: seedbed.FirmwareUEFI}
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
