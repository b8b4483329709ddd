package metadata

import (
	"strconv"
	"strings"

	"seedbed"
	"seedbed/internal/cli"
)

// release is a release of cloud-init, such as 24.2: year and number. The zero value is any.
type release struct{ year, number int }

// parseRelease parses a version of cloud-init, such as "25.1.4-1+deb13u1", or "" for any.
func parseRelease(s string) (r release, err error) {
	if s == "" {
		return r, nil
	}
	year, rest, _ := strings.Cut(s, ".")
	number := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	if r.year, err = strconv.Atoi(year); err == nil {
		r.number, err = strconv.Atoi(number)
	}
	if err != nil || r.year < 0 {
		return release{}, cli.Usagef("--cloud-init %q: expected a release such as 22.4 or 25.1.4", s)
	}
	return r, nil
}

func (r release) before(other release) bool {
	return r.year < other.year || r.year == other.year && r.number < other.number
}

func (r release) String() string { return strconv.Itoa(r.year) + "." + strconv.Itoa(r.number) }

// since is a finding of guests whose cloud-init is at least from.
func (l *linter) since(from release, path, format string, args ...any) {
	if l.release != (release{}) && l.release.before(from) {
		return
	}
	l.find(path, format, args...)
	l.findings[len(l.findings)-1].Releases = from.String() + " and later"
}

// byUUID is the first release that takes every UUID with EC2's prefix for EC2's (ds-identify,
// ec2_identify_platform; DataSourceEc2.py, identify_aws). Earlier ones also want it as the serial.
var byUUID = release{24, 2}

// identity finds the UUIDs by which a guest chooses another datasource than the instance's.
func (l *linter) identity(id seedbed.InstanceID, d seedbed.Datasource) {
	if !id.AnnouncesEC2() || d == "" || d == seedbed.DatasourceEC2 {
		return
	}
	effect, config := "reads EC2's metadata, with another instance-id and no vendor-data",
		map[seedbed.Datasource]string{seedbed.DatasourceOpenStack: "OpenStack", seedbed.DatasourceNoCloud: "NoCloud"}[d]
	remedy := "make the instance again, which then gets another UUID"
	if d == seedbed.DatasourceNone {
		effect, config = "reads EC2's metadata, and does not stay off", "None"
	}
	l.since(byUUID, "/", "the UUID %s begins with ec2, by which the guest %s, although the datasource is %s: %s, or give the guest "+
		"datasource_list: [ %s ] in /etc/cloud/cloud.cfg.d", id, effect, d, remedy, config)
}
