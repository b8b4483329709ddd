package intake

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

const config = "#cloud-config\npackages: [a]\n"

func TestDocuments(t *testing.T) {
	t.Parallel()
	const script, siteVendor = "#!/bin/sh\n", "#cloud-config\nsite: 1\n"
	text := func(parts ...string) (all []readPart) {
		for _, p := range parts {
			kind := "text/cloud-config"
			if strings.HasPrefix(p, "#!") {
				kind = "text/x-shellscript"
			}
			all = append(all, readPart{kind, p})
		}
		return all
	}
	tests := []struct {
		name         string
		s            sources
		user, vendor []readPart // a part without a type is not MIME
	}{
		{"nothing", sources{ready: seedbed.ReadyMetadata}, nil, nil},
		{"user-data as it is", sources{user: []byte("\x1f\x8bgzip")}, []readPart{{"", "\x1f\x8bgzip"}}, nil},
		{"multipart as it is", sources{user: []byte("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b--\n")},
			[]readPart{{"", "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b--\n"}}, nil},
		{"one vendor-data as it is", sources{vendor: []byte("any\x00")}, nil, []readPart{{"", "any\x00"}}},
		{"the installation's as it is", sources{site: []byte(siteVendor)}, nil, []readPart{{"", siteVendor}}},
		{"two of vendor-data", sources{site: []byte(siteVendor), vendor: []byte(script)}, nil, text(siteVendor, script)},
		{"in user-data", sources{inUser: true, user: []byte(config), site: []byte(siteVendor), vendor: []byte(script)},
			text(siteVendor, script, config), nil},
		{"in user-data, without one", sources{inUser: true, site: []byte(siteVendor)}, []readPart{{"", siteVendor}}, nil},
		{"in user-data, without vendor-data", sources{inUser: true, user: []byte("\x1f\x8b")}, []readPart{{"", "\x1f\x8b"}}, nil},
		{"ready report", sources{ready: seedbed.ReadyReport, inUser: true, user: []byte(config), vendor: []byte(script)},
			text(script, config, ourPart), nil},
		{"ready report, vendor-data beside it", sources{ready: seedbed.ReadyReport, user: []byte(config), vendor: []byte(script)},
			text(config, ourPart), []readPart{{"", script}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.s.limit = seedbed.MiB
			r, err := tt.s.read()
			if err != nil {
				t.Fatal(err)
			}
			docs, err := r.documents(testToken, nil)
			if err != nil {
				t.Fatal(err)
			}
			for what, d := range map[string]struct {
				got  []byte
				want []readPart
			}{"user-data": {docs.UserData, tt.user}, "vendor-data": {docs.VendorData, tt.vendor}} {
				var got []readPart
				switch {
				case d.got == nil:
				case len(d.want) == 1 && d.want[0].Type == "":
					got = []readPart{{"", string(d.got)}}
				default:
					got = readMIME(t, d.got)
				}
				if diff := cmp.Diff(d.want, got); diff != "" {
					t.Errorf("%s: %s", what, diff)
				}
			}
		})
	}
}

func TestCheckProfile(t *testing.T) {
	t.Parallel()
	const head = "## template: seedbed\n"
	in := New(nil, Serving{Node: "node1", MaxUserData: 64 * seedbed.KiB, VendorData: []byte("#cloud-config\nsite: 1\n")}, nil)
	base := seedbed.Profile{VCPUs: 1, Memory: seedbed.GiB}
	for name, tt := range map[string]struct {
		change func(*seedbed.Profile)
		want   string
	}{
		"plain":    {func(p *seedbed.Profile) { p.UserData = []byte("any\x00") }, ""},
		"template": {func(p *seedbed.Profile) { p.UserData = []byte(head + config + "# ${vm.ip} ${param.role} ${tag.x}\n") }, ""},
		"template of a script": {func(p *seedbed.Profile) {
			p.Ready, p.UserData = seedbed.ReadyReport, []byte(head+"#!/bin/sh\necho $${HOME}\n")
		}, ""},
		"unknown name": {func(p *seedbed.Profile) { p.UserData = []byte(head + "${vm.nmae}") },
			"user_data line 2, column 1: ${vm.nmae} reads vm.nmae, which is unknown"},
		"unknown in vendor": {func(p *seedbed.Profile) { p.VendorData = []byte(head + "\n ${HOME}") }, "vendor_data line 3, column 2"},
		"template with report": {func(p *seedbed.Profile) { p.Ready, p.UserData = seedbed.ReadyReport, []byte(head+"hello ${vm.name}") },
			"user_data does not start in a way"},
		"large":             {func(p *seedbed.Profile) { p.UserData = make([]byte, 65<<10) }, "at most 64KiB"},
		"large vendor-data": {func(p *seedbed.Profile) { p.VendorData = make([]byte, 65<<10) }, "at most 64KiB"},
		"large together": {func(p *seedbed.Profile) {
			p.VendorDataInUserData, p.UserData = true, []byte("#!/bin/sh\n"+strings.Repeat("#\n", 32<<10-5))
		}, "at most 64KiB"},
		"vendor-data in binary": {func(p *seedbed.Profile) { p.VendorDataInUserData, p.UserData = true, []byte("\x7fELF\x00") },
			"user_data is binary, so it cannot be combined"},
		"binary vendor-data": {
			func(p *seedbed.Profile) { p.VendorData = []byte("\x7fELF\x00") }, "vendor_data is binary, so it cannot be combined",
		},
		"vendor phones home": {func(p *seedbed.Profile) {
			p.Ready, p.VendorData = seedbed.ReadyReport, []byte("#cloud-config\nphone_home: {url: x}\n")
		}, "vendor_data has its own phone_home"},
		"datasource": {func(p *seedbed.Profile) { p.Datasource = "azure" }, "datasource"},
		"option":     {func(p *seedbed.Profile) { p.Metadata.Endpoint = "off" }, "http_endpoint"},
		"tag":        {func(p *seedbed.Profile) { p.Tags = map[string]string{"": "x"} }, "tag"},
	} {
		p := base
		tt.change(&p)
		err := in.CheckProfile(t.Context(), in.store, p)
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v; want one that says %q", name, err, tt.want)
		}
	}
	if err := (Serving{VendorData: []byte(head + "${nope}")}).Check(); !errors.Is(err, seedbed.ErrInvalid) ||
		!strings.Contains(err.Error(), "the installation's vendor-data line 2") {
		t.Errorf("the installation's vendor-data: %v", err)
	}
}
