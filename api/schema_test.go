package api_test

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/api/wire"
)

// requests and answers hold the types that the schemas of openapi.yaml describe.
var (
	requests = map[string]any{
		"AdoptRequest": seedbed.AdoptRequest{}, "CleanupRequest": wire.CleanupRequest{}, "ConsoleRequest": wire.ConsoleRequest{},
		"FileRequest": wire.FileRequest{}, "GuestCommand": seedbed.GuestCommand{},
		"DiscardRequest": wire.DiscardRequest{},
		"EndpointChange": seedbed.EndpointChange{}, "EndpointRequest": wire.EndpointRequest{},
		"HookChange": wire.HookChange{}, "HookRequest": wire.HookRequest{},
		"HookRotation": wire.HookRotation{}, "HookTrial": wire.HookTest{}, "ImageRequest": wire.ImageRequest{},
		"ImportPlanRequest": seedbed.ImportRequest{}, "InstanceChange": wire.InstanceChange{}, "HardwareChange": wire.HardwareChange{},
		"InstanceRequest":    wire.InstanceRequest{},
		"MaintenanceRequest": wire.MaintenanceRequest{}, "NetworkChange": wire.NetworkChange{},
		"NetworkRequest": wire.NetworkRequest{}, "SecurityGroupRequest": wire.SecurityGroupRequest{},
		"Rebalancing": seedbed.Rebalancing{}, "RebalanceMove": seedbed.RebalanceMove{}, "NodeLoad": seedbed.NodeLoad{},
		"PlacementGroup": seedbed.PlacementGroup{}, "PlacementGroupRequest": wire.PlacementGroupRequest{},
		"SecurityGroupChange": wire.SecurityGroupChange{}, "SecurityGroup": seedbed.SecurityGroup{}, "SecurityRule": seedbed.SecurityRule{},
		"NetworkACL": seedbed.NetworkACL{},
		"Trace":      seedbed.Trace{}, "Hop": seedbed.Hop{},
		"NetworkLease": seedbed.NetworkLease{}, "Forward": seedbed.Forward{}, "FloatingAddress": seedbed.FloatingAddress{},
		"AddressRequest": wire.AddressRequest{},
		"Reservation":    seedbed.Reservation{}, "ForwardTo": seedbed.ForwardTo{}, "NodeChange": wire.NodeChange{},
		"FenceAgent": wire.FenceAgent{}, "Fencing": seedbed.Fencing{}, "FenceRequest": wire.FenceRequest{}, "FenceStatus": wire.FenceStatus{},
		"NodeRequest": wire.NodeRequest{}, "PlanRequest": wire.PlanRequest{}, "PowerRequest": wire.PowerRequest{},
		"ProfileRequest": seedbed.Profile{},
		"RebuildRequest": wire.RebuildRequest{}, "RestoreRequest": wire.RestoreRequest{}, "MigrateRequest": wire.MigrateRequest{},
		"MigrationTarget": seedbed.MigrationTarget{}, "Usage": wire.Usage{}, "InstanceUsage": wire.InstanceUsage{},
		"Replay": wire.ReplayRequest{}, "ResizeRequest": wire.ResizeRequest{},
		"RenameRequest": wire.RenameRequest{}, "CloneRequest": wire.CloneRequest{},
		"Rotation":               wire.EndpointRotation{},
		"NetworkTemplateRequest": wire.NetworkTemplateRequest{}, "ScriptOptionsChange": wire.ScriptOptionsChange{},
		"ScriptRequest": wire.ScriptRequest{}, "StorageTemplateRequest": wire.StorageTemplateRequest{},
		"SystemTemplateRequest":  seedbed.CatalogueSystem{},
		"TemplateNetworkRequest": wire.TemplateNetworkRequest{}, "UserDataRequest": wire.UserDataRequest{},
		"Retention": seedbed.Retention{}, "BackupTargetRequest": seedbed.BackupTargetRequest{},
		"BackupTargetChange": seedbed.BackupTargetChange{}, "BackupRequest": wire.BackupRequest{},
		"BackupRestoreRequest": wire.BackupRestoreRequest{}, "BackupScheduleRequest": wire.BackupScheduleRequest{},
		"SnapshotScheduleRequest": wire.SnapshotScheduleRequest{},
		"SnapshotRequest":         wire.SnapshotRequest{}, "NICRequest": wire.NICRequest{}, "NICChange": wire.NICChange{},
		"VolumeRequest": seedbed.VolumeRequest{}, "VolumeChange": wire.VolumeChange{}, "Attachment": seedbed.Attachment{},
		"VolumeResize": seedbed.VolumeResize{}, "VolumeLimits": seedbed.VolumeLimits{}, "VolumeMove": seedbed.VolumeMove{},
		"VolumeDownload": seedbed.VolumeDownload{},
		"TokenRequest":   wire.TokenRequest{}, "TokenChange": wire.TokenChange{},
		"SessionRequest": wire.SessionRequest{},
		"RoleRequest":    wire.RoleRequest{}, "RoleDefinition": wire.RoleDefinition{},
		"Project": seedbed.Project{}, "ProjectRequest": wire.ProjectRequest{}, "ProjectChange": wire.ProjectChange{},
		"ProjectStatus": wire.ProjectStatus{}, "ProjectQuota": seedbed.ProjectQuota{}, "Use": seedbed.Use{},
	}
	answers = map[string]any{
		"AuditEntry":      seedbed.AuditEntry{},
		"CatalogueReport": seedbed.CatalogueReport{}, "Check": seedbed.Check{}, "CleanupReport": seedbed.CleanupReport{},
		"CleanupTask": seedbed.CleanupItem{}, "Delivery": seedbed.Delivery{}, "Rejection": seedbed.Rejection{},
		"Endpoint": seedbed.Endpoint{}, "EndpointKey": seedbed.EndpointKey{},
		"EndpointTest": wire.EndpointTest{}, "Events": wire.EventPage{},
		"ForeignDomain": seedbed.ForeignDomain{}, "GuestEvent": seedbed.GuestEvent{},
		"Health": wire.Health{}, "HookKey": seedbed.HookKey{}, "Image": seedbed.Image{}, "ImportPlan": seedbed.ImportPlan{},
		"Instance": seedbed.Instance{}, "NIC": seedbed.NIC{}, "Volume": seedbed.ProjectVolume{}, "Job": seedbed.Job{},
		"JobOutput": wire.OutputPage{},
		"JobStatus": wire.JobStatus{}, "Lease": seedbed.Lease{},
		"Maintenance": seedbed.Maintenance{}, "Network": seedbed.Network{}, "NewEndpoint": wire.NewEndpoint{}, "NewHook": wire.NewHook{},
		"NewToken": wire.NewToken{}, "Node": seedbed.NodeStatus{}, "NodePool": seedbed.PoolInfo{}, "NodeReport": seedbed.NodeReport{},
		"NodeTunnel": seedbed.Tunnel{},
		"Orphan":     seedbed.Orphan{}, "Outgoing": seedbed.Outgoing{}, "Overview": wire.Overview{}, "Placement": seedbed.Placement{},
		"Plan": seedbed.Plan{}, "Receipt": seedbed.Receipt{}, "Redelivery": seedbed.Redelivery{},
		"BackupTarget": wire.BackupTarget{}, "BackupTargetCheck": wire.BackupTargetCheck{}, "Backup": wire.Backup{},
		"BackupDetails": wire.BackupDetails{}, "Schedule": seedbed.Schedule{}, "ScheduleRun": seedbed.ScheduleRun{},
		"ScheduleItem": seedbed.ScheduleItem{},
		"Replayed":     wire.Replayed{}, "Snapshot": wire.Snapshot{}, "StoredVolume": wire.StoredVolume{}, "Token": seedbed.Token{},
		"Action": seedbed.ActionInfo{}, "CustomRole": wire.Role{}, "Whoami": wire.Whoami{},
		"NetworkTemplate": wire.NetworkTemplate{}, "OVA": wire.OVA{}, "OVAVolume": seedbed.OVAVolume{}, "Script": wire.Script{},
		"ScriptOptions": wire.ScriptOptions{}, "StorageTemplate": wire.StorageTemplate{},
		"SystemTemplate": wire.SystemTemplate{}, "UserData": wire.UserData{},
		"SignIn": wire.SignIn{}, "Session": wire.Session{}, "NewSession": wire.NewSession{},
		"TrashItem": wire.TrashItem{}, "Ticket": wire.Ticket{}, "GuestProcess": seedbed.GuestProcess{}, "Trial": seedbed.DryRun{},
	}
	// both holds the types of requests that are also in answers. An answer has more required
	// members than a request.
	both = map[string]any{
		"Allowance": seedbed.NetworkPermissions{}, "Hook": seedbed.Hook{}, "HookForm": seedbed.HookForm{}, "InstanceSystem": seedbed.System{},
		"MetadataOptions": seedbed.MetadataOptions{}, "Param": seedbed.Param{},
		"Profile": seedbed.Profile{}, "Spot": seedbed.Spot{}, "TokenQuota": seedbed.TokenQuota{}, "Grant": seedbed.Grant{},
		"Publication":  seedbed.Publication{},
		"TemplateDisk": seedbed.CatalogueDisk{},
	}
)

