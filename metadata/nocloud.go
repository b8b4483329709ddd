package metadata

import (
	"bytes"
	"strconv"
)

// nocloudTree is the NoCloud dialect: the files of a seed. Each is there and may
// be empty, because cloud-init asks ten times more for one that is not.
//
// network-config is always empty. cloud-init 22.4 does not ask for it; later
// ones do when DHCP has configured the first NIC already, and would configure
// it again by a name that only the guest knows: a configuration that matches by
// MAC works with netplan, and takes the network from guests whose cloud-init
// writes files of other kinds. Without one DHCP does it all.
//
// Source: cloud-init, "NoCloud", and DataSourceNoCloud.py.
var nocloudTree = dir("",
	leaf("meta-data", nocloudMeta),
	constant("network-config", ""),
	nocloudUserData,
	leaf("vendor-data", func(r *record) ([]byte, bool) { return r.vendorData, true }).as(typeData),
)

var nocloudUserData = leaf("user-data", func(r *record) ([]byte, bool) { return r.userData, true }).as(typeData)

// nocloudMeta is YAML; its strings are in JSON's form, which is YAML's, too.
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
