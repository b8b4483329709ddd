package pvc

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// interfaceXML is a NIC in the definition of a domain, in PVC's form.
type interfaceXML struct {
	XMLName xml.Name
	Type    string `xml:"type,attr"`
	MAC     struct {
		Address string `xml:"address,attr"`
	} `xml:"mac"`
	Source struct {
		Bridge string `xml:"bridge,attr"`
	} `xml:"source"`
	Model struct {
		Type string `xml:"type,attr"`
	} `xml:"model"`
	Others []struct{ XMLName xml.Name } `xml:",any"`
}

// definedXML is a definition as it is compared with another: its NICs, and all else in one form.
type definedXML struct {
	NICs []interfaceXML `xml:"devices>interface"`
	// of has the NICs in that form, by the MAC addresses in the definition.
	of   map[string]string
	rest string
}

// ofInterface is where NICs are in a definition.
const ofInterface = "domain/devices/interface"

// maxXMLDepth is how deep the elements of a definition may be nested.
const maxXMLDepth = 64

const (
	xmlMissing    = "A Libvirt XML document must be specified"
	deviceMissing = "A Libvirt XML device document must be specified"
	// notByXML is the refusal of a change that is not of a NIC.
	notByXML = "The definition of a VM is only changed by its XML to add or remove a NIC: \"seedbed vm resize\" changes vCPUs, memory and " +
		"disk, \"seedbed volume attach\" and \"detach\" its volumes, and \"seedbed vm rebuild\" makes the VM again from its profile."
)

// parseDefined reads a definition.
func parseDefined(doc string) (definedXML, error) {
	d := definedXML{of: map[string]string{}}
	var rest, nic strings.Builder
	out, mac := &rest, ""
	in := xml.NewDecoder(strings.NewReader(doc))
	var at []string
	for {
		token, err := in.RawToken()
		if errors.Is(err, io.EOF) {
			d.rest = rest.String()
			return d, xml.Unmarshal([]byte(doc), &d) // of what is not nested too deep
		}
		if err != nil {
			return d, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			if at = append(at, qualified(t.Name)); len(at) > maxXMLDepth {
				return d, fmt.Errorf("its elements are nested more than %d deep", maxXMLDepth)
			}
			slices.SortFunc(t.Attr, func(a, b xml.Attr) int { return cmp.Compare(qualified(a.Name), qualified(b.Name)) })
			switch { // the depth first: a path is long
			case len(at) == 3 && strings.Join(at, "/") == ofInterface:
				nic.Reset()
				out, mac = &nic, ""
			case len(at) == 4 && strings.Join(at, "/") == ofInterface+"/mac":
				for _, a := range t.Attr {
					if qualified(a.Name) == "address" {
						mac = strings.ToLower(a.Value)
					}
				}
			}
			fmt.Fprintf(out, "<%s", at[len(at)-1])
			for _, a := range t.Attr {
				fmt.Fprintf(out, " %s=%q", qualified(a.Name), a.Value)
			}
			out.WriteByte('>')
		case xml.EndElement:
			out.WriteString("</>")
			if len(at) == 3 && strings.Join(at, "/") == ofInterface {
				d.of[mac] = nic.String()
				out = &rest
			}
			at = at[:max(0, len(at)-1)]
		case xml.CharData:
			if text := strings.TrimSpace(string(t)); text != "" {
				fmt.Fprintf(out, "%q", text)
			}
		}
	}
}

// nicChange is what two definitions differ in: one NIC that is new, or the MAC address of one that is gone.
type nicChange struct {
	add    *interfaceXML
	remove string
}

