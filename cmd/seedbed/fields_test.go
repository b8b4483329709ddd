package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

// requests are the types that the tool sends, and which of their fields are set other than by one
// flag of a table, and how.
var requests = []struct {
	of   any
	also map[string]string
}{
	{wire.HookRequest{}, map[string]string{"name": argument}},
	{wire.HookChange{}, map[string]string{"insecure": "only matters with the scheme, which cannot change"}},
	{wire.HookKey{}, map[string]string{"secret": embedded, "key_id": embedded, "not_before": embedded, "not_after": embedded}},
	{wire.HookRotation{}, nil},
	{wire.HookTest{}, map[string]string{"headers": "hook test --file", "query": "hook test --file", "body": "hook test --file"}},
	{wire.EndpointRequest{}, map[string]string{"name": argument, "url": argument}},
	{seedbed.EndpointChange{}, map[string]string{"url": argument}},
	{wire.EndpointRotation{}, nil},
	{wire.ReplayRequest{}, nil},
	{wire.ImageRequest{}, map[string]string{"name": argument, "path": argument}},
	{wire.VolumeUpload{}, map[string]string{"name": argument}},
	{wire.InstanceRequest{}, map[string]string{
		"name": argument, "profile": asRequest, "image": asRequest, "params": "create --param", "hold": asRequest, "protected": asRequest,
		"node": asRequest, "network": asRequest, "nics": asRequest, "security_groups": asRequest, "ready": "create --ready",

		"expires": asRequest, "at_expiry": asRequest, "arguments": "provisioner create --script-arg",
		"disks_only": "provisioner create --no-define",
	}},
	{wire.NewInstance{}, map[string]string{
		"hold": asRequest, "protected": asRequest, "node": asRequest, "network": asRequest, "nics": asRequest,
		"security_groups": asRequest, "ready": "create --ready", "expires": asRequest, "at_expiry": asRequest,
	}},
	{wire.PlanRequest{}, map[string]string{
		"action": "create and vm rebuild --dry-run", "name": argument, "profile": asRequest, "image": asRequest,
		"params": "create --param", "hold": asRequest, "protected": asRequest, "node": asRequest, "network": asRequest, "nics": asRequest,
		"security_groups": asRequest, "ready": "create --ready", "expires": asRequest, "at_expiry": asRequest,
	}},
	{seedbed.Request{}, map[string]string{
		"action": "the command", "name": argument, "params": "create --param",
		"on_failure": "seedbed.JobOptions", "priority": "seedbed.JobOptions", "after": "seedbed.JobOptions",
	}},
	{seedbed.JobOptions{}, nil},
	{wire.PowerRequest{}, power},
	{wire.RebuildRequest{}, map[string]string{"force": powerFlag, "soft": powerFlag, "grace": powerFlag, "params": "vm rebuild --param"}},
	{wire.RestoreRequest{}, map[string]string{
		"force": powerFlag, "soft": powerFlag, "grace": powerFlag, "dry_run": "vm snapshot restore --dry-run",
	}},
	{wire.MigrateRequest{}, map[string]string{
		"force": powerFlag, "soft": powerFlag, "grace": powerFlag, "node": "vm move --node", "method": "vm move --cold and vm migrate",
		"back": "vm unmigrate", "stay": "vm migrate --stay", "dry_run": "vm move --dry-run",
	}},
	{wire.ResizeRequest{}, map[string]string{
		"disk": asResize, "size": asResize, "vcpus": asResize, "memory": asResize, "dry_run": "vm resize --dry-run",
	}},
	{seedbed.ResizeRequest{}, nil},
	{wire.CloneRequest{}, map[string]string{
		"name": argument, "snapshot": asClone, "networks": asClone, "generalise": asClone, "freeze": asClone, "off": asClone, "node": asClone,
		"dry_run": "vm clone --dry-run",
	}},
	{seedbed.CloneRequest{}, map[string]string{"name": argument}},
	{wire.RenameRequest{}, map[string]string{"name": argument, "dry_run": "vm rename --dry-run"}},
	{seedbed.AdoptRequest{}, nil},
	{wire.InstanceChange{}, map[string]string{
		"metadata": "seedbed.MetadataOptions", "tags": "vm tag", "spot": "vm spot",
		"expires": "vm expire", "extend": "vm extend", "at_expiry": "vm expire", "notes": "vm notes", "protected": "vm protect",
		"security_groups": "vm security-groups", "nic": "vm security-groups --nic and network forward --nic",
		"floating": "address associate and disassociate", "floating6": "address associate and disassociate",
		"forward": "network forward add", "unforward": "network forward remove",
		"bandwidth_in": "vm bandwidth --in", "bandwidth_out": "vm bandwidth --out",
		"assign": "address assign", "assign_count": "address assign --count",
		"assign_count6": "address assign --count6", "unassign": "address unassign", "take": "address assign --take",
		"userdata": "no command changes it after the creation", "hardware": "seedbed.HardwareChange",
	}},
	{seedbed.HardwareChange{}, map[string]string{"cdrom": "vm cdrom insert and eject", "force": "vm cdrom insert --force"}},
	{wire.HardwareChange{}, map[string]string{"cdrom": asHardware, "boot_from": asHardware, "serial": asHardware, "vnc": asHardware,
		"vnc_bind": asHardware, "autostart": asHardware, "restart": asHardware,
		"restart_priority": asHardware, "placement_group": asHardware, "force": asHardware, "dry_run": "vm set --dry-run"}},
	{seedbed.MetadataOptions{}, map[string]string{"instance_id": "seedbed.Profile and create --instance-id",
		"metadata_by": "seedbed.Profile and create --metadata"}},
	{seedbed.VolumeRequest{}, map[string]string{"name": argument}},
	{wire.VolumeChange{}, map[string]string{"name": argument}},
	{seedbed.VolumeResize{}, map[string]string{"size": argument}},
	{seedbed.VolumeDownload{}, nil},
	{seedbed.Attachment{}, map[string]string{"instance": argument}},
	{wire.ConsoleRequest{}, map[string]string{
		"read_only": "vm console --read-only", "take": "vm console --take", "tail": "vm console --tail",
	}},
	{seedbed.GuestCommand{}, map[string]string{"path": argument, "arguments": argument, "data": "vm exec --stdin"}},
	{wire.FileRequest{}, map[string]string{"path": argument, "write": "the place of the argument of vm cp"}},
	{wire.NICRequest{}, map[string]string{
		"network": nicText, "addr": nicText, "secondary": nicText, "secondary_count": nicText, "secondary_count6": nicText, "mac": nicText,
		"security_groups": nicText, "bandwidth_in": nicText, "bandwidth_out": nicText, "dry_run": "vm nic add --dry-run",
	}},
	{wire.NICChange{}, map[string]string{"network": nicText, "addr": nicText, "dry_run": "vm nic set --dry-run"}},
	{wire.SnapshotRequest{}, map[string]string{"name": argument}},
	{wire.CleanupRequest{}, map[string]string{"dry_run": "cleanup --dry-run", "force": "cleanup --force"}},
	{wire.NodeRequest{}, map[string]string{"name": argument}},
	{wire.NodeChange{}, map[string]string{"cordoned": "node cordon", "fencing": "wire.FenceAgent"}},
	{wire.FenceAgent{}, nil},
	{wire.FenceRequest{}, map[string]string{"confirmed": "node fence confirm"}},
	{wire.MaintenanceRequest{}, nil},
	{wire.NetworkChange{}, map[string]string{"reserve": "network reserve", "unreserve": "network unreserve",
		"peer": "network peer", "unpeer": "network unpeer"}},
	{wire.AddressRequest{}, map[string]string{"network": argument}},
	{wire.PlacementGroupRequest{}, map[string]string{"name": argument, "policy": argument}},
	{wire.SecurityGroupRequest{}, map[string]string{"name": argument, "rules": argument}},
	{wire.SecurityGroupChange{}, map[string]string{
		"description": "seedbed.SecurityGroup", "rules": "security-group allow and revoke", "allow": "security-group allow",
		"revoke": "security-group revoke",
	}},
	{wire.NetworkRequest{}, map[string]string{"name": argument, "reservations": "network reserve"}},
	{wire.ProjectRequest{}, map[string]string{"name": argument}},
	{wire.ProjectChange{}, nil},
	{seedbed.ProjectQuota{}, nil},
	{wire.TokenRequest{}, map[string]string{"name": argument}},
	{wire.TokenChange{}, nil},
	{wire.RoleRequest{}, map[string]string{"name": argument}},
	{wire.RoleDefinition{}, nil},
	{seedbed.BackupTargetRequest{}, map[string]string{"name": argument}},
	{seedbed.BackupTargetChange{}, nil},
	{wire.BackupRequest{}, map[string]string{"dry_run": "backup create --dry-run"}},
	{wire.BackupRestoreRequest{}, map[string]string{
		"name": asBackup, "networks": asBackup, "pools": asBackup, "keep_macs": asBackup, "off": asBackup, "node": asBackup,
		"dry_run": "backup restore --dry-run",
	}},
	{seedbed.BackupRestoreRequest{}, nil},
	{wire.BackupScheduleRequest{}, map[string]string{"name": argument}},
	{wire.SnapshotScheduleRequest{}, map[string]string{"name": argument}},
	{wire.SessionRequest{}, map[string]string{"code": "what the browser brings to login", "verifier": "drawn by login"}},
	{seedbed.TokenQuota{}, nil},
	{wire.DiscardRequest{}, map[string]string{"pool": argument, "name": argument}},
	{seedbed.CatalogueSystem{}, map[string]string{"name": argument}},
	{wire.NetworkTemplateRequest{}, map[string]string{"name": argument}},
	{wire.TemplateNetworkRequest{}, map[string]string{"vni": argument}},
	{seedbed.CatalogueDisk{}, map[string]string{"name": argument}},
	{wire.StorageTemplateRequest{}, map[string]string{"name": argument}},
	{wire.UserDataRequest{}, map[string]string{"name": argument, "data": argument}},
	{wire.ScriptRequest{}, map[string]string{"name": argument, "text": argument}},
	{wire.ScriptOptionsChange{}, nil},
	{seedbed.Profile{}, map[string]string{
		"name": argument, "expressions": "the flags whose text may be an expression",
		"id": server, "revision": server, "created": server, "changed": server,
		"published": "project share",
	}},
}

