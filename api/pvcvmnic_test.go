package api_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"seedbed"
)

// TestPVCVMNetwork changes the NICs of a VM as PVC's client does: it sends the whole definition, with an interface more or less.
func TestPVCVMNetwork(t *testing.T) {
	t.Parallel()
	s := composable(t)
	i := s.runVM(t, "web1")
	var rows []struct{ XML string }
	if err := json.Unmarshal([]byte(s.do(t, "GET", "/api/v1/vm/web1", "").body), &rows); err != nil {
		t.Fatal(err)
	}
	now := rows[0].XML
	const nic = `<interface type='bridge'><mac address='52:54:00:00:00:02'/><source bridge='vmbr1000'/><model type='virtio'/></interface>`
	with := func(element string) string {
		return "restart=False&xml=" + url.QueryEscape(strings.Replace(now, "</interface>", "</interface>\n "+element, 1))
	}
	replaced := func(old, by string) string { return with(strings.Replace(nic, old, by, 1)) }
	without := "xml=" + url.QueryEscape(now[:strings.Index(now, "<interface")]+now[strings.Index(now, "</interface>")+len("</interface>"):])
	const odd = "ERROR: Failed to parse XML data: field data for 'networks' is not valid: "
	only := msg(`The definition of a VM is only changed by its XML to add or remove a NIC: "seedbed vm resize" changes vCPUs, memory and ` +
		`disk, "seedbed volume attach" and "detach" its volumes, and "seedbed vm rebuild" makes the VM again from its profile.`)
	for _, c := range []call{
		{"PUT", "/vm/web1", "", 400, lacks("xml", "A Libvirt XML document must be specified")},
		{"PUT", "/vm/none", "xml=<domain/>", 400, msg("ERROR: Could not find VM 'none' in the cluster!")},
		{"PUT", "/vm/web1", "xml=<domain>", 400, msg("XML is malformed or incorrect: XML syntax error on line 1: unexpected EOF")},
		{"PUT", "/vm/web1", "xml=<domain/>", 400, only},
		{"PUT", "/vm/web1", with(""), 400, msg("ERROR: No changes to apply to VM 'web1'.")},
		{"PUT", "/vm/web1", with("<hostdev/>"), 400, only},
		{"PUT", "/vm/web1", with(nic + "<hostdev/>"), 400, only},
		{"PUT", "/vm/web1", with(nic + nic), 400, msg("Two NICs have the same MAC address, or none.")},
		{"PUT", "/vm/web1", with(nic + strings.Replace(nic, "00:02", "00:03", 1)), 400,
			msg("One NIC is added or removed at a time: expected " +
				"one change, and there are 2. To remove one of several in a network, name its MAC address (pvc vm network remove -m).")},
		{"PUT", "/vm/web1", replaced("vmbr1000", "vmbr101"), 400, msg(odd + "no network has the bridge vmbr101.")},
		{"PUT", "/vm/web1", replaced("vmbr1000", ""), 400, msg(odd + "no network has the bridge .")},
		{"PUT", "/vm/web1", replaced("'bridge'", "'hostdev'"), 400,
			msg(odd + "the type of the new NIC is hostdev: only \"bridge\" is added so; for " +
				"one in a direct network, use \"seedbed vm nic add\".")},
		{"PUT", "/vm/web1", replaced("virtio", "e1000"), 400, msg(odd + "the model of the new NIC is e1000: NICs of VMs are virtio.")},
		{"PUT", "/vm/web1", replaced("52:54:00:00:00:02", "52:54"), 400, msg(odd + "the MAC address of the new NIC is 52:54.")},
		{"PUT", "/vm/web1", without, 400, msg("ERROR: VM 'web1' has no NIC with the MAC address 52:54:00:00:00:01.")},
		{"PUT", "/vm/web1", "xml=" + url.QueryEscape(strings.Replace(now, "<model type='virtio'>", "<model type='e1000'>", 1)), 400,
			msg(`The NIC 52:54:00:00:00:01 is not changed by its XML: "seedbed vm nic set" takes it to another network.`)},
		{"POST", "/vm/web1/device", "", 400, lacks("xml", "A Libvirt XML device document must be specified")},
		{"POST", "/vm/web1/device", "xml=x", 400, msg("Specified XML document is not valid")},
		{"POST", "/vm/none/device", "xml=x", 404, msg("VM not found.")},
		{"POST", "/vm/web1/device", "xml=" + url.QueryEscape(nic), 400, msg("ERROR: VM 'web1' has no NIC with the MAC address " +
			"52:54:00:00:00:02: add it with \"pvc vm network add\" or \"seedbed vm nic add\".")},
		{"DELETE", "/vm/web1/device", "xml=" + url.QueryEscape(nic), 200, msg("Successfully hot-detached XML device from VM web1")},
	} {
		s.pvc(t, c)
	}
	answer := make(chan response, 1)
	put := func(form string) {
		go func() {
			answer <- s.do(t, "PUT", "/api/v1/vm/web1", form, "Content-Type", formType)
		}()
	}
	put(with(nic))
	s.nextJob(t, seedbed.JobResult{State: seedbed.JobSucceeded})
	if r := <-answer; r.status != 200 || !strings.Contains(r.body, "Successfully modified configuration of VM 'web1'.") {
		t.Errorf("%+v", r)
	}
	after, err := s.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	if err != nil || len(after.NICs) != len(i.NICs)+1 || after.NICs[1].Network != "1000" ||
		after.NICs[1].MAC != (seedbed.MAC{0x52, 0x54, 0, 0, 0, 2}) {
		t.Errorf("the NICs are %+v, %v", after.NICs, err)
	}
	put(replaced("00:02", "00:03"))
	s.nextJob(t, seedbed.JobResult{State: seedbed.JobRolledBack, Error: "no slot is free"})
	if r := <-answer; r.status != 400 || r.body != msg("ERROR: No slot is free.") {
		t.Errorf("%+v", r)
	}
	viewer := s.newToken(t, "viewer", seedbed.RoleViewer)
	if r := s.do(t, "PUT", "/api/v1/vm/web1", with(nic), "Authorization", "Bearer "+viewer); r.status != 403 {
		t.Errorf("a viewer: %+v", r)
	}
}
