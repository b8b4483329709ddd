package client_test

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
)

// TestProfileIsSentWhole checks that creating and changing a profile send every field except those
// that the server sets.
func TestProfileIsSentWhole(t *testing.T) {
	t.Parallel()
	p := seedbed.Profile{
		Name: "p", Image: "debian", VCPUs: 2, Memory: seedbed.GiB, DiskSize: seedbed.GiB, Network: "default", SecurityGroups: []string{"web"},
		NICs:        []seedbed.NICRequest{{Network: "lab", SecondaryCount: 2, Groups: []string{"db"}}, {Network: "default"}},
		BandwidthIn: 100_000_000, BandwidthOut: 10_000_000, SSHKeys: []string{"key"},
		UserData: []byte("user"), VendorData: []byte("vendor"), VendorDataInUserData: true, Datasource: seedbed.DatasourceEC2,
		Metadata: seedbed.MetadataOptions{Tokens: "required"}, Tags: map[string]string{"a": "b"}, Ready: seedbed.ReadyReport,
		Params:      []seedbed.Param{{Name: "gib", Type: seedbed.ParamInt}},
		Expressions: map[string]string{"memory": "$(param.gib)GiB"},
		System:      "s", NetworkTemplate: "n", Storage: "d", Document: "u", OVA: "o", Script: "x",
		Arguments: []string{"a=b"}, Follow: seedbed.FollowLive, BootFrom: seedbed.BootNetwork, PlacementGroup: "apart",
		Protected: true, Hold: true,
		OnFailure: seedbed.OnFailure{Policy: seedbed.FailRetry, Attempts: 5, Backoff: 30 * time.Second},
	}
	v := reflect.ValueOf(p)
	for i := range v.NumField() {
		switch name := v.Type().Field(i).Name; name {
		case "ID", "Revision", "Created", "Changed", "Published":
		default:
			if v.Field(i).IsZero() {
				t.Errorf("the test does not set %s", name)
			}
		}
	}
	var got seedbed.Profile
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = seedbed.Profile{}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		w.Write([]byte(`{}`))
	})
	sent := p
	sent.Revision, sent.Created, sent.Changed = 3, time.Now(), time.Now()
	for name, send := range map[string]func() error{
		"create": func() error { _, err := c.CreateProfile(t.Context(), sent); return err },
		"change": func() error { _, err := c.ChangeProfile(t.Context(), sent); return err },
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("%s: (-said +sent)\n%s", name, diff)
		}
	}
}

// TestProfileWithoutParams checks that no parameters and any parameters are sent differently.
func TestProfileWithoutParams(t *testing.T) {
	t.Parallel()
	var got seedbed.Profile
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = seedbed.Profile{}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		answer, err := json.Marshal(got)
		if err != nil {
			t.Error(err)
		}
		w.Write(answer)
	})
	for name, params := range map[string][]seedbed.Param{"none": {}, "any": nil} {
		made, err := c.CreateProfile(t.Context(), seedbed.Profile{Name: "p", Params: params})
		if err != nil {
			t.Fatal(err)
		}
		if (got.Params == nil) != (params == nil) || (made.Params == nil) != (params == nil) {
			t.Errorf("%s: sent %#v, read %#v", name, got.Params, made.Params)
		}
	}
}
