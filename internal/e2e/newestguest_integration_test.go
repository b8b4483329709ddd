//go:build integration && libvirt

package e2e

import (
	"regexp"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
)

// newestUserData has the guest print which datasource it took, and what configures its NIC.
const newestUserData = `#cloud-config
runcmd:
  - [sh, -c, 'sed "s/^/SEEDBED status /" /run/cloud-init/status.json >/dev/console']
  - [sh, -c, 'cloud-init --version 2>&1 | sed "s/^/SEEDBED version /" >/dev/console']
  - [sh, -c, 'cat /etc/network/interfaces.d/* | sed "s/^/SEEDBED eni /" >/dev/console']
`

// newestGuest boots an unmodified guest of the newest Debian with each datasource. It takes the one
// that its instance announces, and reports in.
func newestGuest(t *testing.T, s *lab.Stack) {
	addImage(t, s, "newest", lab.NewestGuestImage(t))
	for datasource, class := range map[seedbed.Datasource]string{
		seedbed.DatasourceEC2: "DataSourceEc2Local", seedbed.DatasourceOpenStack: "DataSourceOpenStack",
		seedbed.DatasourceNoCloud: "DataSourceNoCloudNet",
	} {
		t.Run(string(datasource), func(t *testing.T) {
			name := "newest-" + string(datasource)
			addProfile(t, s, seedbed.Profile{
				Name: name, Image: "newest", VCPUs: 2, Memory: seedbed.GiB, DiskSize: 3 * seedbed.GiB,
				UserData: []byte(newestUserData), Ready: seedbed.ReadyReport, Datasource: datasource,
			})
			receipt, err := s.API.CreateInstance(t.Context(), seedbed.Request{Name: name, Profile: name})
			if err != nil {
				t.Fatal(err)
			}
			if job := waitJob(t, s, string(receipt.Job)); job.State != seedbed.JobSucceeded {
				console, _ := s.API.Console(t.Context(), name, 8*seedbed.KiB)
				t.Fatalf("job %s: %s\n%s", job.State, job.Error, console)
			}
			wants := []string{"SEEDBED status .*" + class, "SEEDBED eni iface .* inet dhcp"}
			var console string
			lab.Await(t, lab.Patience, "the console shows what user-data printed", func() bool {
				b, err := s.API.Console(t.Context(), name, seedbed.MiB)
				if err != nil {
					t.Fatal(err)
				}
				console = string(b)
				for _, w := range wants {
					if !regexp.MustCompile(w).MatchString(console) {
						return false
					}
				}
				return true
			})
			removeInstance(t, s, name)
			for line := range strings.Lines(console) {
				if strings.Contains(line, "SEEDBED version") {
					t.Log(line)
				}
			}
		})
	}
}
