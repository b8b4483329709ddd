package seedbed

import (
	"maps"
	"slices"
	"strings"
)

// Action is something that a caller may do, as "noun.verb". Each route of the API requires one.
type Action string

// The actions about what belongs to a project, and what all projects share.
const (
	ActionSelfRead            Action = "self.read"
	ActionOverviewRead        Action = "overview.read"
	ActionEventRead           Action = "event.read"
	ActionProjectRead         Action = "project.read"
	ActionRoleRead            Action = "role.read"
	ActionNetworkRead         Action = "network.read"
	ActionNetworkManage       Action = "network.manage"
	ActionNetworkPublish      Action = "network.publish"
	ActionNetworkForward      Action = "network.forward"
	ActionAddressRead         Action = "address.read"
	ActionAddressManage       Action = "address.manage"
	ActionSecurityGroupRead   Action = "securitygroup.read"
	ActionSecurityGroupManage Action = "securitygroup.manage"

	ActionPlacementGroupRead   Action = "placementgroup.read"
	ActionPlacementGroupManage Action = "placementgroup.manage"
	ActionImageRead            Action = "image.read"
	ActionImageImport          Action = "image.import"
	ActionImagePublish         Action = "image.publish"
	ActionImageRemove          Action = "image.remove"
	ActionProfileRead          Action = "profile.read"
	ActionProfileManage        Action = "profile.manage"
	ActionProfilePublish       Action = "profile.publish"
	ActionTemplateRead         Action = "template.read"
	ActionTemplateManage       Action = "template.manage"
	ActionTemplatePublish      Action = "template.publish"
	ActionUserDataRead         Action = "userdata.read"
	ActionUserDataManage       Action = "userdata.manage"
	ActionUserDataPublish      Action = "userdata.publish"
	ActionScriptRead           Action = "script.read"
	ActionScriptManage         Action = "script.manage"
	ActionScriptPublish        Action = "script.publish"
	ActionInstanceRead         Action = "instance.read"
	ActionInstanceCreate       Action = "instance.create"
	ActionInstanceChange       Action = "instance.change"
	ActionInstancePower        Action = "instance.power"
	ActionCatalogueExport      Action = "catalogue.export"
	ActionCatalogueImport      Action = "catalogue.import"
	ActionOVARead              Action = "ova.read"
	ActionOVAManage            Action = "ova.manage"
	ActionOVAPublish           Action = "ova.publish"
	ActionInstanceRebuild      Action = "instance.rebuild"
	ActionInstanceResize       Action = "instance.resize"
	ActionInstanceRemove       Action = "instance.remove"
	ActionInstanceAnnounce     Action = "instance.announce"
	ActionSnapshotRead         Action = "snapshot.read"
	ActionSnapshotCreate       Action = "snapshot.create"
	ActionSnapshotRemove       Action = "snapshot.remove"
	ActionSnapshotRestore      Action = "snapshot.restore"
	ActionSnapshotSchedule     Action = "snapshot.schedule"
	ActionBackupRead           Action = "backup.read"
	ActionBackupCreate         Action = "backup.create"
	ActionBackupRestore        Action = "backup.restore"
	ActionBackupVerify         Action = "backup.verify"
	ActionBackupRemove         Action = "backup.remove"
	ActionBackupSchedule       Action = "backup.schedule"
	ActionDiskRead             Action = "disk.read"
	ActionDiskManage           Action = "disk.manage"
	ActionDiskAttach           Action = "disk.attach"
	ActionNICManage            Action = "nic.manage"
	ActionConsoleRead          Action = "console.read"
	ActionConsoleOpen          Action = "console.open"
	ActionGuestExec            Action = "guest.exec"
	ActionMetadataRead         Action = "metadata.read"
	ActionSecretRead           Action = "secret.read"
	ActionJobRead              Action = "job.read"
	ActionJobOutput            Action = "job.output"
	ActionJobCancel            Action = "job.cancel"
	ActionJobRetry             Action = "job.retry"
	ActionJobUndo              Action = "job.undo"
	ActionTokenRead            Action = "token.read"
	ActionTokenManage          Action = "token.manage"
	ActionHookRead             Action = "hook.read"
	ActionHookManage           Action = "hook.manage"
	ActionDeliveryRead         Action = "delivery.read"
	ActionDeliveryPayload      Action = "delivery.payload"
	ActionDeliveryRedeliver    Action = "delivery.redeliver"
	ActionEndpointRead         Action = "endpoint.read"
	ActionEndpointManage       Action = "endpoint.manage"
	ActionEndpointReplay       Action = "endpoint.replay"
	ActionOrphanRead           Action = "orphan.read"
	ActionTrashRead            Action = "trash.read"
	ActionTrashRestore         Action = "trash.restore"
	ActionTrashPurge           Action = "trash.purge"
	ActionLeaseRead            Action = "lease.read"
	ActionAuditRead            Action = "audit.read"
)