// nicChangeOf returns how a definition that a client sends differs from the present one. It returns a refusal for any other difference.
func nicChangeOf(now, sent definedXML) (n nicChange, err error) {
	if now.rest != sent.rest {
		return n, refused(fiber.StatusBadRequest, notByXML)
	}
	changes := 0
	for i := range sent.NICs {
		nic := &sent.NICs[i]
		mac := strings.ToLower(nic.MAC.Address)
		switch was, known := now.of[mac]; {
		case !known:
			n.add = nic
			changes++
		case was != sent.of[mac]:
			return n, refused(fiber.StatusBadRequest, "The NIC %s is not changed by its XML: \"seedbed vm nic set\" takes it to another network.",
				seedbed.Clip(mac))
		}
	}
	for _, nic := range now.NICs {
		if mac := strings.ToLower(nic.MAC.Address); sent.of[mac] == "" {
			n.remove = mac
			changes++
		}
	}
	switch {
	case len(sent.of) != len(sent.NICs):
		return n, refused(fiber.StatusBadRequest, "Two NICs have the same MAC address, or none.")
	case changes > 1:
		return n, refused(fiber.StatusBadRequest, "One NIC is added or removed at a time: expected one change, and there are %d. "+
			"To remove one of several in a network, name its MAC address (pvc vm network remove -m).", changes)
	}
	return n, nil
}

// modifyVM adds a NIC to a VM, or removes one: that is what PVC's client sends the whole definition for that Seedbed can do. The guest
// has the change at once.
func (r *router) modifyVM(ctx context.Context, c *fiber.Ctx, f *fields, o seedbed.JobOptions) error {
	doc, restart := f.must("xml", xmlMissing), f.flag("restart")
	if f.err != nil {
		return f.err
	}
	i, err := r.vm(ctx, c, noSuchVM(c))
	if err != nil {
		return err
	}
	change, err := r.changeSent(ctx, i, doc)
	if err != nil {
		return err
	}
	req := seedbed.Request{Project: i.Project, Name: i.Name, JobOptions: o}
	switch {
	case change.add != nil:
		req.Action = seedbed.DoNICAdd
		nic, err := r.nicAsked(ctx, c, *change.add)
		if err != nil {
			return err
		}
		req.NICs = []seedbed.NICRequest{nic}
	case change.remove != "":
		req.Action = seedbed.DoNICRemove
		at := nicWith(i, change.remove)
		if at < 0 {
			return refused(fiber.StatusBadRequest, "ERROR: VM '%s' has no NIC with the MAC address %s.", i.Name, seedbed.Clip(change.remove))
		}
		req.NIC = &i.NICs[at].Index
	default:
		return refused(fiber.StatusBadRequest, "ERROR: No changes to apply to VM '%s'.", i.Name)
	}
	receipt, err := r.Intake.Submit(ctx, req, nil)
	if err != nil {
		return err
	}
	ended, err := r.awaitEnd(ctx, receipt.Job)
	if err != nil {
		return err
	}
	text := "Successfully modified configuration of VM '%s'."
	if !ended {
		return say(c, "Modifying configuration of VM '%s'. Task %s continues.", i.Name, receipt.Job.Short())
	}
	if restart && i.State == seedbed.InstanceRunning {
		text += " It is not restarted: its guest has the change already."
	}
	return say(c, text, i.Name)
}

// changeSent returns how a definition that a client sends differs from that of a VM, as the client got it.
func (r *router) changeSent(ctx context.Context, i seedbed.Instance, doc string) (nicChange, error) {
	sent, err := parseDefined(doc)
	if err != nil {
		return nicChange{}, refused(fiber.StatusBadRequest, "XML is malformed or incorrect: %v", err)
	}
	shown, err := r.vmRows(ctx, i)
	if err != nil {
		return nicChange{}, err
	}
	if shown[0].XML == "" {
		return nicChange{}, seedbed.Errorf(seedbed.ErrUnavailable,
			"the definition of VM %q is not known: it is not defined yet, or the worker of its node does not answer", i.Name)
	}
	var change nicChange
	for _, was := range []string{shown[0].XML, shown[0].forViewers} { // what the client got depends on its role
		now, parseErr := parseDefined(was)
		if parseErr != nil {
			return change, parseErr
		}
		if change, err = nicChangeOf(now, sent); err == nil || now.rest == sent.rest {
			break
		}
	}
	return change, err
}

