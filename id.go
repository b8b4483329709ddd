package seedbed

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// InstanceID is an instance's UUID in lower-case text form. Datasource.NewInstanceID says how it
// begins.
type InstanceID string

// JobID is a job's UUID in lower-case text form. Its first eight digits are what people see and
// type.
type JobID string

// NICID numbers a NIC within an installation, from 1 up to 2^31-1. It is the packet mark that
// identifies the caller of the metadata service, and part of the tap's name.
type NICID int64

// NewInstanceID returns a new UUID whose first three digits are "ec2" (RFC 9562 version 8). The
// next nine digits are the time in units of 16 ms, and the three after the version are the time in
// 4096ths of that unit: instances that are made together are adjacent in every index. The other 62
// bits are random.
func NewInstanceID() InstanceID { return DatasourceEC2.NewInstanceID() }

// NewInstanceID returns a new UUID for an instance that announces d. For EC2 it is that of the
// function NewInstanceID. cloud-init since 24.2 takes every UUID that begins with "ec2", in either
// byte order, for EC2's, whatever else the firmware says. So the UUIDs of the other datasources
// begin with "5e", and their fifth digit is "d", which is the third one in the other byte order.
func (d Datasource) NewInstanceID() InstanceID {
	u := newUUID()
	fine := uint64(time.Now().UnixMicro()) * 4096 / 16_000
	t := fine >> 12
	u[4], u[5], u[6], u[7] = byte(t>>8), byte(t), 0x80|byte(fine>>8)&0x0f, byte(fine)
	if d == "" || d == DatasourceEC2 {
		u[0], u[1], u[2], u[3] = 0xec, 0x20|byte(t>>32)&0x0f, byte(t>>24), byte(t>>16)
	} else {
		u[0], u[1], u[2], u[3] = 0x5e, byte(t>>28), 0xd0|byte(t>>24)&0x0f, byte(t>>16)
	}
	return InstanceID(formatUUID(u))
}

// AnnouncesEC2 reports whether guests take the UUID for one of EC2's: it begins with "ec2", or does
// so in the other byte order of its first group (cloud-init, ds-identify, ec2_identify_platform).
func (id InstanceID) AnnouncesEC2() bool {
	return strings.HasPrefix(string(id), "ec2") || len(id) > 8 && id[4] == '2' && id[6:8] == "ec"
}

// NewJobID returns a random version 4 UUID, except that the first 28 bits count sixteenths of a
// millisecond. Jobs that are made together are adjacent in the database, which then touches few
// pages for many jobs. The count wraps within hours, so the first digits still distinguish jobs.
func NewJobID() JobID {
	u := newUUID()
	t := uint32(time.Now().UnixMicro()*16/1000)<<4 | uint32(u[3]&0x0f)
	binary.BigEndian.PutUint32(u[:], t)
	return JobID(formatUUID(u))
}

func newUUID() [16]byte {
	var u [16]byte
	rand.Read(u[:]) // never fails (crypto/rand)
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return u
}

func formatUUID(u [16]byte) string {
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// uuidForm is the form of a lower-case UUID, with 0 for each digit.
const uuidForm = "00000000-0000-0000-0000-000000000000"

func isUUID(s string) bool {
	if len(s) != len(uuidForm) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; uuidForm[i] == '-' && c != '-' || uuidForm[i] == '0' && !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}

// ParseInstanceID returns s as an InstanceID, or ErrInvalid if it is not a lower-case UUID.
func ParseInstanceID(s string) (InstanceID, error) {
	if !isUUID(s) {
		return "", Errorf(ErrInvalid, "%q is not an instance ID: expected a lower-case UUID", s)
	}
	return InstanceID(s), nil
}

// EC2 returns the instance ID in Amazon's form: "i-" and the UUID's last 17 digits.
func (id InstanceID) EC2() string {
	h := strings.ReplaceAll(string(id), "-", "")
	if len(h) < 17 {
		return "i-" + h
	}
	return "i-" + h[len(h)-17:]
}

// Whole reports whether id is a UUID in lower case, not the start of one.
func (id JobID) Whole() bool { return isUUID(string(id)) }

// Short returns the first group of the UUID, which tables and messages show.
func (id JobID) Short() string {
	s, _, _ := strings.Cut(string(id), "-")
	return s
}

// Tap returns the host-side interface name of the NIC: "sb" and the number, at most 15 characters.
// It is known in advance, so filters can exist before the interface does.
func (n NICID) Tap() string { return "sb" + strconv.FormatInt(int64(n), 10) }

// NICOfTap returns the NIC whose host-side interface has that name (Tap), and whether there can be one.
func NICOfTap(name string) (NICID, bool) {
	number, ok := strings.CutPrefix(name, "sb")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(number, 10, 32)
	if id := NICID(n); err == nil && id > 0 && id.Tap() == name {
		return id, true
	}
	return 0, false
}

// Mark returns the packet mark of the NIC.
func (n NICID) Mark() uint32 { return uint32(n) }

// MAC is an EUI-48 address. Its text form is lower case with colons.
type MAC [6]byte

// NewMAC returns a random unicast, locally administered address under 52:54:00, the prefix that
// QEMU guests use.
func NewMAC() MAC {
	m := MAC{0x52, 0x54, 0x00}
	rand.Read(m[3:])
	return m
}

// ParseMAC parses an EUI-48 address in any form that net.ParseMAC takes. Any other text is
// ErrInvalid.
func ParseMAC(s string) (MAC, error) {
	hw, err := net.ParseMAC(s)
	if err != nil || len(hw) != 6 {
		return MAC{}, Errorf(ErrInvalid, "%q is not a MAC address: expected six hexadecimal pairs such as 52:54:00:12:34:56", s)
	}
	return MAC(hw), nil
}

// String returns the lower-case form with colons.
func (m MAC) String() string { return m.HardwareAddr().String() }

// HardwareAddr returns the address as a net.HardwareAddr.
func (m MAC) HardwareAddr() net.HardwareAddr { return net.HardwareAddr(m[:]) }

// MarshalText implements encoding.TextMarshaler.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *MAC) UnmarshalText(b []byte) error {
	v, err := ParseMAC(string(b))
	if err != nil {
		return err
	}
	*m = v
	return nil
}

