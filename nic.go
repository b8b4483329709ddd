package seedbed

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// NIC is one network interface of an instance.
type NIC struct {
	ID      NICID      `json:"id"`
	Index   int        `json:"index"`
	MAC     MAC        `json:"mac"`
	Network string     `json:"network"`
	Addr    netip.Addr `json:"addr"`
	// Addr6 is its IPv6 address, which follows from its MAC; see Network.Addr6. It is only shown.
	Addr6 netip.Addr `json:"addr6,omitzero"`
	// Secondary are the further addresses of its network that it has, in their order.
	Secondary []netip.Addr `json:"secondary,omitempty"`
	// Takes are those of Secondary that a change takes from other NICs of the project, which have them as secondary ones.
	Takes []netip.Addr `json:"-"`
	// Groups are the security groups that it is in, by their qualified names. Without any, it is in the group "open".
	Groups []string `json:"security_groups,omitempty"`
	// BandwidthIn and BandwidthOut are its own rates, besides those of its network.
	BandwidthIn  BitRate `json:"bandwidth_in,omitempty"`
	BandwidthOut BitRate `json:"bandwidth_out,omitempty"`
	// Forwards are the ports of its node that go to it.
	Forwards []Forward `json:"forwards,omitempty"`
	// Floating is its floating address, if it has one, and Floating6 the one of IPv6.
	Floating  netip.Addr `json:"floating,omitzero"`
	Floating6 netip.Addr `json:"floating6,omitzero"`
	// Added is true for a NIC that was added to the instance, which was not made with it.
	Added bool `json:"added,omitempty"`
	// State is empty for a NIC that the instance has, and otherwise what a job makes of it.
	State NICState `json:"state,omitempty"`
}

// NICState is how far a job has got with a NIC of an existing instance.
type NICState string

// The states of a NIC.
const (
	NICAttached  NICState = ""          // the instance has it
	NICPromised  NICState = "promised"  // the job that adds it has not begun: no guest plane knows of it
	NICAttaching NICState = "attaching" // its filters may be in place, and the guest does not count on it yet
	NICDetaching NICState = "detaching" // the guest still may have it
)

// NICRequest is a NIC that an instance is to have.
type NICRequest struct {
	// Network is its network. Empty means that of the profile, or else the installation's own.
	Network string `json:"network,omitempty"`
	// Addr is its address. Without one, it has a free one of the network.
	Addr netip.Addr `json:"addr,omitzero"`
	// Secondary are further addresses of its network that it has, and SecondaryCount and SecondaryCount6 are how many free ones it
	// has besides, of IPv4 and of IPv6.
	Secondary       []netip.Addr `json:"secondary,omitempty"`
	SecondaryCount  int          `json:"secondary_count,omitempty"`
	SecondaryCount6 int          `json:"secondary_count6,omitempty"`
	// MAC is its MAC address. Without one, it has a random one.
	MAC MAC `json:"mac,omitzero"`
	// Groups are its security groups. Without any, it is in the group "default" of its project if there is one, and
	// otherwise in "open".
	Groups []string `json:"security_groups,omitempty"`
	// BandwidthIn and BandwidthOut are its own rates.
	BandwidthIn  BitRate `json:"bandwidth_in,omitempty"`
	BandwidthOut BitRate `json:"bandwidth_out,omitempty"`
}

// Check returns ErrInvalid for rates and numbers of addresses that no NIC can have. index is its place, for messages.
func (n NICRequest) Check(index int) error {
	if err := CheckBandwidth(n.BandwidthIn, n.BandwidthOut); err != nil {
		return Errorf(ErrInvalid, "nics: NIC %d: %v", index, err)
	}
	for _, free := range []int{n.SecondaryCount, n.SecondaryCount6, n.SecondaryCount + n.SecondaryCount6} {
		if free < 0 || free > MaxSecondary-len(n.Secondary) {
			return Errorf(ErrInvalid, "nics: NIC %d asks for %d secondary addresses and for %d that are free: expected at most %d", index,
				len(n.Secondary), free, MaxSecondary)
		}
	}
	return nil
}

