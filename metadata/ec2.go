package metadata

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"

	"seedbed"
)

// ec2Tree is everything below a version, compiled once, in alphabetical order as Amazon lists it.
// The top level is listed without slashes, as there.
//
// It omits what Seedbed has no source for: ancestor-ami-ids, elastic-*, iam, kernel-id, product-codes, public-*, ramdisk-id.
//
// Source: EC2 user guide, "Instance metadata categories" and "Dynamic data categories".
var ec2Tree = dir("",
	plain(dir("dynamic", dir("instance-identity",
		leaf("document", func(r *record) ([]byte, bool) { return r.guest.IdentityDocument(), true }),
		leaf("pkcs7", signedDocument),
		leaf("rsa2048", signedDocument),
		text("signature", signature),
	))),
	plain(dir("meta-data",
		text("ami-id", func(r *record) string { return r.guest.Image }),
		constant("ami-launch-index", "0"),
		constant("ami-manifest-path", "(unknown)"),
		dir("autoscaling", text("target-lifecycle-state", targetState)),
		each("block-device-mapping", devices),
		dir("events",
			dir("maintenance", leaf("history", pastMaintenance), leaf("scheduled", comingMaintenance)),
			dir("recommendations", leaf("rebalance", rebalance)),
		),
		text("hostname", hostname),
		text("instance-action", instanceAction),
		text("instance-id", func(r *record) string { return r.id }),
		text("instance-life-cycle", lifeCycle),
		text("instance-type", func(r *record) string { return r.guest.Profile }),
		text("ipv6", func(r *record) string { return addrText6(primaryAddr6(r)) }),
		text("local-hostname", hostname),
		text("local-ipv4", func(r *record) string { return addrText(primary(r).Addr) }),
		text("mac", func(r *record) string { return macText(primary(r).MAC) }),
		text("name", func(r *record) string { return r.guest.Name }), // PVC's, as profile is
		dir("network", dir("interfaces", escaped(each("macs", nics)))),
		dir("placement",
			text("availability-zone", func(r *record) string { return r.guest.Zone }),
			text("availability-zone-id", zoneID),
			text("host-id", hostID),
			text("region", func(r *record) string { return r.guest.Region }),
		),
		text("profile", func(r *record) string { return r.guest.Profile }),
		text("public-hostname", func(r *record) string { return publicName(r, primary(r)) }),
		text("public-ipv4", func(r *record) string { return addrText(primary(r).Floating) }),
		each("public-keys", publicKeys),
		text("reservation-id", func(r *record) string { return stableID("r", string(r.guest.ID)) }),
		text("security-groups", func(r *record) string { return groupNames(primary(r)) }),
		dir("services",
			text("domain", func(r *record) string { return r.site.Domain }),
			text("partition", func(r *record) string { return r.site.Partition }),
		),
		dir("spot", leaf("instance-action", spotAction), text("termination-time", terminationTime)),
		dir("tags", opened(escaped(each("instance", tags)))),
	)),
	userDataLeaf,
)

var userDataLeaf = leaf("user-data", userData).as(typeData)

func userData(r *record) ([]byte, bool) { return r.userData, r.userData != nil }

func escaped(n *node) *node {
	n.escaped = true
	return n
}

func opened(n *node) *node {
	n.open = true
	return n
}

// targetState returns the state that the operator announces; empty if there is none.
func targetState(r *record) string {
	if r.guest.Options.TargetState == seedbed.TargetNone {
		return ""
	}
	return r.guest.Options.TargetState
}

func hostname(r *record) string { return r.guest.Hostname() }

// hostID returns an ID that differs between nodes but does not reveal the name of the node
// (placement/host-id; Amazon has one for dedicated hosts).
func hostID(r *record) string {
	if r.guest.Node == "" {
		return ""
	}
	return stableID("h", r.guest.Node)
}

// zoneID returns an ID of Amazon's form, such as use1-az1, which is always the same for the same zone
// of the same region.
func zoneID(r *record) string {
	if r.guest.Zone == "" {
		return ""
	}
	region := sha256.Sum256([]byte(r.guest.Region))
	zone := sha256.Sum256([]byte(r.guest.Region + "/" + r.guest.Zone))
	return "sb" + hex.EncodeToString(region[:2]) + "-az" + strconv.Itoa(int(binary.BigEndian.Uint16(zone[:]))+1)
}

// primary returns the first NIC, or the zero value if there is none.
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

// primaryAddr6 returns the IPv6 address of the first NIC; the zero Addr if there is none.
func primaryAddr6(r *record) netip.Addr {
	if len(r.networks) == 0 || r.networks[0] == nil {
		return netip.Addr{}
	}
	return r.networks[0].Addr6(primary(r).MAC)
}

func addrText6(a netip.Addr) string {
	if !a.Is6() {
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

// versionList is the answer at /: the versions that Amazon lists. Every other date is served as
// well, because clients request the version that they were written against. The other dialects are
// not listed, because clients do not look for them here.
var versionList = []byte(strings.Join([]string{
	"1.0", "2007-01-19", "2007-03-01", "2007-08-29", "2007-10-10", "2007-12-15", "2008-02-01", "2008-09-01",
	"2009-04-04", "2011-01-01", "2011-05-01", "2012-01-12", "2014-02-25", "2014-11-05", "2015-10-20", "2016-04-19",
	"2016-06-30", "2016-09-02", "2018-03-28", "2018-08-17", "2018-09-24", "2019-10-01", "2020-10-27", "2021-01-03",
	"2021-03-23", "2021-07-15", "latest",
}, "\n"))
