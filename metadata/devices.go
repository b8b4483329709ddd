package metadata

import "strconv"

// devices is block-device-mapping: ami and root are the root disk, without and
// with its directory, as OpenStack's service has them, and ebs1, ebs2, … the others.
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
