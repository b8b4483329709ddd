package pvc

import (
	"slices"
	"strings"

	"seedbed/api/server"
)

// absent is a part of PVC's API that Seedbed does not have.
type absent struct {
	// methods are those that are absent, separated by spaces; empty for all.
	methods string
	// path is below the prefix. "*" is one segment, and "**" any number of them, at the end.
	path string
	// says is a sentence with what to do instead. PVC's client prints it.
	says string
}

const (
	ofCeph = "Seedbed uses Ceph, and does not manage it: use the command ceph on a host of the cluster. " +
		"\"seedbed pool list\" shows the pools that Seedbed uses, with their room."
	ofVolumes = "Volumes that are not those of a VM are made with \"seedbed volume add\", and attached, renamed and removed by the other " +
		"commands of \"seedbed volume\". Disk images are added with \"seedbed image upload\"."
	ofSnapshots = "Use \"seedbed vm snapshot create|list|restore|remove\", which take snapshots of all disks of a VM, and " +
		"bring them back to one."
	ofFaults = "Seedbed has no list of faults: \"pvc cluster status\" shows the problems that exist now, and \"seedbed doctor\" what to do."
)

// absences are the parts of PVC's API that Seedbed does not have. The first that matches counts.
var absences = []absent{
	{"POST", "/vm/autobackup", "VMs are backed up by schedules of Seedbed: \"seedbed backup schedule add --tag TAG\" adds one, " +
		"and \"seedbed backup schedule run\" runs it now."},
	{"POST", "/vm/automirror", "VMs are not mirrored to other clusters: make a VM with \"seedbed create\" on each."},
	{"POST", "/vm", "A VM is not defined by its XML: make one with \"pvc provisioner create\" or \"seedbed create\", " +
		"or take over a libvirt domain with \"seedbed vm adopt\"."},
	{"POST", "/vm/*", notByXML},
	{"POST", "/vm/*/locks", "Locks of volumes are not flushed here: start the VM with \"pvc vm start\". " +
		"If that fails, \"seedbed job list\" says why."},
	{"", "/vm/*/snapshot/**", "Snapshots are not exported, imported or sent to other clusters: " + ofSnapshots},
	{"", "/vm/*/backup/**", "VMs are not exported: " + ofSnapshots},
	{"", "/vm/*/restore/**", "VMs are not restored from exports: " + ofSnapshots},
	{"", "/vm/*/mirror/**", "VMs are not mirrored to other clusters: make a VM with \"seedbed create\" on each."},
	{"POST", "/node/*/domain-state", "Use \"seedbed node drain\", which takes the VMs of a node to others and keeps new ones away, " +
		"and \"seedbed node uncordon\", which lets them come again."},
	{"POST", "/node/*/coordinator-state", "Nodes have no coordinator state that could be set: every seedbedd answers."},
	{"", "/node/*/log", "Logs are in the journal of each host: \"journalctl -u seedbed-worker -u seedbed-metadata\" there."},
	{"POST DELETE", "/storage/ceph/volume/*/*/clone/**", ofVolumes},
	{"", "/storage/ceph/volume/*/*/upload/**",
		"Upload a disk image with \"seedbed image upload\": profiles and storage templates can clone it."},
	{"", "/storage/ceph/volume/**", ofVolumes},
	{"", "/storage/ceph/snapshot/**", ofSnapshots},
	{"", "/storage/ceph/pool/**", "Pools are part of the configuration (storage.pools in seedbed.yaml): \"seedbed pool list\" shows them."},
	{"", "/storage/**", ofCeph},
	{"", "/provisioner/template/userdata/**", "Userdata documents are at /api/v1/provisioner/userdata, without template before it."},
	{"GET", "/provisioner/template/*", "A template is at /api/v1/provisioner/template/system, network or storage, with its name after it."},
	{"", "/sriov/**", "PVC's API of SR-IOV is not here: \"seedbed network add NAME --kind direct --mode sriov --uplink INTERFACE\" makes " +
		"a network whose VMs have virtual functions of that interface."},
	{"", "/faults/**", ofFaults},
	{"", "/backup/**", "The database is not dumped here: back up the files of the control host as the page \"Operations\" says, " +
		"and copy profiles, templates and scripts with \"seedbed catalogue export\"."},
	{"", "/restore/**", "The database is not restored here: stop seedbedd and put back its database. " +
		"\"seedbed catalogue import\" reads exported profiles, templates and scripts."},
	{"", "/initialize/**", "There is nothing to initialise: seedbedd makes its database when it first starts."},
	{"", "/metrics/**", "The metrics of Seedbed are at /metrics, without /api/v1 before it."},
}

// absentAt returns the sentence for a request that Seedbed does not have, or empty if it is not one of
// PVC's.
func absentAt(method, path string) string {
	asked := segments(strings.TrimPrefix(path, server.Prefix))
	for _, a := range absences {
		if (a.methods == "" || slices.Contains(strings.Fields(a.methods), method)) && a.matches(asked) {
			return a.says
		}
	}
	return ""
}

func (a absent) matches(asked []string) bool {
	pattern := segments(a.path)
	last := len(pattern) - 1
	if open := pattern[last] == "**"; open && len(asked) >= last {
		pattern, asked = pattern[:last], asked[:last]
	}
	return slices.EqualFunc(pattern, asked, func(p, s string) bool { return p == "*" || p == s })
}

// segments returns the segments of a path below the prefix.
func segments(path string) []string { return strings.Split(strings.Trim(path, "/"), "/") }