// The kinds of job on the NICs of an existing instance.
const (
	JobNICAdd    JobKind = "nic_add"    // give an instance a further NIC
	JobNICRemove JobKind = "nic_remove" // take a NIC from an instance
	JobNICSet    JobKind = "nic_set"    // take a NIC to another network
)

// OfNIC reports whether a job of that kind works on a NIC.
func (k JobKind) OfNIC() bool { return k == JobNICAdd || k == JobNICRemove || k == JobNICSet }

// NICJob is the input of a job on a NIC.
type NICJob struct {
	// NIC identifies the NIC, and Index and MAC are its own: another one may get these once it is removed.
	NIC   NICID `json:"nic"`
	Index int   `json:"index"`
	MAC   MAC   `json:"mac"`
	// Network and Addr are what it has after the job, and Addr is the zero Addr where NICs have none.
	Network string     `json:"network,omitempty"`
	Addr    netip.Addr `json:"addr,omitzero"`
	// From and FromAddr are what it had before a job that takes it to another network.
	From     string     `json:"from,omitempty"`
	FromAddr netip.Addr `json:"from_addr,omitzero"`
	// FromGroups are the security groups that it had when it went to Network.
	FromGroups []string `json:"from_security_groups,omitempty"`
	// Was is its state before the job: a NIC that a job has left behind can only be removed.
	Was NICState `json:"was,omitempty"`
}

// NICOf returns the NIC that the job works on. ok is false if the instance does not have it.
func (j NICJob) NICOf(i Instance) (n NIC, ok bool) {
	at := slices.IndexFunc(i.NICs, func(n NIC) bool { return n.ID == j.NIC })
	if at < 0 {
		return n, false
	}
	return i.NICs[at], true
}

// NICAt returns the place of the NIC with that index in a list, or -1.
func NICAt(nics []NIC, index int) int {
	return slices.IndexFunc(nics, func(n NIC) bool { return n.Index == index })
}

// NIC returns the place of the NIC with that index, or with the lowest that the instance has for nil. It returns ErrInvalid if there is no
// such NIC.
func (i Instance) NIC(index *int) (at int, err error) {
	switch {
	case index != nil:
		at = NICAt(i.NICs, *index)
	case len(i.NICs) == 0:
		return -1, Errorf(ErrInvalid, "instance %s has no NIC", i.Name)
	}
	if at < 0 {
		err = i.NoNIC(*index)
	}
	return at, err
}

// NICNamed returns the NIC of an instance that a text names: by its index or its MAC address. It returns ErrInvalid for another text,
// and ErrNotFound if the instance has no such NIC.
func (i Instance) NICNamed(text string) (NIC, error) {
	var at int
	if index, err := strconv.Atoi(text); err == nil {
		at = NICAt(i.NICs, index)
	} else if mac, err := ParseMAC(text); err == nil {
		at = slices.IndexFunc(i.NICs, func(n NIC) bool { return n.MAC == mac })
	} else {
		return NIC{}, Errorf(ErrInvalid, "NIC %q: expected its index, such as 1, or its MAC address", Clip(text))
	}
	if at < 0 {
		return NIC{}, Errorf(ErrNotFound, "instance %s has no NIC %s: it has %s", i.Name, Clip(text), i.nicList())
	}
	return i.NICs[at], nil
}

// nicList returns the indexes of an instance's NICs, for messages.
func (i Instance) nicList() string {
	if len(i.NICs) == 0 {
		return "none"
	}
	var all []string
	for _, n := range i.NICs {
		all = append(all, strconv.Itoa(n.Index))
	}
	return strings.Join(all, ", ")
}

// NoNIC returns ErrInvalid for an index that no NIC of the instance has.
func (i Instance) NoNIC(index int) error {
	return Errorf(ErrInvalid, "instance %s has no NIC %d: it has %s", i.Name, index, i.nicList())
}

// FreeNIC returns the index of a further NIC: the lowest that none has. It returns ErrConflict if the instance has as many as it may.
func (i Instance) FreeNIC() (int, error) {
	for index := range MaxNICs {
		if NICAt(i.NICs, index) < 0 {
			return index, nil
		}
	}
	return 0, Errorf(ErrConflict, "instance %q has %d NICs, which is the most that an instance may have: remove one first", i.Name,
		len(i.NICs))
}

