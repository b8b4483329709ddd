package seedbed

import (
	"maps"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The bounds of what an instance may have. They prevent mistakes and abuse; the job finds out what
// the host can really give.
const (
	// MaxVCPUs is the largest number of virtual CPUs: what the pc machine type of every supported
	// QEMU takes.
	MaxVCPUs = 255
	// MaxDisk is the largest virtual size of a disk, whether asked for or imported.
	MaxDisk = 64 * TiB
	// MaxNICs and MaxVolumes are how many NICs and disks an instance has at most.
	MaxNICs    = 16
	MaxVolumes = 32

	minMemory = 64 * MiB
	maxMemory = 64 * TiB
	sector    = Bytes(512)
)

// CheckVCPUs returns ErrInvalid unless n is 1 to MaxVCPUs.
func CheckVCPUs(n int) error {
	if n < 1 || n > MaxVCPUs {
		return Errorf(ErrInvalid, "vcpus is out of range: expected 1 to %d", MaxVCPUs)
	}
	return nil
}

// CheckMemory returns ErrInvalid unless size is a whole number of MiB from 64 MiB to 64 TiB.
func CheckMemory(size Bytes) error {
	if size < minMemory || size > maxMemory {
		return Errorf(ErrInvalid, "memory is %s: expected %s to %s", size, minMemory, maxMemory)
	}
	if size%MiB != 0 {
		return Errorf(ErrInvalid, "memory is %s: expected a multiple of 1MiB", size)
	}
	return nil
}

// CheckDisk returns ErrInvalid unless size is a whole number of sectors up to MaxDisk. Zero, which
// means the size of the image, is valid. The message calls the size param, its name for the user.
func CheckDisk(param string, size Bytes) error {
	if size < 0 || size > MaxDisk {
		return Errorf(ErrInvalid, "%s is %s: expected at most %s", param, size, MaxDisk)
	}
	if size%sector != 0 {
		return Errorf(ErrInvalid, "%s is %s: expected a multiple of %d bytes, a disk's sector", param, size, sector)
	}
	return nil
}

// ProjectQuota bounds what a project may have in total. Zero means no bound.
type ProjectQuota struct {
	TokenQuota
	// DiskIn bounds the disks in single pools, by the pool's name.
	DiskIn map[string]Bytes `json:"max_disk_in,omitempty"`
	// Addresses bounds the addresses of instances on networks.
	Addresses int64 `json:"max_addresses,omitempty"`
	// Jobs bounds the jobs that have not ended.
	Jobs int64 `json:"max_jobs,omitempty"`
	ObjectQuota
	RateQuota
}

// RateQuota bounds what is done for a project in a second, on each control host. Zero means no bound.
type RateQuota struct {
	// APIRate bounds the API's requests per second with the project's tokens, and APIBurst those at once.
	APIRate  float64 `json:"api_rate,omitempty"`
	APIBurst int     `json:"api_burst,omitempty"`
	// HookRate bounds the verified deliveries per second to the project's hooks, and HookBurst those at once.
	HookRate  float64 `json:"hook_rate,omitempty"`
	HookBurst int     `json:"hook_burst,omitempty"`
}

// Rate is how often something may be done, and how often at once. The zero Rate bounds nothing.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Requests returns the rate of the API's requests.
func (q RateQuota) Requests() Rate { return rateOf(q.APIRate, q.APIBurst) }

// Deliveries returns the rate of deliveries to hooks.
func (q RateQuota) Deliveries() Rate { return rateOf(q.HookRate, q.HookBurst) }

const (
	// leastBurst is the least burst of a rate that has none of its own, which is otherwise that of two seconds.
	leastBurst = 10
	maxRate    = 100_000
	maxBurst   = 1_000_000
)

func rateOf(perSecond float64, burst int) Rate {
	if perSecond > 0 && burst == 0 {
		burst = max(leastBurst, int(math.Ceil(2*perSecond)))
	}
	return Rate{perSecond, burst}
}

func (q RateQuota) check() error {
	for _, r := range []struct {
		name      string
		perSecond float64
		burst     int
	}{{"api", q.APIRate, q.APIBurst}, {"hook", q.HookRate, q.HookBurst}} {
		switch {
		case !(r.perSecond >= 0 && r.perSecond <= maxRate):
			return Errorf(ErrInvalid, "%s_rate is %g: expected at most %d per second, or 0 for no limit", r.name, r.perSecond, maxRate)
		case r.burst < 0 || r.burst > maxBurst:
			return Errorf(ErrInvalid, "%s_burst is %d: expected at most %d, or 0 for the default", r.name, r.burst, maxBurst)
		case r.burst > 0 && r.perSecond == 0:
			return Errorf(ErrInvalid, "%s_burst is without effect: expected a %s_rate too", r.name, r.name)
		}
	}
	return nil
}

// ObjectQuota bounds how many objects a project may have, apart from its instances. Zero means no bound.
type ObjectQuota struct {
	// Snapshots bounds the snapshots of instances; one of all disks of an instance counts once.
	Snapshots int64 `json:"max_snapshots,omitempty"`
	Images    int64 `json:"max_images,omitempty"`
	Networks  int64 `json:"max_networks,omitempty"`
	// SecurityGroups and Floating are at most MaxProjectGroups and MaxProjectFloating, which bound them without a quota as well.
	SecurityGroups int64 `json:"max_security_groups,omitempty"`
	// Floating bounds the floating addresses.
	Floating  int64 `json:"max_floating_addresses,omitempty"`
	Tokens    int64 `json:"max_tokens,omitempty"`
	Hooks     int64 `json:"max_hooks,omitempty"`
	Endpoints int64 `json:"max_endpoints,omitempty"`
}

// IsZero reports whether the quota bounds nothing.
func (q ProjectQuota) IsZero() bool {
	return !q.BoundsWork() && q.ObjectQuota == ObjectQuota{} && q.RateQuota == RateQuota{}
}

// BoundsWork reports whether the quota bounds instances, what they have, or jobs.
func (q ProjectQuota) BoundsWork() bool {
	return q.TokenQuota != TokenQuota{} || len(q.DiskIn) > 0 || q.Addresses > 0 || q.Jobs > 0
}

// Equal reports whether two quotas bound the same.
func (q ProjectQuota) Equal(other ProjectQuota) bool {
	return q.TokenQuota == other.TokenQuota && maps.Equal(q.DiskIn, other.DiskIn) && q.Addresses == other.Addresses &&
		q.Jobs == other.Jobs && q.ObjectQuota == other.ObjectQuota && q.RateQuota == other.RateQuota
}

// maxQuotaPools is the largest number of pools whose disks a quota bounds.
const maxQuotaPools = 100

// Check returns ErrInvalid if a bound is negative, or the name of a pool cannot be used.
func (q ProjectQuota) Check() error {
	for _, n := range []int64{
		q.Addresses, q.Jobs, q.Snapshots, q.Images, q.Networks, q.SecurityGroups, q.Floating, q.Tokens, q.Hooks, q.Endpoints,
	} {
		if n < 0 {
			return errNegativeQuota
		}
	}
	switch {
	case q.SecurityGroups > MaxProjectGroups:
		return Errorf(ErrInvalid, "max_security_groups is %d: expected at most %d", q.SecurityGroups, MaxProjectGroups)
	case q.Floating > MaxProjectFloating:
		return Errorf(ErrInvalid, "max_floating_addresses is %d: expected at most %d", q.Floating, MaxProjectFloating)
	}
	if len(q.DiskIn) > maxQuotaPools {
		return Errorf(ErrInvalid, "max_disk_in names %d pools: expected at most %d", len(q.DiskIn), maxQuotaPools)
	}
	for pool, most := range q.DiskIn {
		if err := CheckName("pool", pool); err != nil {
			return err
		}
		if most <= 0 {
			return Errorf(ErrInvalid, "max_disk_in: pool %q has %s: expected a size, or no entry for no limit", pool, most)
		}
	}
	if err := q.RateQuota.check(); err != nil {
		return err
	}
	return q.TokenQuota.Check()
}

// Use is what a project has, or what the instances of a token have. What was promised counts too.
type Use struct {
	Instances int64 `json:"instances"`
	VCPUs     int64 `json:"vcpus"`
	Memory    Bytes `json:"memory"`
	// Disk is the sum of DiskIn, which has the sizes of the disks in each pool, by the pool's name.
	Disk      Bytes            `json:"disk"`
	DiskIn    map[string]Bytes `json:"disk_in"`
	Addresses int64            `json:"addresses"`
	// Jobs counts the jobs that have not ended.
	Jobs      int64 `json:"jobs"`
	Snapshots int64 `json:"snapshots"`
	Images    int64 `json:"images"`
	Networks  int64 `json:"networks"`
	// SecurityGroups and Floating count security groups and floating addresses.
	SecurityGroups int64 `json:"security_groups"`
	Floating       int64 `json:"floating_addresses"`
	Tokens         int64 `json:"tokens"`
	Hooks          int64 `json:"hooks"`
	Endpoints      int64 `json:"endpoints"`
}

// AddDisk adds the size of a disk, which may be negative.
func (u *Use) AddDisk(pool string, size Bytes) {
	if u.DiskIn == nil {
		u.DiskIn = map[string]Bytes{}
	}
	u.Disk += size
	u.DiskIn[pool] += size
}

// IOLimits bounds what the guest that has a volume reads from it and writes to it in a second. Zero is no limit. What bounds both kinds
// together excludes what bounds one of them.
type IOLimits struct {
	// IOPS are requests, of both kinds or of one.
	IOPS      int64 `json:"iops,omitempty"`
	ReadIOPS  int64 `json:"read_iops,omitempty"`
	WriteIOPS int64 `json:"write_iops,omitempty"`
	// Bandwidth is data, of both directions or of one.
	Bandwidth      Bytes `json:"bandwidth,omitempty"`
	ReadBandwidth  Bytes `json:"read_bandwidth,omitempty"`
	WriteBandwidth Bytes `json:"write_bandwidth,omitempty"`
}

// VolumeLimits changes IOLimits. A nil field leaves a limit, and zero lifts it.
type VolumeLimits struct {
	IOPS           *int64 `json:"iops,omitempty"`
	ReadIOPS       *int64 `json:"read_iops,omitempty"`
	WriteIOPS      *int64 `json:"write_iops,omitempty"`
	Bandwidth      *Bytes `json:"bandwidth,omitempty"`
	ReadBandwidth  *Bytes `json:"read_bandwidth,omitempty"`
	WriteBandwidth *Bytes `json:"write_bandwidth,omitempty"`
}

// Below the least limits a guest takes its disk for broken; above the most, the hypervisor does not count.
const (
	minIOPS, maxIOPS                   = 10, 1_000_000_000
	minDiskBandwidth, maxDiskBandwidth = 64 * KiB, TiB
)

// Check returns ErrInvalid for a limit out of range, and for limits that exclude each other.
func (l IOLimits) Check() error {
	for _, f := range []struct {
		name              string
		both, read, write int64
		least, most       int64
		text              func(int64) string
	}{
		{"iops", l.IOPS, l.ReadIOPS, l.WriteIOPS, minIOPS, maxIOPS, func(n int64) string { return strconv.FormatInt(n, 10) }},
		{"bandwidth", int64(l.Bandwidth), int64(l.ReadBandwidth), int64(l.WriteBandwidth), int64(minDiskBandwidth), int64(maxDiskBandwidth),
			func(n int64) string { return Bytes(n).String() }},
	} {
		for _, one := range []struct {
			prefix string
			value  int64
		}{{"", f.both}, {"read_", f.read}, {"write_", f.write}} {
			if one.value != 0 && (one.value < f.least || one.value > f.most) {
				return Errorf(ErrInvalid, "%s%s is %s: expected %s to %s, or 0 for no limit", one.prefix, f.name, f.text(one.value),
					f.text(f.least), f.text(f.most))
			}
		}
		if f.both != 0 && (f.read != 0 || f.write != 0) {
			return Errorf(ErrInvalid, "%s bounds reads and writes together, so read_%s and write_%s cannot be set as well: set either to 0",
				f.name, f.name, f.name)
		}
	}
	return nil
}

// String returns the limits for people, such as "500 iops, 10MiB/s read"; empty if there are none.
func (l IOLimits) String() string {
	var all []string
	for _, one := range []struct {
		n    int64
		what string
	}{{l.IOPS, "iops"}, {l.ReadIOPS, "iops read"}, {l.WriteIOPS, "iops written"}} {
		if one.n != 0 {
			all = append(all, strconv.FormatInt(one.n, 10)+" "+one.what)
		}
	}
	for _, one := range []struct {
		n    Bytes
		what string
	}{{l.Bandwidth, ""}, {l.ReadBandwidth, " read"}, {l.WriteBandwidth, " written"}} {
		if one.n != 0 {
			all = append(all, one.n.String()+"/s"+one.what)
		}
	}
	return strings.Join(all, ", ")
}

// Of returns the limits as the change leaves them. It returns ErrInvalid for limits that cannot be, and if nothing would change.
func (c VolumeLimits) Of(l IOLimits) (IOLimits, error) {
	was := l
	for _, one := range []struct{ to, from *int64 }{{&l.IOPS, c.IOPS}, {&l.ReadIOPS, c.ReadIOPS}, {&l.WriteIOPS, c.WriteIOPS}} {
		if one.from != nil {
			*one.to = *one.from
		}
	}
	for _, one := range []struct{ to, from *Bytes }{
		{&l.Bandwidth, c.Bandwidth}, {&l.ReadBandwidth, c.ReadBandwidth}, {&l.WriteBandwidth, c.WriteBandwidth},
	} {
		if one.from != nil {
			*one.to = *one.from
		}
	}
	if l == was {
		return was, Errorf(ErrInvalid, "nothing would change: expected another limit, such as iops or bandwidth")
	}
	return l, l.Check()
}

// Whole returns the change that sets all limits to these.
func (l IOLimits) Whole() VolumeLimits {
	return VolumeLimits{&l.IOPS, &l.ReadIOPS, &l.WriteIOPS, &l.Bandwidth, &l.ReadBandwidth, &l.WriteBandwidth}
}

// MaxNotes is how long the notes of an instance are at most, in bytes.
const MaxNotes = 4096

// CheckNotes returns ErrInvalid unless text is at most MaxNotes bytes of UTF-8 without control characters but tabs and line ends.
func CheckNotes(text string) error {
	bad := func(r rune) bool { return r != '\n' && r != '\t' && isControl(r) }
	if len(text) > MaxNotes || !utf8.ValidString(text) || strings.ContainsFunc(text, bad) {
		return Errorf(ErrInvalid, "notes are not usable: expected at most %d bytes of text, without control characters", MaxNotes)
	}
	return nil
}
