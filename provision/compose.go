package provision

import (
	"fmt"
	"strings"

	"seedbed"
)

// number is the number at the end of a machine's name, which {vmid} of a MAC
// template stands for (PVC's manual), modulo 16; 0 without one.
func number(name string) int {
	n := 0
	for _, c := range name[len(strings.TrimRight(name, "0123456789")):] {
		n = (n*10 + int(c-'0')) & 15
	}
	return n
}

// nics are those of a network template, for the machine called name.
func nics(t seedbed.NetworkTemplate, name string) ([]seedbed.NIC, error) {
	if t.MAC != "" && len(t.Networks) > 1 && !t.MAC.PerNIC() {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the MAC template %q of the network template %q gives all %d networks one address: want {netid} in it", t.MAC, t.Name, len(t.Networks))
	}
	var made []seedbed.NIC
	for i, n := range t.Networks {
		nic := seedbed.NIC{Index: i, MAC: seedbed.NewMAC(), Network: n.VNI}
		if t.MAC != "" {
			var err error
			if nic.MAC, err = t.MAC.MAC(number(name), i); err != nil {
				return nil, err
			}
		}
		made = append(made, nic)
	}
	return made, nil
}

// needsScript tells whether a composition is carried out by its script: that is
// skipped where no disk has a mountpoint (PVC's manual) or a filesystem, unless it
// is one that always runs. It refuses one that is needed and holds nothing.
func needsScript(c seedbed.Composition) (bool, error) {
	var needs []string
	for _, d := range c.Storage.Disks {
		switch {
		case d.Mountpoint != "":
			needs = append(needs, fmt.Sprintf("disk %s has the mountpoint %s", d.Name, d.Mountpoint))
		case d.Filesystem != "":
			needs = append(needs, fmt.Sprintf("disk %s has the filesystem %s", d.Name, d.Filesystem))
		}
	}
	if c.Script.Options.Always {
		needs = append(needs, "it is to run always")
	}
	if len(needs) > 0 && strings.TrimSpace(c.Script.Text) == "" {
		return false, seedbed.Errorf(seedbed.ErrInvalid, "profile %q needs its script %q, which is empty: %s; want a script that makes them, or disks that are clones (source_volume), or blank without filesystem and mountpoint",
			c.Profile.Name, c.Profile.Script, strings.Join(needs, ", "))
	}
	return len(needs) > 0, nil
}

// checkArguments refuses what is no list of key=value.
func checkArguments(args []string) error {
	for _, a := range args {
		if key, _, ok := strings.Cut(a, "="); !ok || key == "" {
			return seedbed.Errorf(seedbed.ErrInvalid, "the script argument %q is not usable: want key=value", seedbed.Clip(a))
		}
	}
	return nil
}