// Removable returns ErrConflict for a NIC without which the instance would have none.
func (i Instance) Removable(n NIC) error {
	for _, other := range i.NICs {
		if other.Index != n.Index && other.State == NICAttached {
			return nil
		}
	}
	if n.State != NICAttached { // what a job has left behind
		return nil
	}
	return Errorf(ErrConflict, "NIC %d is the only one of instance %q: add another first (seedbed vm nic add %s network=NETWORK)", n.Index,
		i.Name, i.Name)
}

// Without returns the NICs of an instance except the one with that index.
func (i Instance) Without(index int) []NIC {
	return slices.DeleteFunc(slices.Clone(i.NICs), func(n NIC) bool { return n.Index == index })
}

// KeepsMetadata returns ErrConflict if an instance that reaches the metadata service would no longer do so with these NICs. network finds
// a network.
func (i Instance) KeepsMetadata(nics []NIC, network func(name string) (Network, error)) error {
	if i.Metadata.By == MetadataCDROM || i.Datasource == DatasourceNone {
		return nil
	}
	reaches := func(nics []NIC) (bool, error) {
		for _, n := range nics {
			if n.State != NICAttached {
				continue
			}
			if at, err := network(n.Network); err != nil || at.Kind.Served() {
				return true, err
			}
		}
		return false, nil
	}
	before, err := reaches(i.NICs)
	if err != nil || !before {
		return err
	}
	after, err := reaches(nics)
	if err == nil && !after {
		err = Errorf(ErrConflict, "instance %q gets its metadata by the service of its node, and no other NIC of it is in a network where "+
			"nodes serve guests: add one first", i.Name)
	}
	return err
}

// Movable returns ErrInUse for a NIC with what belongs to its network and cannot go to another.
func (n NIC) Movable(instance string) error {
	what, undo := "", ""
	switch {
	case n.Floating.IsValid():
		what, undo = "the floating address "+n.Floating.String(), "seedbed address disassociate "+n.Floating.String()
	case n.Floating6.IsValid():
		what, undo = "the floating address "+n.Floating6.String(), "seedbed address disassociate "+n.Floating6.String()
	case len(n.Forwards) > 0:
		what, undo = "the forward "+n.Forwards[0].Listen.String(), fmt.Sprintf("seedbed network forward remove --nic %d %s %s",
			n.Index, instance, n.Forwards[0].Listen)
	case len(n.Secondary) > 0:
		what, undo = "the secondary address "+n.Secondary[0].String(), fmt.Sprintf("seedbed address unassign --nic %d %s %s",
			n.Index, instance, n.Secondary[0])
	default:
		return nil
	}
	return Errorf(ErrInUse, "NIC %d of instance %q has %s, which is of network %q: take it away first (%s)", n.Index, instance, what,
		n.Network, undo)
}

// Releases says what is released with a NIC that is removed, besides its address; empty for nothing.
func (n NIC) Releases() string {
	var all []string
	for _, a := range n.Secondary {
		all = append(all, "the secondary address "+a.String())
	}
	for _, f := range n.Forwards {
		all = append(all, "the forward "+f.Listen.String())
	}
	for _, a := range []netip.Addr{n.Floating, n.Floating6} {
		if a.IsValid() {
			all = append(all, "the floating address "+a.String()+", which stays allocated")
		}
	}
	return strings.Join(all, ", ")
}

// MACTemplate makes the MAC addresses of an instance's NICs. It is a format string of Python's
// str.format with three fields: {prefix} is 52:54:01, {vmid} the instance's number and {netid} the
// NIC's, each modulo 16 as one hexadecimal digit. {{ and }} are braces. A field may be padded:
// {vmid:0>2}.
type MACTemplate string

// macPrefix is what {prefix} stands for (PVC's provisioning scripts).
const macPrefix = "52:54:01"

// maxMACTemplate bounds a template and what it makes, in bytes.
const maxMACTemplate = 128

