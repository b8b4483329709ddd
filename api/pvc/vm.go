package pvc

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// vmRow is an instance as PVC shows a VM. A field is empty or "N/A" if Seedbed does not have it
// (migration), does not record it (libvirt's measurements), or if the worker does not answer (what
// only the domain's definition says).
type vmRow struct {
	Name             string           `json:"name"`
	UUID             string           `json:"uuid"`
	State            string           `json:"state"`
	Node             string           `json:"node"`
	LastNode         string           `json:"last_node"`
	Migrated         string           `json:"migrated"`
	FailedReason     string           `json:"failed_reason"`
	NodeLimit        []string         `json:"node_limit"`
	NodeSelector     string           `json:"node_selector"`
	NodeAutostart    bool             `json:"node_autostart"`
	MigrationMethod  string           `json:"migration_method"`
	MigrationMaxDown int64            `json:"migration_max_downtime"`
	Tags             []vmTag          `json:"tags"`
	Snapshots        []vmSnapshot     `json:"snapshots"`
	Description      string           `json:"description"`
	Profile          string           `json:"profile"`
	Memory           int64            `json:"memory"`
	MemoryStats      map[string]int64 `json:"memory_stats"`
	VCPU             int              `json:"vcpu"`
	VCPUTopology     string           `json:"vcpu_topology"`
	VCPUStats        map[string]int64 `json:"vcpu_stats"`
	Networks         []vmNIC          `json:"networks"`
	Type             string           `json:"type"`
	Arch             string           `json:"arch"`
	Machine          string           `json:"machine"`
	Console          string           `json:"console"`
	VNC              vmVNC            `json:"vnc"`
	Emulator         string           `json:"emulator"`
	Features         []string         `json:"features"`
	Disks            []vmDisk         `json:"disks"`
	Controllers      []vmController   `json:"controllers"`
	XML              string           `json:"xml"`
	// forViewers is XML as viewers get it.
	forViewers string
}

type vmTag struct {
	Name      string `json:"name"`
	Type      string `json:"type"`
	Protected bool   `json:"protected"`
}

// vmNIC is a NIC of a VM. Its VNI is text, which PVC's client parses as a number.
type vmNIC struct {
	Type      string `json:"type"`
	VNI       string `json:"vni"`
	MAC       string `json:"mac"`
	Source    string `json:"source"`
	Model     string `json:"model"`
	RdBytes   int64  `json:"rd_bytes"`
	RdPackets int64  `json:"rd_packets"`
	RdErrors  int64  `json:"rd_errors"`
	RdDrops   int64  `json:"rd_drops"`
	WrBytes   int64  `json:"wr_bytes"`
	WrPackets int64  `json:"wr_packets"`
	WrErrors  int64  `json:"wr_errors"`
	WrDrops   int64  `json:"wr_drops"`
}

type vmDisk struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Dev     string `json:"dev"`
	Bus     string `json:"bus"`
	RdReq   int64  `json:"rd_req"`
	RdBytes int64  `json:"rd_bytes"`
	WrReq   int64  `json:"wr_req"`
	WrBytes int64  `json:"wr_bytes"`
}

type vmVNC struct {
	Listen string `json:"listen"`
	Port   string `json:"port"`
}

type vmController struct {
	Type  string `json:"type"`
	Model string `json:"model"`
}

// unknown is what PVC's client shows for a value without a record.
const unknown = "N/A"

// failures explains why an instance is in a state that PVC calls fail.
var failures = map[seedbed.InstanceState]string{
	seedbed.InstanceGone:   "its domain has vanished from libvirt",
	seedbed.InstanceFailed: "a job failed and could not undo everything",
}

// firstPrivateVNI is above every VXLAN VNI (24 bits, RFC 7348).
const firstPrivateVNI = 1 << 24

// vniOf returns the number of a network, which PVC's client requires. It is the network's name if
// that is a VNI, and otherwise a number above all VNIs that is derived from the name.
func vniOf(network string) int64 {
	network = seedbed.ShortName(network)
	if n, err := strconv.ParseInt(network, 10, 64); err == nil && n >= 0 && n < firstPrivateVNI && strconv.FormatInt(n, 10) == network {
		return n
	}
	h := fnv.New32a()
	h.Write([]byte(network))
	return firstPrivateVNI + int64(h.Sum32())
}

