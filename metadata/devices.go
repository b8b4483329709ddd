package metadata

import "strconv"

// devices returns the leaves of block-device-mapping. As in OpenStack's service, ami and root are
// the root disk, without and with its directory, and ebs1, ebs2, … are the other disks.
func devices(r *record) []*node {
	var all []*node
	value := func(name, v string) {
		all = append(all, constant(name, v))
	}
	root := ""
	for i, d := range r.guest.Disks {
		if d.Device == "" {
			continue
		}
		if i == 0 {
			value("ami", d.Device)
			root = d.Device
		} else {
			value("ebs"+strconv.Itoa(i), d.Device)
		}
	}
	if root != "" {
		value("root", "/dev/"+root)
	}
	return all
}