// Check returns ErrInvalid unless t makes a unicast MAC address for every instance and NIC.
func (t MACTemplate) Check() error {
	if len(t) > maxMACTemplate {
		return Errorf(ErrInvalid, "MAC template has %d bytes: expected at most %d", len(t), maxMACTemplate)
	}
	for vm := range 16 {
		for nic := range 16 {
			if _, err := t.MAC(vm, nic); err != nil {
				return err
			}
		}
	}
	return nil
}

// PerNIC reports whether the NICs of one instance get different addresses.
func (t MACTemplate) PerNIC() bool {
	a, errA := t.MAC(0, 0)
	b, errB := t.MAC(0, 1)
	return errA == nil && errB == nil && a != b
}

// MAC returns the address of NIC number nic of instance number vm, both from 0. It is ErrInvalid if
// the template does not make a unicast address.
func (t MACTemplate) MAC(vm, nic int) (MAC, error) {
	text, err := t.expand(map[string]string{
		"prefix": macPrefix, "vmid": strconv.FormatInt(int64(vm&15), 16), "netid": strconv.FormatInt(int64(nic&15), 16),
	})
	if err != nil {
		return MAC{}, err
	}
	m, err := ParseMAC(text)
	if err != nil {
		return MAC{}, Errorf(ErrInvalid,
			"MAC template %q makes %q, which is not a MAC address: expected six hexadecimal pairs, such as {prefix}:00:{vmid}0:{netid}0",
			Clip(string(t)), Clip(text))
	}
	if m[0]&1 != 0 || m == (MAC{}) {
		return MAC{}, Errorf(ErrInvalid,
			"MAC template %q makes %s, which is not the address of a single NIC: expected an even first pair", Clip(string(t)), m)
	}
	return m, nil
}

// expand returns t with its fields replaced by the values.
func (t MACTemplate) expand(values map[string]string) (string, error) {
	var out strings.Builder
	for rest := string(t); rest != ""; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			out.WriteString(rest)
			break
		}
		out.WriteString(rest[:i])
		brace := rest[i]
		rest = rest[i+1:]
		if rest != "" && rest[0] == brace {
			out.WriteByte(brace)
			rest = rest[1:]
			continue
		}
		field, after, ok := strings.Cut(rest, "}")
		if brace == '}' || !ok || strings.Contains(field, "{") {
			return "", Errorf(ErrInvalid, "MAC template %q has a single %q: expected fields such as {vmid}, or %q for the character",
				Clip(string(t)), brace, strings.Repeat(string(brace), 2))
		}
		name, format, _ := strings.Cut(field, ":")
		value, known := values[name]
		if !known {
			return "", Errorf(ErrInvalid, "MAC template %q has the field {%s}: expected {prefix}, {vmid} and {netid}", Clip(string(t)), Clip(field))
		}
		padded, ok := pad(value, format)
		if !ok {
			return "", Errorf(ErrInvalid, "MAC template %q has the format %q: expected a fill, one of <, > and ^, and a width, such as {vmid:0>2}",
				Clip(string(t)), Clip(format))
		}
		out.WriteString(padded)
		rest = after
	}
	return out.String(), nil
}

// pad formats a string as Python does: [[fill]align][0][width]. It reports whether format is valid.
func pad(value, format string) (string, bool) {
	fill, align := " ", byte('<')
	isAlign := func(i int) bool { return len(format) > i && strings.IndexByte("<>^", format[i]) >= 0 }
	switch {
	case isAlign(1):
		fill, align, format = format[:1], format[1], format[2:]
	case isAlign(0):
		align, format = format[0], format[1:]
	}
	if zero, ok := strings.CutPrefix(format, "0"); ok {
		format = zero
		if fill == " " {
			fill = "0"
		}
	}
	if format == "" {
		return value, true
	}
	width, err := strconv.ParseUint(format, 10, 8)
	if err != nil || width > maxMACTemplate {
		return "", false
	}
	missing := max(0, int(width)-len(value))
	left := map[byte]int{'<': 0, '>': missing, '^': missing / 2}[align]
	return strings.Repeat(fill, left) + value + strings.Repeat(fill, missing-left), true
}
