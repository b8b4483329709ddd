package pvc

import (
	"strings"
	"testing"
)

// TestAbsentPaths checks what is said of each part of PVC's API that Seedbed does not have, by the
// requests that the commands of PVC's client make.
func TestAbsentPaths(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]string{
		"POST /vm": "seedbed vm adopt", "POST /vm/web1": "seedbed vm resize",
		"POST /vm/web1/locks":           "pvc vm start",
		"POST /vm/web1/snapshot/export": "not exported", "POST /vm/web1/snapshot/send": "seedbed vm snapshot",
		"POST /vm/web1/backup": "seedbed vm snapshot",
		"POST /vm/autobackup":  "seedbed backup schedule",
		"POST /vm/automirror":  "other clusters", "POST /vm/web1/mirror/create": "other clusters",
		"POST /node/hv1/domain-state": "seedbed node drain", "POST /node/hv1/coordinator-state": "coordinator",
		"GET /node/hv1/log":        "journalctl",
		"GET /storage/ceph/status": "the command ceph", "GET /storage/ceph/utilization": "the command ceph",
		"GET /storage/ceph/osd": "the command ceph", "POST /storage/ceph/benchmark": "the command ceph", "GET /storage/ceph": "the command ceph",
		"GET /storage/ceph/pool": "seedbed pool list", "POST /storage/ceph/pool/vms": "seedbed pool list",
		"POST /storage/ceph/volume": "seedbed volume add", "DELETE /storage/ceph/volume/vms/v": "seedbed volume",
		"POST /storage/ceph/volume/vms/v/clone": "seedbed volume add", "POST /storage/ceph/volume/vms/v/upload": "seedbed image upload",
		"GET /storage/ceph/snapshot": "seedbed vm snapshot", "PUT /storage/ceph/snapshot/vms/v/s": "seedbed vm snapshot",
		"PUT /provisioner/template/userdata/x": "/api/v1/provisioner/userdata",
		"GET /provisioner/template/lan":        "/api/v1/provisioner/template/system",
		"GET /sriov/pf":                        "--mode sriov", "GET /sriov/vf/hv1": "--kind direct",
		"GET /faults": "seedbed doctor", "PUT /faults/1": "seedbed doctor",
		"GET /backup": "catalogue export", "POST /restore": "catalogue import", "POST /initialize": "first starts", "GET /metrics": "/metrics",
	} {
		method, path, _ := strings.Cut(request, " ")
		got := absentAt(method, "/api/v1"+path)
		if !strings.Contains(got, want) || !strings.HasSuffix(got, ".") {
			t.Errorf("%s: %q; want a sentence with %q", request, got, want)
		}
	}
	for _, request := range []string{"GET /vm", "GET /vm/web1", "GET /vms", "GET /nothing", "POST /vm/web1/state", "GET /",
		"DELETE /vm/web1/meta"} {
		method, path, _ := strings.Cut(request, " ")
		if got := absentAt(method, "/api/v1"+path); got != "" {
			t.Errorf("%s: %q; want nothing", request, got)
		}
	}
}