// unsaid holds members that a request does not have although its type is also an answer's.
var unsaid = map[string][]string{"ProfileRequest": {"id", "revision", "created", "changed", "published"}}

// member is what a struct declares about one JSON member.
type member struct {
	kind     string // a JSON type; empty means any
	optional bool
}

// members returns the JSON members of a struct, including those of embedded structs.
func members(t reflect.Type) map[string]member {
	found := map[string]member{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, has := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && !has && f.Type.Kind() == reflect.Struct:
			for n, m := range members(f.Type) {
				if _, nearer := found[n]; !nearer {
					found[n] = m
				}
			}
		case f.IsExported() && name != "-":
			if name == "" {
				name = f.Name
			}
			found[name] = member{kindOf(f.Type), strings.Contains(options, "omit")}
		}
	}
	return found
}

// kindOf returns the JSON type of a Go type, or an empty string for a type that marshals itself.
func kindOf(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return kindOf(t.Elem())
	}
	implements := func(i reflect.Type) bool { return t.Implements(i) || reflect.PointerTo(t).Implements(i) }
	switch {
	case implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return "string"
	case implements(reflect.TypeFor[json.Marshaler]()), implements(reflect.TypeFor[json.Unmarshaler]()):
		return ""
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.String:
		return "string"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "string"
		}
		return "array"
	case reflect.Map, reflect.Struct:
		return "object"
	}
	return ""
}