// vniText returns what PVC's client takes for the VNI of a NIC's network: its number, or the name of one of the three networks of
// nodes that PVC knows without a number.
func vniText(network string) string {
	switch name := seedbed.ShortName(network); name {
	case "upstream", "cluster", "storage":
		return name
	}
	return strconv.FormatInt(vniOf(network), 10)
}

// bridgeName returns the name that the bridge of a network has in PVC's domains.
func bridgeName(network string) string {
	vni := vniText(network)
	if vni == seedbed.ShortName(network) && vni[0] > '9' {
		return "br" + vni
	}
	return "vmbr" + vni
}

// vmRowOf returns an instance as PVC shows it. networks has the networks by name.
func vmRowOf(i seedbed.Instance, networks map[string]seedbed.Network) vmRow {
	row := vmRow{
		Name: i.Name, UUID: string(i.ID), State: vmStates[i.State], Node: i.Node, LastNode: i.Home, Migrated: "no",
		FailedReason: failures[i.State],
		NodeLimit:    i.System.NodeLimit, NodeSelector: cmp.Or(i.System.NodeSelector, "none"), NodeAutostart: i.System.Autostart,
		MigrationMethod: cmp.Or(i.System.MigrationMethod, "none"), MigrationMaxDown: i.System.MigrationMaxDowntime,
		Tags: vmTags(i), Profile: i.Profile,
		Memory: int64(i.Memory / seedbed.MiB), VCPU: i.VCPUs, VCPUTopology: "1/" + strconv.Itoa(i.VCPUs) + "/1",
		Type: "hvm", Arch: unknown, Machine: unknown, Console: "pty", Emulator: unknown,
	}
	if i.Home != "" {
		row.Migrated = "from " + i.Home
	}
	if !i.System.Serial {
		row.Console = unknown
	}
	if i.System.VNC { // libvirt chooses the port
		row.VNC.Listen = cmp.Or(i.System.VNCBind, "127.0.0.1")
	}
	for _, n := range i.NICs {
		on := networks[n.Network]
		nic := vmNIC{Type: "bridge", VNI: vniText(n.Network), MAC: n.MAC.String(),
			Source: cmp.Or(on.Bridge, n.Network), Model: "virtio"}
		switch {
		case on.Kind == seedbed.NetworkDirect && on.Mode == seedbed.DirectSRIOV:
			nic.Type, nic.Source, nic.Model = "hostdev", "hostdev:"+on.Uplink, unknown
		case on.Kind == seedbed.NetworkDirect:
			nic.Type, nic.Source = "direct", "macvtap:"+on.Uplink
		}
		row.Networks = append(row.Networks, nic)
	}
	for _, v := range i.Volumes {
		row.Disks = append(row.Disks,
			vmDisk{Type: "disk", Name: v.Pool + "/" + v.Name, Dev: i.System.Disk(v.Index), Bus: cmp.Or(i.System.DiskBus, seedbed.BusVirtio)})
	}
	for _, v := range i.Attached {
		row.Disks = append(row.Disks, vmDisk{Type: "disk", Name: v.Pool + "/" + v.Volume, Dev: v.Device, Bus: v.Bus})
	}
	return row
}

func vmTags(i seedbed.Instance) []vmTag {
	var tags []vmTag
	for _, name := range slices.Sorted(maps.Keys(i.Tags)) {
		tags = append(tags, vmTag{Name: name, Type: "user"})
	}
	return tags
}

// vmRows returns instances as PVC shows them, with what the definitions of their domains say.
func (r *router) vmRows(ctx context.Context, of ...seedbed.Instance) ([]vmRow, error) {
	all, err := r.Store.Networks(ctx)
	if err != nil {
		return nil, err
	}
	networks, bridges := make(map[string]seedbed.Network, len(all)), make(map[string]string, len(all))
	for _, n := range all {
		networks[n.Name], bridges[n.Bridge] = n, n.Name
	}
	docs := r.definitions(ctx, of)
	return server.Each(of, func(i seedbed.Instance) vmRow {
		row := vmRowOf(i, networks)
		row.described(docs[i.ID], bridges)
		return row
	}), nil
}

