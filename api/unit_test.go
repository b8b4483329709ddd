package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
)

func TestProblemOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		status int
		kind   string
		detail string
	}{
		"not found":       {seedbed.Errorf(seedbed.ErrNotFound, "no x"), 404, "not_found", "no x"},
		"exists":          {seedbed.Errorf(seedbed.ErrExists, "x is"), 409, "exists", "x is"},
		"conflict":        {seedbed.Errorf(seedbed.ErrConflict, "x"), 409, "conflict", "x"},
		"in use":          {seedbed.Errorf(seedbed.ErrInUse, "x"), 409, "in_use", "x"},
		"invalid":         {fmt.Errorf("profile p: %w", seedbed.Errorf(seedbed.ErrInvalid, "bad")), 422, "invalid", "profile p: bad"},
		"forbidden":       {seedbed.Errorf(seedbed.ErrForbidden, "x"), 403, "forbidden", "x"},
		"unauthenticated": {seedbed.Errorf(seedbed.ErrUnauthenticated, "x"), 401, "unauthenticated", "x"},
		"full":            {seedbed.Errorf(seedbed.ErrFull, "x"), 507, "full", "x"},
		"unavailable":     {seedbed.Errorf(seedbed.ErrUnavailable, "x"), 503, "unavailable", "x"},
		"stale":           {seedbed.Errorf(seedbed.ErrStale, "inner"), 500, "internal", internal},
		"version":         {seedbed.Errorf(seedbed.ErrVersion, "inner"), 500, "internal", internal},
		"no kind":         {errors.New("inner"), 500, "internal", internal},
		"deadline":        {fmt.Errorf("read: %w", context.DeadlineExceeded), 503, "unavailable", "it took too long, or seedbedd is stopping"},
		"fault":           {httpserve.Problem{Status: 415, Detail: "x"}, 415, "invalid", "x"},
		"router":          {fiber.NewError(404, "Cannot GET /<script>"), 404, "not_found", "there is no such path: /api/v1/openapi.yaml describes all"},
		"header":          {fiber.ErrRequestHeaderFieldsTooLarge, 431, "invalid", "the request could not be read"},
	} {
		got := problemOf(test.err)
		if got.Status != test.status || got.Kind != test.kind || got.Detail != test.detail {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := problemOf(&seedbed.Error{Kind: seedbed.ErrExists, Msg: "taken", Holder: "job1"}); got.Job != "job1" {
		t.Errorf("holder %q", got.Job)
	}
}

func TestCheckSSHKey(t *testing.T) {
	t.Parallel()
	const ed25519 = "AAAAC3NzaC1lZDI1NTE5AAAAIKHEChSnMVTXeZ/rV8Dm3A/KSOWpuLrv4Ls0o9JX8xZ5"
	for name, test := range map[string]struct {
		line string
		ok   bool
	}{
		"comment":         {"ssh-ed25519 " + ed25519 + " you@host at work", true},
		"no comment":      {"ssh-ed25519 " + ed25519, true},
		"empty":           {"", false},
		"type alone":      {"ssh-ed25519", false},
		"unknown type":    {"ssh-dss " + ed25519, false},
		"other type":      {"ssh-rsa " + ed25519, false},
		"cut off":         {"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5", false},
		"no base64":       {"ssh-ed25519 you@host", false},
		"options":         {`command="id" ssh-ed25519 ` + ed25519, false},
		"line break":      {"ssh-ed25519 " + ed25519 + "\nssh-ed25519 " + ed25519, false},
		"carriage return": {"ssh-ed25519 " + ed25519 + "\r", false},
		"NUL":             {"ssh-ed25519 " + ed25519 + "\x00", false},
		"huge":            {"ssh-ed25519 " + ed25519 + strings.Repeat(" x", maxSSHKey), false},
		"length field":    {"ssh-ed25519 /////w==", false},
		"file name":       {"~/.ssh/id_ed25519.pub", false},
	} {
		if err := checkSSHKey(test.line); (err == nil) != test.ok {
			t.Errorf("%s: error %v, want success %t", name, err, test.ok)
		}
	}
}

func TestTokenHeadersComeOnce(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"two tokens": "Authorization: a\r\nauthorization: b\r\n\r\n",
		"two keys":   "X-Api-Key: a\r\nx-api-key: a\r\n\r\n",
	} {
		if f, err := httpserve.ParseFields([]byte(raw), single...); err == nil {
			t.Errorf("%s: accepted as %v", name, f)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"name":"p","image":"i","vcpus":1,"memory":"1GiB","user_data":"YQ==","ssh_keys":[]}`))
	f.Add([]byte(`{"name":"p","name":"q"}`))
	f.Add([]byte(`{"memory":"1` + strings.Repeat("0", 100) + `"}`))
	s := New(Config{DefaultNetwork: "default", CheckProfile: func(context.Context, seedbed.Profile) error { return nil }})
	f.Fuzz(func(t *testing.T, body []byte) {
		var p seedbed.Profile
		err := decode(body, &p)
		if err == nil {
			if err = s.checkProfile(t.Context(), &p); err == nil && (p.Network == "" || p.Ready == "" || p.VCPUs < 1) {
				t.Errorf("accepted %+v", p)
			}
		}
		if err == nil {
			return
		}
		if p := problemOf(err); p.Status != 400 && p.Status != 422 || len(p.Detail) > 1000 {
			t.Errorf("%d, %d bytes", p.Status, len(p.Detail))
		}
	})
}