// nicAsked returns the request for a NIC of a definition.
func (r *router) nicAsked(ctx context.Context, c *fiber.Ctx, x interfaceXML) (n seedbed.NICRequest, err error) {
	bad := func(format string, args ...any) error {
		return refused(fiber.StatusBadRequest, "ERROR: Failed to parse XML data: field data for 'networks' is not valid: "+format, args...)
	}
	switch {
	case x.Type != "bridge":
		return n, bad("the type of the new NIC is %s: only \"bridge\" is added so; for one in a direct network, use \"seedbed vm nic add\".",
			seedbed.Clip(x.Type))
	case x.Model.Type != "" && x.Model.Type != "virtio":
		return n, bad("the model of the new NIC is %s: NICs of VMs are virtio.", seedbed.Clip(x.Model.Type))
	}
	if len(x.Others) > 0 {
		return n, bad("the new NIC has %s, which is not known here: expected mac, source and model.", seedbed.Clip(x.Others[0].XMLName.Local))
	}
	if n.MAC, err = seedbed.ParseMAC(x.MAC.Address); err != nil {
		return n, bad("the MAC address of the new NIC is %s.", seedbed.Clip(x.MAC.Address))
	}
	all, err := r.nets(ctx, server.CallerOf(c))
	if err != nil {
		return n, err
	}
	at := slices.IndexFunc(all, func(n seedbed.Network) bool {
		return bridgeName(n.Name) == x.Source.Bridge || n.Bridge == x.Source.Bridge
	})
	if x.Source.Bridge == "" || at < 0 {
		return n, bad("no network has the bridge %s.", seedbed.Clip(x.Source.Bridge))
	}
	n.Network = all[at].Name
	return n, nil
}

// nicWith returns the place of the NIC of a VM that has a MAC address, or -1.
func nicWith(i seedbed.Instance, mac string) int {
	m, err := seedbed.ParseMAC(mac)
	return slices.IndexFunc(i.NICs, func(n seedbed.NIC) bool { return err == nil && n.MAC == m })
}

// device returns the handler of the request by which PVC's client has the guest of a VM get a device, or lose it, after it has changed the
// definition. A NIC that modifyVM has added or removed needs nothing more.
func (r *router) device(attached bool) handler {
	return func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		doc := f.must("xml", deviceMissing)
		if f.err != nil {
			return f.err
		}
		i, err := r.vm(ctx, c, vmNotFound())
		if err != nil {
			return err
		}
		var x interfaceXML
		if xml.Unmarshal([]byte(doc), &x) != nil {
			return refused(fiber.StatusBadRequest, "Specified XML document is not valid")
		}
		if x.XMLName.Local != "interface" {
			return refused(fiber.StatusBadRequest, "Devices other than NICs are not attached or detached by their XML: "+
				"use \"seedbed volume attach\" and \"seedbed volume detach\" for volumes.")
		}
		at := nicWith(i, x.MAC.Address)
		leaves := at >= 0 && i.NICs[at].State == seedbed.NICDetaching
		switch {
		case attached && (at < 0 || leaves):
			return refused(fiber.StatusBadRequest, "ERROR: VM '%s' has no NIC with the MAC address %s: add it with \"pvc vm network add\" or "+
				"\"seedbed vm nic add\".", i.Name, seedbed.Clip(x.MAC.Address))
		case !attached && at >= 0 && !leaves:
			return refused(fiber.StatusBadRequest, "ERROR: VM '%s' has the NIC %s: remove it with \"pvc vm network remove\" or "+
				"\"seedbed vm nic remove\".", i.Name, i.NICs[at].MAC)
		case attached:
			return say(c, "Successfully hot-attached XML device to VM %s", i.Name)
		}
		return say(c, "Successfully hot-detached XML device from VM %s", i.Name)
	}
}