// The actions about the installation as a whole.
const (
	ActionInstallationRead  Action = "installation.read"
	ActionMaintenanceSwitch Action = "maintenance.switch"
	ActionCleanupRun        Action = "cleanup.run"
	ActionSessionManage     Action = "session.manage"
	ActionProjectManage     Action = "project.manage"
	ActionProjectEnter      Action = "project.enter"
	ActionRoleManage        Action = "role.manage"
	ActionTokenGrant        Action = "token.grant"
	ActionNodeRead          Action = "node.read"
	ActionNodeManage        Action = "node.manage"
	ActionNodeAnnounce      Action = "node.announce"
	ActionNetworkProtect    Action = "network.protect"
	ActionScriptPrivilege   Action = "script.privilege"
	ActionDomainRead        Action = "domain.read"
	ActionDomainAdopt       Action = "domain.adopt"
	ActionInstanceForget    Action = "instance.forget"
	ActionInstanceMigrate   Action = "instance.migrate"
	ActionVolumeRead        Action = "volume.read"
	ActionTargetRead        Action = "target.read"
	ActionTargetManage      Action = "target.manage"
)

// ActionInfo says what an action is.
type ActionInfo struct {
	Name Action `json:"name"`
	// Role is the least built-in role that has it.
	Role Role `json:"role"`
	// Installation is true if it is about the installation as a whole: it then counts only for
	// callers that act from the default project.
	Installation bool   `json:"installation"`
	Description  string `json:"description"`
}