const noVM = "VM not found."

// stateWords are the states for which PVC's client may filter.
var stateWords = []string{"start", "restart", "shutdown", "stop", "disable", "fail", "migrate", "unmigrate", "provision", "mirror"}

// vmFilter selects the VMs of a list.
type vmFilter struct {
	match            seedbed.NameMatch
	uuid             string
	node, state, tag string
	negate           bool
}

func (r *router) vmFilter(ctx context.Context, all []seedbed.Instance, f *fields) (vmFilter, error) {
	v := vmFilter{match: f.match(), uuid: strings.ToLower(f.text("limit")), node: f.text("node"),
		state: f.text("state"), tag: f.text("tag"), negate: f.flag("negate")}
	switch {
	case f.err != nil:
		return v, f.err
	case v.state != "" && !slices.Contains(stateWords, v.state):
		return v, refused(fiber.StatusBadRequest, `VM state "%s" is not valid.`, seedbed.Clip(v.state))
	case v.node != "" && !r.isNode(ctx, v.node) && !slices.ContainsFunc(all, func(i seedbed.Instance) bool { return i.Node == v.node }):
		return v, refused(fiber.StatusBadRequest, `Specified node "%s" is invalid.`, seedbed.Clip(v.node))
	}
	return v, nil
}

func (v vmFilter) takes(i seedbed.Instance) bool {
	_, tagged := i.Tags[v.tag]
	return (v.match.Matches(i.Name) || v.uuid == string(i.ID)) &&
		(v.node == "" || (v.node == i.Node) != v.negate) &&
		(v.state == "" || (v.state == vmStates[i.State]) != v.negate) &&
		(v.tag == "" || tagged != v.negate)
}

func (r *router) vms(ctx context.Context, c *fiber.Ctx, f *fields) error {
	all, err := r.Store.ListInstances(ctx, seedbed.InstanceQuery{Scope: seedbed.InProject(server.CallerOf(c).Project)})
	if err != nil {
		return err
	}
	filter, err := r.vmFilter(ctx, all, f)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(i seedbed.Instance) bool { return !filter.takes(i) })
	shown, err := r.vmRows(ctx, all...)
	if err != nil {
		return err
	}
	return rows(c, shown, func(v vmRow) vmRow { return v }, noVM)
}

// vm returns the instance that the path names, by name or UUID. It returns missing if there is
// none.
func (r *router) vm(ctx context.Context, c *fiber.Ctx, missing error) (seedbed.Instance, error) {
	name := server.Param(c, "vm")
	if seedbed.CheckInstanceName(name) == nil {
		i, err := r.Store.InstanceByName(ctx, server.CallerOf(c).Instance(name))
		if err == nil || !errors.Is(err, seedbed.ErrNotFound) {
			return i, err
		}
	}
	if _, err := seedbed.ParseInstanceID(strings.ToLower(name)); err != nil {
		return seedbed.Instance{}, missing
	}
	i, err := r.Store.Instance(ctx, seedbed.InstanceID(strings.ToLower(name)))
	if err == nil && !server.CallerOf(c).Scope().Sees(i.Project) || errors.Is(err, seedbed.ErrNotFound) {
		return seedbed.Instance{}, missing
	}
	return i, err
}

func vmNotFound() error { return refused(fiber.StatusNotFound, "%s", noVM) }

// shownVM returns the handler that answers one form of the VM that the path names.
func (r *router) shownVM(form func(ctx context.Context, i seedbed.Instance) (any, error)) handler {
	return func(ctx context.Context, c *fiber.Ctx, _ *fields) error {
		i, err := r.vm(ctx, c, vmNotFound())
		if err != nil {
			return err
		}
		v, err := form(ctx, i)
		if err != nil {
			return err
		}
		return server.Reply(c, fiber.StatusOK, v)
	}
}
