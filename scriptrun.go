package seedbed

import (
	"encoding/json"
	"strings"
	"time"
)

// ScriptLimits bound what a provisioning script may use. Zero means the bound in the worker's
// configuration, which is also the maximum.
type ScriptLimits struct {
	// Time is the total time of all five steps.
	Time   time.Duration `json:"time,omitempty"`
	Memory Bytes         `json:"memory,omitempty"`
}

// ScriptOptions say what a provisioning script may do beyond its sandbox, and what bounds it.
type ScriptOptions struct {
	// Privileged gives it the host's /dev, /sys and /run as root, as PVC does: such a script can do
	// anything to the host.
	Privileged bool `json:"privileged,omitempty"`
	// Network gives it the host's network.
	Network bool `json:"network,omitempty"`
	// Always runs it also for profiles of an OVA that have it as the default script (OVAScripts),
	// whose disks are clones otherwise.
	Always bool `json:"always,omitempty"`
	// IfNeeded skips it for instances without a disk that has a mountpoint or a filesystem, as PVC's
	// manual says.
	IfNeeded bool `json:"if_needed,omitempty"`
	ScriptLimits
}

// The bounds of a script's own limits.
const (
	maxScriptTime   = 24 * time.Hour
	minScriptMemory = 64 * MiB
	maxScriptMemory = TiB
)

// Check returns ErrInvalid for a limit out of range, and for options that exclude each other.
func (o ScriptOptions) Check() error {
	if o.Always && o.IfNeeded {
		return Errorf(ErrInvalid, "always and if_needed exclude each other: expected one of them, and false for the other")
	}
	if o.Time < 0 || o.Time > maxScriptTime || o.Time%time.Second != 0 {
		return Errorf(ErrInvalid, "time is %s: expected whole seconds up to %s, or 0 for the worker's limit", o.Time, maxScriptTime)
	}
	if o.Memory != 0 && (o.Memory < minScriptMemory || o.Memory > maxScriptMemory) {
		return Errorf(ErrInvalid, "memory is %s: expected %s to %s, or 0 for the worker's limit", o.Memory, minScriptMemory, maxScriptMemory)
	}
	return nil
}

// ScriptStart starts a session of a script.
type ScriptStart struct {
	Instance InstanceID `json:"instance"`
	Name     string     `json:"name"`
	Profile  string     `json:"profile"`
	// Number is the number at the end of the instance's name: PVC's vm_id.
	Number json.Number `json:"number"`
	Text   string      `json:"text"`
	// Data is PVC's vm_data.
	Data    json.RawMessage `json:"data"`
	Options ScriptOptions   `json:"options"`
	// Suffix is appended to the names of the volumes in their pools; the script does not see it. It
	// lets a rebuild make disks while the former ones exist.
	Suffix string `json:"suffix,omitempty"`
}

// ScriptTurn makes a script continue. One of its fields is set.
type ScriptTurn struct {
	// Start begins a session and ends an earlier one of the same job.
	Start *ScriptStart `json:"start,omitempty"`
	// Step runs a step of the script: setup, create, prepare, install or cleanup.
	Step string `json:"step,omitempty"`
	// Answer answers the call that ended the turn before.
	Answer *ScriptAnswer `json:"answer,omitempty"`
}

// ScriptAnswer is the outcome of a call.
type ScriptAnswer struct {
	ID      int64  `json:"id"`
	OK      bool   `json:"ok"`
	Message string `json:"message"`
}

// ScriptCall is what a script asks for.
type ScriptCall struct {
	ID int64 `json:"id"`
	// Name is add_volume, clone_volume or map_volume. A script maps an image with map_volume; the
	// message of the answer is then the volume to show instead.
	Name string `json:"name"`
	Pool string `json:"pool"`
	// Volume is the name of the new volume or, for map_volume, of the image. Size is the size of an
	// added volume as the script gave it. Source is what a clone is made from.
	Volume string `json:"volume"`
	Size   string `json:"size,omitempty"`
	Source string `json:"source,omitempty"`
}

