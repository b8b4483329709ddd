package rest

import (
	"context"
	"strings"
	"testing"

	"seedbed"
	"seedbed/api/server"
)

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"name":"p","image":"i","vcpus":1,"memory":"1GiB","user_data":"YQ==","ssh_keys":[]}`))
	f.Add([]byte(`{"name":"p","name":"q"}`))
	f.Add([]byte(`{"memory":"1` + strings.Repeat("0", 100) + `"}`))
	r := &router{&server.Router{Server: server.New(server.Config{
		DefaultNetwork: "default", CheckProfile: func(context.Context, seedbed.PartReader, seedbed.Profile) error { return nil },
	})}}
	f.Fuzz(func(t *testing.T, body []byte) {
		var p seedbed.Profile
		err := server.Decode(body, &p)
		if err == nil {
			if err = r.checkProfile(t.Context(), &p); err == nil && (p.Network == "" || p.Ready == "" || p.VCPUs < 1) {
				t.Errorf("accepted %+v", p)
			}
		}
		if err == nil {
			return
		}
		if p := server.ProblemOf(err); p.Status != 400 && p.Status != 422 || len(p.Detail) > 1000 {
			t.Errorf("%d, %d bytes", p.Status, len(p.Detail))
		}
	})
}