// consists reports whether s is 1 to 63 characters, each a letter, a digit or one of others, and
// starts (and, unless endsWithAny, ends) with a letter or digit. Upper-case letters need upper.
func consists(s, others string, upper, endsWithAny bool) bool {
	if len(s) == 0 || len(s) > 63 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		plain := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || upper && 'A' <= c && c <= 'Z'
		inside := i > 0 && (endsWithAny || i < len(s)-1)
		if !plain && !(inside && strings.IndexByte(others, c) >= 0) {
			return false
		}
	}
	return true
}

// CheckInstanceName returns ErrInvalid unless name is one lower-case RFC 1123 host name label. The
// name of an instance is also its host name, its domain's name and its console's file name.
func CheckInstanceName(name string) error {
	if !consists(name, "-", false, false) {
		return Errorf(ErrInvalid, "name %q is not a host name: expected 1 to 63 of a-z, 0-9 and '-', not starting or ending with '-'", Clip(name))
	}
	return nil
}

// CheckName returns ErrInvalid unless name can be that of a catalogue object (image, profile, hook,
// network, pool). The message names the kind.
func CheckName(kind, name string) error {
	if !consists(name, "._-", true, true) {
		return Errorf(ErrInvalid, "%s name %q is not usable: expected 1 to 63 letters, digits, '.', '_' or '-', starting with a letter or digit",
			kind, Clip(name))
	}
	return nil
}

// Digest is a SHA-256 digest. Its text form is lower-case hexadecimal.
type Digest [32]byte

// String returns the hexadecimal form.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(b []byte) error {
	raw, err := hex.DecodeString(string(b))
	if err != nil || len(raw) != len(d) {
		return Errorf(ErrInvalid, "%q is not a SHA-256 digest: expected 64 hexadecimal digits", Clip(string(b)))
	}
	copy(d[:], raw)
	return nil
}

// InstanceName names an instance: its name is unique in its project.
type InstanceName struct{ Project, Name string }

// Named returns the name of an instance in a project.
func Named(project, name string) InstanceName { return InstanceName{project, name} }

// InDefault returns the name of an instance in the default project.
func InDefault(name string) InstanceName { return InstanceName{DefaultProject, name} }

// ParseInstanceName parses what String returns.
func ParseInstanceName(s string) InstanceName {
	if name, project, other := strings.Cut(s, "."); other {
		return InstanceName{project, name}
	}
	return InstanceName{DefaultProject, s}
}

// String returns the name that is unique in the installation: "web1" in the default project, and
// "web1.acme" in project acme. It is the name of the instance's domain. The name of an instance has
// no dot.
func (n InstanceName) String() string {
	if n.Project == DefaultProject || n.Project == "" {
		return n.Name
	}
	return n.Name + "." + n.Project
}

// Check returns ErrInvalid unless both parts are usable.
func (n InstanceName) Check() error {
	if err := CheckInstanceName(n.Name); err != nil {
		return err
	}
	return CheckProjectName(n.Project)
}

// CheckFullName returns ErrInvalid unless s is what String returns for a usable name.
func CheckFullName(s string) error {
	n := ParseInstanceName(s)
	if err := n.Check(); err != nil {
		return err
	}
	if n.String() != s {
		return Errorf(ErrInvalid, "name %q: expected %q, because the name of the project %s is left out", Clip(s), n, DefaultProject)
	}
	return nil
}

// FullName returns the instance's name with its project.
func (i Instance) FullName() InstanceName { return InstanceName{i.Project, i.Name} }

// MACOf returns the MAC address that is in an IPv6 address which a host chose of itself. It returns false for any other address.
func MACOf(a netip.Addr) (m MAC, ok bool) {
	b := a.As16()
	copy(m[:], []byte{b[8] ^ 2, b[9], b[10], b[13], b[14], b[15]})
	return m, a.Is6() && b[11] == 0xff && b[12] == 0xfe
}
