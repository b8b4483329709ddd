package pvc

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"seedbed"
	"seedbed/api/server"
)

// definitions returns the definitions of the domains of instances, without those that have none yet
// or whose worker does not answer soon. It asks each node once.
func (r *router) definitions(ctx context.Context, of []seedbed.Instance) map[seedbed.InstanceID]string {
	nodes := map[string][]seedbed.InstanceID{}
	for _, i := range of {
		nodes[i.Node] = append(nodes[i.Node], i.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, server.StatusTimeout)
	defer cancel()
	return r.Domains.DomainXML(ctx, nodes)
}

// domainDoc is what a row shows of a domain's definition.
type domainDoc struct {
	Type struct {
		Arch    string `xml:"arch,attr"`
		Machine string `xml:"machine,attr"`
	} `xml:"os>type"`
	Emulator string `xml:"devices>emulator"`
	Disks    []struct {
		Source struct {
			Name string `xml:"name,attr"`
			File string `xml:"file,attr"`
			Dev  string `xml:"dev,attr"`
		} `xml:"source"`
		Target struct {
			Dev string `xml:"dev,attr"`
			Bus string `xml:"bus,attr"`
		} `xml:"target"`
	} `xml:"devices>disk"`
}

// described adds to a row what the definition of its domain says.
func (v *vmRow) described(doc string, networks map[string]string) {
	var d domainDoc
	if doc == "" || xml.Unmarshal([]byte(doc), &d) != nil {
		return
	}
	for n := range v.Disks {
		pool, name, _ := strings.Cut(v.Disks[n].Name, "/")
		for _, disk := range d.Disks {
			src := disk.Source
			if src.Name == pool+"/"+name || strings.TrimSuffix(path.Base(src.File+src.Dev), ".qcow2") == name {
				v.Disks[n].Dev, v.Disks[n].Bus = disk.Target.Dev, disk.Target.Bus
			}
		}
	}
	for _, set := range []struct {
		to   *string
		from string
	}{{&v.Arch, d.Type.Arch}, {&v.Machine, d.Type.Machine}, {&v.Emulator, d.Emulator}} {
		if set.from != "" {
			*set.to = set.from
		}
	}
	p := pvcXML{vcpus: v.VCPU, networks: networks}
	v.XML = p.of(doc)
	p.known = true
	v.forViewers = p.of(doc)
}

// ForViewers returns the row whose definition has only what other answers show to viewers.
func (v vmRow) ForViewers() any {
	type plain vmRow
	v.XML = v.forViewers
	return plain(v)
}

// pvcXML writes the definition of a domain in the form that PVC keeps, and that its client reads: in
// ASCII with single quotes, memory in MiB, with a CPU topology, and with bridges that are named after
// the numbers of their networks. It has no passwords.
type pvcXML struct {
	vcpus int
	// networks maps bridges to the names of their networks.
	networks map[string]string
	// known leaves out all that is not in shownElements.
	known bool
}

// shownElements are the elements that viewers see, by the path below the domain.
var shownElements = strings.Fields(`name uuid memory currentMemory vcpu os os/type os/boot features features/acpi features/apic
	features/pae cpu cpu/topology clock on_poweroff on_reboot on_crash devices devices/emulator devices/disk devices/disk/driver
	devices/disk/source devices/disk/target devices/interface devices/interface/mac devices/interface/source devices/interface/model
	devices/interface/target devices/console devices/console/target devices/serial devices/serial/target devices/graphics
	devices/controller devices/video devices/memballoon`)

// of returns the definition in PVC's form; empty if it is not XML.
func (p pvcXML) of(doc string) string {
	var (
		in   = xml.NewDecoder(strings.NewReader(doc))
		out  bytes.Buffer
		at   []string // the open elements below the domain
		kib  bool     // in an element whose text is a number of KiB
		topo bool
	)
	topology := fmt.Sprintf("<topology sockets='1' cores='%d' threads='1'/>", max(1, p.vcpus))
	for depth := 0; ; {
		token, err := in.RawToken()
		if err == io.EOF {
			return out.String()
		}
		if err != nil {
			return ""
		}
		switch t := token.(type) {
		case xml.StartElement:
			if depth++; depth > 1 {
				at = append(at, qualified(t.Name))
			}
			here := strings.Join(at, "/")
			if p.known && here != "" && !slices.Contains(shownElements, here) {
				if err := skip(in); err != nil {
					return ""
				}
				depth, at = depth-1, at[:len(at)-1]
				continue
			}
			kib = (here == "memory" || here == "currentMemory") && p.toMiB(t.Attr)
			topo = topo || here == "cpu/topology"
			fmt.Fprintf(&out, "<%s%s>", qualified(t.Name), p.attributes(here, t.Attr))
		case xml.EndElement:
			switch here := strings.Join(at, "/"); {
			case here == "cpu" && !topo:
				out.WriteString(topology)
				topo = true
			case depth == 1 && !topo:
				out.WriteString("<cpu>" + topology + "</cpu>")
			}
			fmt.Fprintf(&out, "</%s>", qualified(t.Name))
			if depth--; len(at) > 0 {
				at = at[:len(at)-1]
			}
			kib = false
		case xml.CharData:
			text := string(t)
			if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); kib && err == nil {
				text = strconv.FormatInt(n>>10, 10)
			}
			if depth > 0 {
				out.WriteString(ascii(text))
			}
		}
	}
}

// toMiB changes the unit of a number of KiB to MiB, and reports whether it was KiB.
func (p pvcXML) toMiB(attrs []xml.Attr) bool {
	for i := range attrs {
		if attrs[i].Name.Local == "unit" && attrs[i].Value == "KiB" {
			attrs[i].Value = "MiB"
			return true
		}
	}
	return false
}

// attributes returns the attributes of an element as they are written, each after a space.
func (p pvcXML) attributes(at string, attrs []xml.Attr) string {
	var out strings.Builder
	for _, a := range attrs {
		name := qualified(a.Name)
		switch {
		case at == "devices/graphics" && strings.HasPrefix(name, "passwd"):
			continue
		case p.known && strings.HasPrefix(name, "xmlns"):
			continue
		case p.known && at == "devices/disk/source" && (name == "file" || name == "dev"): // where pools are is not for viewers
			a.Value = path.Base(a.Value)
		case p.known && at == "devices/disk/source" && name != "name" && name != "protocol":
			continue
		case at == "devices/interface/source" && name == "bridge" && p.networks[a.Value] != "":
			a.Value = bridgeName(p.networks[a.Value])
		}
		fmt.Fprintf(&out, " %s='%s'", name, ascii(a.Value))
	}
	return out.String()
}

func qualified(n xml.Name) string {
	if n.Space == "" {
		return n.Local
	}
	return n.Space + ":" + n.Local
}

// ascii escapes what may not be in XML with single quotes, and what is not ASCII.
func ascii(text string) string {
	var out strings.Builder
	for _, c := range text {
		switch {
		case c == '&':
			out.WriteString("&amp;")
		case c == '<':
			out.WriteString("&lt;")
		case c == '>':
			out.WriteString("&gt;")
		case c == '\'' || c == '"' || c >= utf8.RuneSelf:
			fmt.Fprintf(&out, "&#%d;", c)
		default:
			out.WriteRune(c)
		}
	}
	return out.String()
}

// skip reads to the end of the element that has begun.
func skip(in *xml.Decoder) error {
	for depth := 1; depth > 0; {
		token, err := in.RawToken()
		if err != nil {
			return err
		}
		switch token.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		}
	}
	return nil
}
