package record

import (
	"context"
	"encoding/xml"
	"errors"
	"slices"
	"strings"

	"seedbed"
)

// scriptedDisks is what a script's domain says about its disks.
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

// MappedDir is where scripts find the block devices of volumes. A script may use these paths in a
// domain.
const MappedDir = "/dev/rbd/"

// targets returns the target names of the instance's volumes in a script's domain, in the order of
// the volumes. made is false if the document has disks but none of them is the instance's: a
// rebuild has replaced them since.
func targets(doc string, inst seedbed.Instance) (names []string, made bool) {
	var d scriptedDisks
	if xml.Unmarshal([]byte(doc), &d) != nil {
		return nil, false
	}
	called := map[string]string{}
	for _, disk := range d.Disks {
		called[strings.TrimPrefix(disk.Source.Dev, MappedDir)] = disk.Target.Dev
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

// MadeOf reports whether doc, the document that a script has made, describes the disks that the
// instance has now.
func MadeOf(doc string, inst seedbed.Instance) bool {
	_, made := targets(doc, inst)
	return made
}

// AsScripted returns the record g of an instance with its disks named as in doc, the document that
// a script has made for the instance's domain. A disk that is not in doc has no name.
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

// DomainScripts reads the documents that scripts made for their instances' domains.
type DomainScripts interface {
	// ScriptDomain returns an instance's document, or seedbed.ErrNotFound if no script made one.
	ScriptDomain(ctx context.Context, id seedbed.InstanceID) (string, error)
}

// CheckMachine refuses other vCPUs and memory for a domain that a script has defined.
func CheckMachine(ctx context.Context, store DomainScripts, inst seedbed.Instance) error {
	doc, err := store.ScriptDomain(ctx, inst.ID)
	switch {
	case errors.Is(err, seedbed.ErrNotFound):
		return nil
	case err != nil:
		return err
	case MadeOf(doc, inst):
		return seedbed.Errorf(seedbed.ErrConflict,
			"the domain of instance %s is defined by its script, including vcpus and memory: rebuild it from another profile", inst.Name)
	}
	return nil
}

// Named returns the document of a domain with another name, as one has that was renamed after a script had made it.
func Named(doc, name string) string {
	d, depth := xml.NewDecoder(strings.NewReader(doc)), 0
	for {
		before := d.InputOffset()
		token, err := d.Token()
		if err != nil {
			return doc // the driver says what is wrong with it
		}
		switch token := token.(type) {
		case xml.StartElement:
			if depth++; depth != 2 || token.Name.Local != "name" {
				continue
			}
			if d.Skip() != nil {
				return doc
			}
			var text strings.Builder
			_ = xml.EscapeText(&text, []byte(name))
			return doc[:before] + "<name>" + text.String() + "</name>" + doc[d.InputOffset():]
		case xml.EndElement:
			depth--
		}
	}
}
