package provision

import (
	"encoding/xml"
	"slices"
	"strings"

	"seedbed"
)

// scriptedDisks is what a script's domain says of its disks.
type scriptedDisks struct {
	Disks []struct {
		Source struct {
			Name string `xml:"name,attr"` // pool/volume
			Dev  string `xml:"dev,attr"`
		} `xml:"source"`
		Target struct {
			Dev string `xml:"dev,attr"`
		} `xml:"target"`
	} `xml:"devices>disk"`
}

// mappedDir is where scripts find the block devices of volumes, and may name them by in a domain.
const mappedDir = "/dev/rbd/"

// targets are what a script's domain calls the instance's volumes, in their
// order. It is not made of an instance all of whose disks are others by now.
func targets(doc string, inst seedbed.Instance) (names []string, made bool) {
	var d scriptedDisks
	if xml.Unmarshal([]byte(doc), &d) != nil {
		return nil, false
	}
	called := map[string]string{}
	for _, disk := range d.Disks {
		called[strings.TrimPrefix(disk.Source.Dev, mappedDir)] = disk.Target.Dev
		called[disk.Source.Name] = disk.Target.Dev
	}
	delete(called, "")
	made = len(called) == 0
	for _, v := range inst.Volumes {
		name, ok := called[v.Pool+"/"+v.Name]
		names, made = append(names, name), made || ok
	}
	return names, made
}

func madeOf(doc string, inst seedbed.Instance) bool {
	_, made := targets(doc, inst)
	return made
}

// AsScripted is the record g of an instance for whose domain a script has made the
// document: its disks are called as there. One that is not there has no name.
func AsScripted(g seedbed.Guest, inst seedbed.Instance, doc string) seedbed.Guest {
	names, made := targets(doc, inst)
	if !made {
		return g
	}
	g.Disks = slices.Clone(g.Disks)
	for i, name := range names {
		g.Disks[i].Device = name
	}
	return g
}