// TestSchemas checks that the schemas of openapi.yaml and the types of the API have the same
// members of the same kinds. A member that an answer may lack must be optional in both, and a
// required member of a request must always be sent.
func TestSchemas(t *testing.T) {
	t.Parallel()
	schemas := description(t).Components.Schemas
	for _, side := range []struct {
		types            map[string]any
		request, answers bool
	}{{requests, true, false}, {answers, false, true}, {both, false, false}} {
		for name, v := range side.types {
			ref := schemas[name]
			if ref == nil {
				t.Errorf("%s is not described", name)
				continue
			}
			s, has := ref.Value, members(reflect.TypeOf(v))
			for _, m := range unsaid[name] {
				delete(has, m)
			}
			for m, said := range has {
				p := s.Properties[m]
				if p == nil {
					t.Errorf("%s: %T has %q, which is not described", name, v, m)
					continue
				}
				if kind := schemaKind(p.Value); kind != "" && said.kind != "" && kind != said.kind {
					t.Errorf("%s.%s: described as %s, and is %s", name, m, kind, said.kind)
				}
				needed := slices.Contains(s.Required, m)
				if side.request && needed && said.optional {
					t.Errorf("%s.%s: described as required, and may be left out", name, m)
				}
				if side.answers && needed == said.optional {
					t.Errorf("%s.%s: required %v, and may be left out %v", name, m, needed, said.optional)
				}
			}
			for m := range s.Properties {
				if _, ok := has[m]; !ok {
					t.Errorf("%s: %q is described, and %T does not have it", name, m, v)
				}
			}
		}
	}
}

// schemaKind returns the JSON type of a schema, or an empty string for a schema with several types.
func schemaKind(s *openapi3.Schema) string {
	if s.Type != nil && len(*s.Type) == 1 {
		return (*s.Type)[0]
	}
	for _, all := range s.AllOf {
		if kind := schemaKind(all.Value); kind != "" {
			return kind
		}
	}
	return ""
}

// TestSchemasAreAllCompared checks that the tables have the type of every schema that is neither
// PVC's nor that of a single value.
func TestSchemasAreAllCompared(t *testing.T) {
	t.Parallel()
	elsewhere := []string{ // compared with the routes' answers, or by another test
		"Catalogue", "Problem",
	}
	for name, ref := range description(t).Components.Schemas {
		_, asked := requests[name]
		_, answered := answers[name]
		_, part := both[name]
		if !asked && !answered && !part && !strings.HasPrefix(name, "PVC") && !slices.Contains(elsewhere, name) &&
			schemaKind(ref.Value) == "object" && len(ref.Value.Properties) > 0 {
			t.Errorf("%s is compared with no type", name)
		}
	}
}

// TestEnums checks that openapi.yaml lists all kinds and states.
func TestEnums(t *testing.T) {
	t.Parallel()
	schemas := description(t).Components.Schemas
	for name, tt := range map[string]struct {
		of   *openapi3.SchemaRef
		want []any
	}{
		"JobKind":        {schemas["JobKind"], anys(seedbed.JobKinds())},
		"JobState":       {schemas["JobState"], anys(seedbed.JobStates())},
		"Instance.state": {schemas["Instance"].Value.Properties["state"], anys(seedbed.InstanceStates())},
	} {
		if diff := cmp.Diff(tt.want, tt.of.Value.Enum); diff != "" {
			t.Errorf("the values of %s (-code +openapi.yaml):\n%s", name, diff)
		}
	}
}

// anys returns the values as the description has them.
func anys[T ~string](values []T) (all []any) {
	for _, v := range values {
		all = append(all, string(v))
	}
	return all
}