// ScriptFailure is how a script failed.
type ScriptFailure struct {
	// Step is the step that failed; "load" before the first.
	Step string `json:"step"`
	// Class and Message are those of the exception. Traceback is Python's.
	Class     string `json:"class"`
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
	// Offline is set if it had no network, and has tried to use one.
	Offline bool `json:"offline,omitempty"`
	// Ended is set if its process has ended, so that no further turn is possible.
	Ended bool `json:"ended,omitempty"`
}

// ScriptResult is how a turn ended: with a call, with a failure, or with the requested result.
type ScriptResult struct {
	// Kind is "class" or "function" once a session has begun.
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
	// Missing are the requested programs that the host does not have.
	Missing []string `json:"missing"`
	// Monitors are the hosts of Ceph's monitors, MonitorPort is the port of the first, and Secret
	// is the UUID of libvirt's secret with the key. They are empty without a Ceph pool.
	Monitors    []string `json:"monitors"`
	MonitorPort string   `json:"monitor_port"`
	Secret      string   `json:"secret"`
}

// DomainScript is a domain's document as a script made it.
type DomainScript struct {
	XML string `json:"xml"`
	// Volumes are the names that the document uses for the disks of the spec, as pool/name.
	Volumes []string `json:"volumes"`
	// Early is set while the volumes do not exist. Volumes are then the pools, and the document may
	// use any volume in them whose name begins with that of the domain and '_'.
	Early bool `json:"early,omitempty"`
}

// ScriptRun is what a create or rebuild job runs its script with, as of the acceptance of the job.
type ScriptRun struct {
	Script  Script          `json:"script"`
	System  SystemTemplate  `json:"system"`
	Network NetworkTemplate `json:"network"`
	Storage StorageTemplate `json:"storage"`
	// OVA is the OVA image of the profile, whose disks are among those of Storage; nil without one.
	OVA *OVA `json:"ova,omitempty"`
	// Bridges are the bridges of the networks, in their order.
	Bridges []string `json:"bridges"`
	// Arguments are the arguments of the script. Those of the request take precedence over those of
	// the profile.
	Arguments map[string]string `json:"arguments"`
	// Secrets are the values of the profile's parameters of type secret, which the job does not
	// show.
	Secrets []string `json:"secrets,omitempty"`
	// XML is the document that the script of a rebuild has made for the domain, until the instance
	// is replaced. Former is the document before.
	XML    string `json:"xml,omitempty"`
	Former string `json:"former,omitempty"`
}

// Skipped returns a sentence that says why a create or rebuild job has skipped the script of its
// profile; empty if it has not.
func (j *Job) Skipped() string {
	var spec struct {
		Skipped string `json:"skipped"`
	}
	if j.Kind != JobCreate && j.Kind != JobRebuild || len(j.Spec) == 0 || json.Unmarshal(j.Spec, &spec) != nil {
		return ""
	}
	return spec.Skipped
}

// ScriptStage reports whether a provisioning script runs in the stage of that name, so that its events
// and errors may quote what the script has written.
func ScriptStage(name string) bool {
	switch name {
	case "prepare-script", "setup", "create", "prepare", "install", "cleanup", "general-cleanup":
		return true
	}
	return false
}

// ScriptWithheld takes the place of what a script has written, for those who may not read it.
const ScriptWithheld = "a provisioning script wrote this: reading it needs the role operator"

// WithoutScript returns the error of a job, or a text with it, up to where the error of a ScriptStage
// begins, as in "stage install: …" and "left behind: setup: …". ScriptWithheld follows.
func WithoutScript(text string) string {
	for at := 0; ; {
		before, _, ok := strings.Cut(text[at:], ": ")
		if !ok {
			return text
		}
		at += len(before) + len(": ")
		if name := before[strings.LastIndexByte(before, ' ')+1:]; ScriptStage(name) {
			return text[:at] + ScriptWithheld
		}
	}
}