const (
	argument   = "an argument of the command"
	embedded   = "the types that embed it"
	asRequest  = "seedbed.Request"
	nicText    = "the argument of vm nic add and vm nic set"
	asResize   = "seedbed.ResizeRequest"
	asHardware = "seedbed.HardwareChange"
	asBackup   = "seedbed.BackupRestoreRequest"
	asClone    = "seedbed.CloneRequest"
	powerFlag  = "vm stop --force, --soft and --grace"
	server     = "set by the server"
)

var power = map[string]string{"force": powerFlag, "soft": powerFlag, "grace": powerFlag}

// answers are the types of package wire that the tool only receives.
var answers = []string{
	"NewEndpoint", "EndpointTest", "Replayed", "NewHook", "Snapshot", "JobStatus", "EventPage", "OutputPage", "Health", "Overview",
	"NewToken", "Role", "Whoami", "ProjectStatus", "TrashItem", "Stored", "SystemTemplate", "NetworkTemplate", "StorageTemplate",
	"UserData", "Script", "ScriptOptions", "OVA", "StoredVolume", "SignIn", "Session", "NewSession", "Ticket", "Usage",
	"NodeUsage", "InstanceUsage", "FenceStatus", "BackupTarget", "BackupTargetCheck", "Backup", "BackupDetails", "BackupNIC",
	"BackupDiskInTarget",
}

