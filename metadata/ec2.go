package metadata

import (
	"net/netip"
	"strings"

	"seedbed"
)

// tree is everything below a version, compiled once. The top level is listed
// without slashes, as Amazon does.
//
// Source: EC2 user guide, "Instance metadata categories".
var tree = dir("",
	plain(dir("dynamic", dir("instance-identity", leaf("document", identityDocument)))),
	plain(dir("meta-data",
		text("hostname", hostname),
		text("instance-id", func(r *record) string { return r.guest.ID.EC2() }),
		text("local-hostname", hostname),
		text("local-ipv4", func(r *record) string { return addrText(primary(r).Addr) }),
		text("mac", func(r *record) string { return macText(primary(r).MAC) }),
		dir("network", dir("interfaces", &node{name: "macs", line: "macs/", each: nics})),
		&node{name: "public-keys", line: "public-keys/", each: publicKeys},
	)),
	userDataLeaf,
)

var userDataLeaf = &node{name: "user-data", line: "user-data", mediaType: typeData,
	value: func(r *record) ([]byte, bool) { return r.userData, r.userData != nil }}

// plain lists a directory without its slash.
func plain(n *node) *node {
	n.line = n.name
	return n
}

func hostname(r *record) string { return r.guest.Name }

// primary is the first NIC; the zero value when there is none.
func primary(r *record) seedbed.GuestNIC {
	if len(r.guest.NICs) == 0 {
		return seedbed.GuestNIC{}
	}
	return r.guest.NICs[0]
}

func addrText(a netip.Addr) string {
	if !a.Is4() {
		return ""
	}
	return a.String()
}

func macText(m seedbed.MAC) string {
	if m == (seedbed.MAC{}) {
		return ""
	}
	return m.String()
}

// versionList is what / answers: the versions that Amazon lists. Every other
// date is served as well, because clients ask for the one that they were
// written against.
var versionList = []byte(strings.Join([]string{
	"1.0", "2007-01-19", "2007-03-01", "2007-08-29", "2007-10-10", "2007-12-15", "2008-02-01", "2008-09-01",
	"2009-04-04", "2011-01-01", "2011-05-01", "2012-01-12", "2014-02-25", "2014-11-05", "2015-10-20", "2016-04-19",
	"2016-06-30", "2016-09-02", "2018-03-28", "2018-08-17", "2018-09-24", "2019-10-01", "2020-10-27", "2021-01-03",
	"2021-03-23", "2021-07-15", "latest",
}, "\n"))

// isVersion accepts latest, 1.0 and anything of the form dddd-dd-dd.
func isVersion(s string) bool {
	return s == "latest" || s == "1.0" || isDated(s)
}

func isDated(s string) bool {
	if len(s) != len("2009-04-04") {
		return false
	}
	for i := range len(s) {
		if i == 4 || i == 7 {
			if s[i] != '-' {
				return false
			}
		} else if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// Render is what the guest would get for a GET of path, such as
// "/latest/meta-data/", without a connection or a token. userData is nil when
// it has none. ok is false where the guest would get 404.
func Render(guest seedbed.Guest, userData []byte, path string) (body []byte, contentType string, ok bool) {
	a := get(&record{guest: guest, userData: userData}, path)
	return a.body, a.mediaType, a.ok
}