var actions = []ActionInfo{
	{ActionSelfRead, RoleViewer, false, "see who one is, and how the API works; see and end one's own sessions; every role has it"},
	{ActionOverviewRead, RoleViewer, false, "see the overview: what there is, and what needs attention"},
	{ActionEventRead, RoleViewer, false, "follow the events of all jobs"},
	{ActionProjectRead, RoleViewer, false, "see the project, its quota and what it uses"},
	{ActionRoleRead, RoleViewer, false, "see roles and their actions"},
	{ActionNetworkRead, RoleViewer, false, "see networks"},
	{ActionNetworkManage, RoleAdmin, false, "make, change and remove networks"},
	{ActionNetworkPublish, RoleAdmin, false, "say which other projects may use networks"},
	{ActionAddressRead, RoleViewer, false, "see floating addresses"},
	{ActionAddressManage, RoleOperator, false, "allocate, associate and release floating addresses"},
	{ActionSecurityGroupRead, RoleViewer, false, "see security groups"},
	{ActionSecurityGroupManage, RoleOperator, false, "make, change and remove security groups"},
	{ActionPlacementGroupRead, RoleViewer, false, "see placement groups"},
	{ActionPlacementGroupManage, RoleOperator, false, "make and remove placement groups"},
	{ActionImageRead, RoleViewer, false, "see images"},
	{ActionImageImport, RoleOperator, false, "import and upload images"},
	{ActionImagePublish, RoleOperator, false, "say which other projects may use images"},
	{ActionImageRemove, RoleOperator, false, "remove images"},
	{ActionProfileRead, RoleViewer, false, "see profiles"},
	{ActionProfileManage, RoleOperator, false, "make, change and remove profiles"},
	{ActionProfilePublish, RoleOperator, false, "say which other projects may use profiles"},
	{ActionTemplateRead, RoleViewer, false, "see templates, and the profiles that are made of them"},
	{ActionTemplateManage, RoleOperator, false, "make, change and remove templates"},
	{ActionTemplatePublish, RoleOperator, false, "say which other projects may use templates"},
	{ActionUserDataRead, RoleOperator, false, "read user-data documents"},
	{ActionUserDataManage, RoleOperator, false, "make, change and remove user-data documents"},
	{ActionUserDataPublish, RoleOperator, false, "say which other projects may use user-data documents"},
	{ActionScriptRead, RoleOperator, false, "read provisioning scripts"},
	{ActionScriptManage, RoleOperator, false, "make, change and remove provisioning scripts"},
	{ActionScriptPublish, RoleOperator, false, "say which other projects may use provisioning scripts"},
	{ActionInstanceRead, RoleViewer, false, "see instances, their maintenance and what their guests ask for"},
	{ActionInstanceCreate, RoleOperator, false, "make instances, and see what a request would make"},
	{ActionInstanceChange, RoleOperator, false, "change the tags, the protection, the metadata options and the security groups of instances"},
	{ActionInstancePower, RoleOperator, false, "start, stop and reboot instances"},
	{ActionInstanceRebuild, RoleOperator, false, "give instances fresh disks"},
	{ActionInstanceResize, RoleOperator, false, "resize and rename instances, change their hardware, make their volumes independent"},
	{ActionInstanceRemove, RoleOperator, false, "remove instances with their volumes"},
	{ActionInstanceAnnounce, RoleOperator, false, "announce maintenance to the guests of instances"},
	{ActionSnapshotRead, RoleViewer, false, "see the snapshots of instances and their schedules"},
	{ActionSnapshotCreate, RoleOperator, false, "take snapshots of instances"},
	{ActionSnapshotRemove, RoleOperator, false, "remove snapshots of instances"},
	{ActionSnapshotRestore, RoleOperator, false, "bring the volumes of instances back to a snapshot"},
	{ActionSnapshotSchedule, RoleOperator, false, "make, run and remove the schedules of snapshots"},
	{ActionBackupRead, RoleViewer, false, "see backups and their schedules"},
	{ActionBackupCreate, RoleOperator, false, "make backups of instances"},
	{ActionBackupRestore, RoleOperator, false, "make instances of backups"},
	{ActionBackupVerify, RoleOperator, false, "read backups as a whole, and compare their digests"},
	{ActionBackupRemove, RoleOperator, false, "remove backups"},
	{ActionBackupSchedule, RoleOperator, false, "make, run and remove the schedules of backups"},
	{ActionDiskRead, RoleViewer, false, "see the volumes of projects, and the disks of instances"},
	{ActionDiskManage, RoleOperator, false, "make, change and remove volumes"},
	{ActionDiskAttach, RoleOperator, false, "attach volumes to instances, and detach them"},
	{ActionNICManage, RoleOperator, false, "add NICs to instances, remove them, and take them to other networks"},
	{ActionConsoleRead, RoleOperator, false, "read the consoles of instances and see their screens, which may show secrets"},
	{ActionConsoleOpen, RoleOperator, false, "open the serial consoles and the screens of instances, and type at them"},
	{ActionGuestExec, RoleAdmin, false, "run programs in guests and copy files there, by their agents, which are root"},
	{ActionMetadataRead, RoleOperator, false, "read what guests are served, user-data included"},
	{ActionSecretRead, RoleOperator, false, "read what is otherwise left out of answers because it may be secret"},
	{ActionJobRead, RoleViewer, false, "see jobs and their events"},
	{ActionJobOutput, RoleOperator, false, "read what the scripts of jobs print"},
	{ActionJobCancel, RoleOperator, false, "cancel jobs"},
	{ActionJobRetry, RoleOperator, false, "run failed jobs again, whatever they do"},
	{ActionJobUndo, RoleOperator, false, "undo failed jobs"},
	{ActionTokenRead, RoleAdmin, false, "see tokens"},
	{ActionTokenManage, RoleAdmin, false, "make and revoke tokens, and set their quotas"},
	{ActionHookRead, RoleViewer, false, "see hooks"},
	{ActionHookManage, RoleAdmin, false, "make, change, test and remove hooks, and replace their keys"},
	{ActionDeliveryRead, RoleViewer, false, "see which webhooks came in, without what they brought"},
	{ActionDeliveryPayload, RoleOperator, false, "read what a webhook brought"},
	{ActionDeliveryRedeliver, RoleAdmin, false, "process a webhook again"},
	{ActionEndpointRead, RoleViewer, false, "see endpoints and the deliveries to them"},
	{ActionEndpointManage, RoleAdmin, false, "make, change, test and remove endpoints, and replace their keys"},
	{ActionEndpointReplay, RoleAdmin, false, "send events to endpoints again"},
	{ActionOrphanRead, RoleViewer, false, "see what jobs have left behind"},
	{ActionTrashRead, RoleViewer, false, "see removed volumes that still exist"},
	{ActionTrashRestore, RoleOperator, false, "restore removed volumes, and put them back into the trash"},
	{ActionTrashPurge, RoleOperator, false, "delete removed volumes for good"},
	{ActionLeaseRead, RoleViewer, false, "see DHCP leases"},
	{ActionAuditRead, RoleAdmin, false, "read the audit log"},

	{ActionInstallationRead, RoleViewer, true, "see the checks of the installation, and its certificates"},
	{ActionMaintenanceSwitch, RoleAdmin, true, "switch the maintenance mode of PVC's API, in which no lost node is fenced by itself"},
	{ActionCleanupRun, RoleAdmin, true, "run the cleanup"},
	{ActionSessionManage, RoleAdmin, true, "see and end the sessions of all people"},
	{ActionProjectManage, RoleAdmin, true, "make, change and remove projects, and set their quotas"},
	{ActionProjectEnter, RoleAdmin, true, "act in every project with the same role, and see all of them at once"},
	{ActionRoleManage, RoleAdmin, true, "make, change and remove roles"},
	{ActionTokenGrant, RoleAdmin, true, "make tokens that act in several projects"},
	{ActionNodeRead, RoleViewer, true, "see nodes and their maintenance"},
	{ActionNodeManage, RoleAdmin, true, "add, change, cordon and remove nodes"},
	{ActionNodeAnnounce, RoleAdmin, true, "announce, complete and cancel the maintenance of nodes"},
	{ActionNetworkForward, RoleAdmin, true, "send what comes to ports of the nodes to instances"},
	{ActionNetworkProtect, RoleAdmin, true, "choose the bridges of networks, how these identify guests, and what guests may send"},
	{ActionScriptPrivilege, RoleAdmin, true, "let provisioning scripts out of their sandbox"},
	{ActionOVARead, RoleViewer, false, "see OVA images"},
	{ActionOVAManage, RoleOperator, false, "upload and remove OVA images"},
	{ActionOVAPublish, RoleOperator, false, "say which other projects may use OVA images"},
	{ActionCatalogueExport, RoleOperator, false, "read the catalogue as a whole, with documents and scripts"},
	{ActionCatalogueImport, RoleOperator, false, "write the catalogue as a whole"},
	{ActionDomainRead, RoleViewer, true, "see domains that can be adopted"},
	{ActionDomainAdopt, RoleOperator, true, "take domains under management as instances"},
	{ActionInstanceForget, RoleOperator, true, "stop managing instances; their domains and disks stay"},
	{ActionInstanceMigrate, RoleOperator, true, "take instances to other nodes"},
	{ActionTargetRead, RoleViewer, true, "see the targets of backups"},
	{ActionTargetManage, RoleAdmin, true, "make, change, check and remove the targets of backups"},
	{ActionVolumeRead, RoleViewer, true, "see the volumes in pools, as PVC's API shows them"},
}