// TestEveryFieldHasAFlag checks that each field of each request can be set on the command line.
func TestEveryFieldHasAFlag(t *testing.T) {
	t.Parallel()
	reached := map[string]bool{}
	a := &cli.App{Getenv: func(string) string { return "" }, Commands: commands}
	for _, c := range cli.CommandsOf(a.Root()) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if field := f.Annotations[cli.FieldKey]; field != nil {
				reached[strings.Join(field, " ")] = true
			}
		})
	}
	for _, r := range requests {
		typ := reflect.TypeOf(r.of)
		names := fields(typ, "")
		for _, name := range names {
			flag, other := reached[typ.String()+" "+name], r.also[name] != ""
			if !flag && !other {
				t.Errorf("no flag sets %s of %s: add it to the table of the command's flags, or say here how it is set", name, typ)
			}
			if flag && other {
				t.Errorf("%s of %s has a flag: it need not be listed here", name, typ)
			}
		}
		for name := range r.also {
			if !slices.Contains(names, name) {
				t.Errorf("%s has no field %s: remove it from this list", typ, name)
			}
		}
	}
}

// fields returns the JSON names of a struct's fields, those of a struct in it after its name.
func fields(t reflect.Type, prefix string) (all []string) {
	for _, f := range reflect.VisibleFields(t) {
		name := cli.JSONName(f)
		switch {
		case name == "":
		case f.Type == reflect.TypeFor[seedbed.TokenQuota]() || f.Type == reflect.TypeFor[seedbed.ProjectQuota]() ||
			f.Type == reflect.TypeFor[seedbed.MetadataOptions]():
			all = append(all, fields(f.Type, prefix+name+".")...)
		default:
			all = append(all, prefix+name)
		}
	}
	return all
}

// TestEveryRequestIsListed checks that requests and answers have all structs of package wire.
func TestEveryRequestIsListed(t *testing.T) {
	t.Parallel()
	listed := slices.Clone(answers)
	for _, r := range requests {
		listed = append(listed, reflect.TypeOf(r.of).Name())
	}
	files, err := filepath.Glob("../../api/wire/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if _, ok := s.Type.(*ast.StructType); ok && s.Name.IsExported() {
				found++
				if !slices.Contains(listed, s.Name.Name) {
					t.Errorf("wire.%s is neither among the requests nor among the answers of this test", s.Name.Name)
				}
			}
			return true
		})
	}
	if found < len(answers) {
		t.Errorf("only %d types were found", found)
	}
}
