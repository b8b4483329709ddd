package metadata

import (
	"bytes"
	"strconv"
)

// nocloudTree is the NoCloud dialect: the files of a seed. Each file exists, though it may be
// empty, because cloud-init retries a missing one ten times.
//
// network-config is always empty. cloud-init 22.4 does not fetch it. Later versions do, when DHCP
// has already configured the first NIC, and would configure that NIC again by a name that only the
// guest knows. A configuration that matches by MAC works with netplan, but breaks the network of
// guests whose cloud-init writes other kinds of file. Without one, DHCP configures everything.
//
// Source: cloud-init, "NoCloud", and DataSourceNoCloud.py.
var nocloudTree = dir("",
	leaf("meta-data", nocloudMeta),
	constant("network-config", ""),
	nocloudUserData,
	leaf("vendor-data", func(r *record) ([]byte, bool) { return r.vendorData, true }).as(typeData),
)

var nocloudUserData = leaf("user-data", func(r *record) ([]byte, bool) { return r.userData, true }).as(typeData)

// nocloudMeta returns meta-data as YAML. Its strings are in JSON's form, which is valid YAML.
func nocloudMeta(r *record) ([]byte, bool) {
	var b []byte
	line := func(name, value string) {
		if value != "" {
			b = append(append(append(b, name...), ": "...), asJSON(value)...)
			b = append(b, '\n')
		}
	}
	line("instance-id", r.id)
	line("local-hostname", r.guest.Name)
	line("availability-zone", r.guest.Zone)
	line("region", r.guest.Region)
	line("instance-type", r.guest.Profile)
	for i, k := range sshKeys(r) {
		if i == 0 {
			b = append(b, "public-keys:\n"...)
		}
		line("  "+strconv.Quote(k.name), k.line)
	}
	return bytes.TrimSuffix(b, []byte("\n")), true
}