var actionInfos = maps.Collect(func(yield func(Action, ActionInfo) bool) {
	for _, a := range actions {
		if !yield(a.Name, a) {
			return
		}
	}
})

// ActionTable returns all actions: those about a project before those about the installation.
func ActionTable() []ActionInfo { return slices.Clone(actions) }

// Info returns what a is, and false if there is no such action.
func (a Action) Info() (ActionInfo, bool) {
	info, ok := actionInfos[a]
	return info, ok
}

// noun returns the part of a before the dot.
func (a Action) noun() string {
	noun, _, _ := strings.Cut(string(a), ".")
	return noun
}

// ActionSet is a set of actions. It never changes. The zero value is empty.
type ActionSet struct{ has map[Action]bool }

// ActionsOf returns the actions that patterns name: each is an action, or "noun.*" for all actions of
// that noun. Those that this release does not know are left out. Every set has self.read.
func ActionsOf(patterns ...string) ActionSet {
	set := ActionSet{map[Action]bool{ActionSelfRead: true}}
	for _, a := range actions {
		if slices.Contains(patterns, string(a.Name)) || slices.Contains(patterns, a.Name.noun()+".*") {
			set.has[a.Name] = true
		}
	}
	return set
}

// Has reports whether a is in the set.
func (s ActionSet) Has(a Action) bool { return s.has[a] }

// List returns the actions of the set in the order of the table.
func (s ActionSet) List() []Action {
	list := []Action{}
	for _, a := range actions {
		if s.has[a.Name] {
			list = append(list, a.Name)
		}
	}
	return list
}

// In returns the actions of the set that count for who acts from that project: those about the
// installation count only from the default one.
func (s ActionSet) In(project string) ActionSet {
	if project == DefaultProject {
		return s
	}
	in := ActionSet{map[Action]bool{}}
	for a := range s.has {
		if !actionInfos[a].Installation {
			in.has[a] = true
		}
	}
	return in
}

// Without returns the actions of the set that are not in other, in the order of the table.
func (s ActionSet) Without(other ActionSet) []Action {
	return slices.DeleteFunc(s.List(), other.Has)
}
