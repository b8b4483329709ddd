package seedbed

import (
	"encoding/json"
	"time"
)

// ScriptLimits bound what a provisioning script may use; zero leaves each to
// the worker's configuration, which is also the most that a script gets.
type ScriptLimits struct {
	// Time is that of all five steps together.
	Time   time.Duration `json:"time,omitempty"`
	Memory Bytes         `json:"memory,omitempty"`
}

// ScriptOptions are what a provisioning script is let out of its sandbox for, and bounded by.
type ScriptOptions struct {
	// Privileged gives it the host's /dev, /sys and /run as root, as PVC does: such a script can do anything to the host.
	Privileged bool `json:"privileged,omitempty"`
	// Network gives it the host's network.
	Network bool `json:"network,omitempty"`
	// Always has it run where it would be skipped: for machines of which no disk has a mountpoint or a filesystem.
	Always bool `json:"always,omitempty"`
	ScriptLimits
}

// The bounds of a script's own limits.
const (
	maxScriptTime   = 24 * time.Hour
	minScriptMemory = 64 * MiB
	maxScriptMemory = TiB
)

// Check refuses, with ErrInvalid, limits that no script can have.
func (o ScriptOptions) Check() error {
	if o.Time < 0 || o.Time > maxScriptTime || o.Time%time.Second != 0 {
		return Errorf(ErrInvalid, "time is %s: want whole seconds up to %s, or 0 for the worker's limit", o.Time, maxScriptTime)
	}
	if o.Memory != 0 && (o.Memory < minScriptMemory || o.Memory > maxScriptMemory) {
		return Errorf(ErrInvalid, "memory is %s: want %s to %s, or 0 for the worker's limit", o.Memory, minScriptMemory, maxScriptMemory)
	}
	return nil
}

// ScriptStart is what a session of a script begins with.
type ScriptStart struct {
	Instance InstanceID `json:"instance"`
	Name     string     `json:"name"`
	Profile  string     `json:"profile"`
	// Number is that at the end of the name, as an integer: PVC's vm_id.
	Number json.Number `json:"number"`
	Text   string      `json:"text"`
	// Data is PVC's vm_data.
	Data    json.RawMessage `json:"data"`
	Options ScriptOptions   `json:"options"`
	// Suffix is what the names of its volumes have behind them in their pools, and
	// the script does not see: the disks that a rebuild makes stand beside the former ones.
	Suffix string `json:"suffix,omitempty"`
}

// ScriptTurn has a script go on: one of its fields is set.
type ScriptTurn struct {
	// Start begins a session, which ends one that the job has.
	Start *ScriptStart `json:"start,omitempty"`
	// Step runs a step of the script: setup, create, prepare, install or cleanup.
	Step string `json:"step,omitempty"`
	// Answer answers the call that the turn before ended with.
	Answer *ScriptAnswer `json:"answer,omitempty"`
}

// ScriptAnswer is what came of a call.
type ScriptAnswer struct {
	ID      int64  `json:"id"`
	OK      bool   `json:"ok"`
	Message string `json:"message"`
}

// ScriptCall is what a script asks for.
type ScriptCall struct {
	ID int64 `json:"id"`
	// Name is add_volume or clone_volume, or map_volume for what is no volume of
	// the pool: then the answer's message is the volume to show in its place.
	Name string `json:"name"`
	Pool string `json:"pool"`
	// Volume is the new volume's name or, to be mapped, the image's; Size that of an
	// added one as the script gave it, Source what a clone is made of.
	Volume string `json:"volume"`
	Size   string `json:"size,omitempty"`
	Source string `json:"source,omitempty"`
}

// ScriptFailure is how a script failed.
type ScriptFailure struct {
	// Step is where; "load" before the first.
	Step string `json:"step"`
	// Class and Message are the exception's; Traceback is Python's.
	Class     string `json:"class"`
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
	// Ended is set when its process has ended, so that it takes no further turn.
	Ended bool `json:"ended,omitempty"`
}

// ScriptResult is how a turn ended: with a call, with a failure, or with what was asked for.
type ScriptResult struct {
	// Kind is "class" or "function", once a session has begun.
	Kind string `json:"kind,omitempty"`
	// XML is what create returned.
	XML     string         `json:"xml,omitempty"`
	Call    *ScriptCall    `json:"call,omitempty"`
	Failure *ScriptFailure `json:"failure,omitempty"`
}

// ScriptHost is what a host has for scripts.
type ScriptHost struct {
	// Arch is what uname -m says.
	Arch  string     `json:"arch"`
	Pools []PoolInfo `json:"pools"`
	// Missing are the programs, of those that were asked for, that are not there.
	Missing []string `json:"missing"`
	// Monitors are the hosts of Ceph's monitors, MonitorPort the port of the first,
	// and Secret the UUID of libvirt's secret with the key; empty without a Ceph pool.
	Monitors    []string `json:"monitors"`
	MonitorPort string   `json:"monitor_port"`
	Secret      string   `json:"secret"`
}

// DomainScript is a domain's document as a script made it.
type DomainScript struct {
	XML string `json:"xml"`
	// Volumes are the names by which the document knows the spec's disks, as pool/name.
	Volumes []string `json:"volumes"`
	// Early is set while there are no volumes yet: Volumes are the pools, and any
	// volume in them is let through whose name begins with the domain's and '_'.
	Early bool `json:"early,omitempty"`
}

// ScriptRun is what a create or rebuild job carries its script out by: all of it
// as it was when the job was accepted.
type ScriptRun struct {
	Script  Script          `json:"script"`
	System  SystemTemplate  `json:"system"`
	Network NetworkTemplate `json:"network"`
	Storage StorageTemplate `json:"storage"`
	// OVA is the OVA image of a profile of that type, whose disks are among the storage template's; else nil.
	OVA *OVA `json:"ova,omitempty"`
	// Bridges are those of the networks, in their order.
	Bridges []string `json:"bridges"`
	// Arguments are the script's: the profile's and over them the request's.
	Arguments map[string]string `json:"arguments"`
	// Secrets are the values of the profile's params of that type, which the job does not show.
	Secrets []string `json:"secrets,omitempty"`
	// XML is what the script of a rebuild has made for the domain, as long as the
	// instance is what it was, and Former what there was before.
	XML    string `json:"xml,omitempty"`
	Former string `json:"former,omitempty"`
}
