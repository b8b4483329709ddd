// Package rest has the native routes of the API: one table, and the handlers.
package rest

import (
	"slices"
	"time"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// A handler must return within one of these times. They are for effects on many things.
const (
	doctorTimeout = 50 * time.Second
	cleanTimeout  = 110 * time.Second
)

// installationRoutes returns the routes whose actions are about the installation as a whole, so that only
// callers from the default project may call them.
func (r *router) installationRoutes() []route {
	const (
		get, post, put, patch, del = fiber.MethodGet, fiber.MethodPost, fiber.MethodPut, fiber.MethodPatch, fiber.MethodDelete
		call                       = server.CallTimeout
	)
	ovas := r.ovaImages()
	return []route{
		// The installation.
		{get, "/doctor", seedbed.ActionInstallationRead, doctorTimeout, r.doctor},
		{post, "/cleanup", seedbed.ActionCleanupRun, cleanTimeout, answer(r.cleanup)},
		{get, "/certificates/identity", seedbed.ActionInstallationRead, call, r.certificate},

		// Networks and nodes.
		{post, "/networks", seedbed.ActionNetworkManage, call, r.newNetwork},
		{patch, "/networks/:name", seedbed.ActionNetworkManage, call, r.changeNetwork},
		{del, "/networks/:name", seedbed.ActionNetworkManage, call, r.removeNetwork},
		{put, "/networks/:name/published", seedbed.ActionNetworkPublish, call,
			publish(r, seedbed.PublishedNetwork, r.Store.PublishNetwork, server.ContentTag[seedbed.Network],
				tagged(server.ContentTag[seedbed.Network]))},
		{get, "/nodes", seedbed.ActionNodeRead, call, r.nodes().serve},
		{post, "/nodes", seedbed.ActionNodeManage, call, r.addNode},
		{get, "/nodes/:name", seedbed.ActionNodeRead, call, r.hypervisor},
		{patch, "/nodes/:name", seedbed.ActionNodeManage, call, r.changeNode},
		{del, "/nodes/:name", seedbed.ActionNodeManage, call, r.removeNode},
		{get, "/nodes/:name/fence", seedbed.ActionNodeManage, fenceTimeout, r.fenceStatus},
		{post, "/nodes/:name/fence", seedbed.ActionNodeManage, call, r.fence},
		{get, "/nodes/:name/maintenance", seedbed.ActionNodeRead, call, r.maintenance(r.nodeOf)},
		{post, "/nodes/:name/maintenance", seedbed.ActionNodeAnnounce, call, r.announce(r.nodeOf)},
		{get, "/rebalancing", seedbed.ActionNodeManage, call, r.rebalancing},
		{post, "/maintenance/:id/complete", seedbed.ActionNodeAnnounce, call, r.endMaintenance(seedbed.MaintenanceCompleted)},
		{post, "/maintenance/:id/cancel", seedbed.ActionNodeAnnounce, call, r.endMaintenance(seedbed.MaintenanceCanceled)},

		// Projects and roles.
		{post, "/projects", seedbed.ActionProjectManage, call, r.createProject},
		{patch, "/projects/:name", seedbed.ActionProjectManage, call, r.changeProject},
		{put, "/projects/:name/quota", seedbed.ActionProjectManage, call, r.setProjectQuota},
		{del, "/projects/:name", seedbed.ActionProjectManage, call, r.deleteProject},
		{post, "/roles", seedbed.ActionRoleManage, call, r.createRole},
		{put, "/roles/:name", seedbed.ActionRoleManage, call, r.changeRole},
		{del, "/roles/:name", seedbed.ActionRoleManage, call, r.deleteRole},

		// The catalogue. As a whole it includes all user-data and scripts.
		{get, "/catalogue", seedbed.ActionCatalogueExport, cleanTimeout, r.exportCatalogue},
		{post, "/catalogue", seedbed.ActionCatalogueImport, cleanTimeout, answer(r.importCatalogue)},

		{get, "/ovas", seedbed.ActionOVARead, call, ovas.all},
		{get, "/ovas/:name", seedbed.ActionOVARead, call, ovas.one},
		{put, "/ovas/:name/published", seedbed.ActionOVAPublish, call, ovas.published},
		{post, "/ovas/:name/content", seedbed.ActionOVAManage, server.UploadTimeout, r.accept(r.uploadOVA)},
		{del, "/ovas/:name", seedbed.ActionOVAManage, call, r.acceptOn(r.removeOVA)},

		// The targets of backups.
		{get, "/backup-targets", seedbed.ActionTargetRead, call, r.backupTargets().serve},
		{post, "/backup-targets", seedbed.ActionTargetManage, doctorTimeout, r.createBackupTarget},
		{get, "/backup-targets/:name", seedbed.ActionTargetRead, call, r.backupTarget},
		{patch, "/backup-targets/:name", seedbed.ActionTargetManage, doctorTimeout, r.changeBackupTarget},
		{del, "/backup-targets/:name", seedbed.ActionTargetManage, call, r.deleteBackupTarget},
		{post, "/backup-targets/:name/check", seedbed.ActionTargetManage, doctorTimeout, answer(r.checkBackupTarget)},

		// Domains that can be adopted.
		{get, "/domains", seedbed.ActionDomainRead, call, r.domains().serve},
		{get, "/domains/:name", seedbed.ActionDomainRead, call, r.domain},
		{post, "/domains/:name/adopt", seedbed.ActionDomainAdopt, call, r.accept(r.adopt)},
		{post, "/instances/:name/forget", seedbed.ActionInstanceForget, call, r.acceptOn(r.forget)},
	}
}

// projectRoutes returns the routes whose actions are about a project. They show and change what belongs
// to the caller's project, and show what all projects share.
func (r *router) projectRoutes() []route {
	const (
		get, post, put, patch, del = fiber.MethodGet, fiber.MethodPost, fiber.MethodPut, fiber.MethodPatch, fiber.MethodDelete
		call                       = server.CallTimeout
	)
	return []route{
		// The installation, and what its projects share.
		{get, "/health", server.Anyone, call, r.health},
		{get, "/openapi.yaml", seedbed.ActionSelfRead, call, r.description},
		{get, "/overview", seedbed.ActionOverviewRead, call, answer(r.overview)},
		{get, "/events", seedbed.ActionEventRead, call, r.allEvents},
		{get, "/projects", seedbed.ActionProjectRead, call, r.projects().serve},
		{get, "/projects/:name", seedbed.ActionProjectRead, call, r.project},
		{get, "/networks", seedbed.ActionNetworkRead, call, r.networks().serve},
		{get, "/networks/:name/leases", seedbed.ActionLeaseRead, call, r.networkLeases().serve},
		{get, "/networks/:name/forwards", seedbed.ActionNetworkRead, call, r.networkForwards().serve},
		{get, "/networks/:name", seedbed.ActionNetworkRead, call, r.network},
		{get, "/addresses", seedbed.ActionAddressRead, call, r.addresses().serve},
		{post, "/addresses", seedbed.ActionAddressManage, call, r.newAddress},
		{get, "/addresses/:name", seedbed.ActionAddressRead, call, r.address},
		{del, "/addresses/:name", seedbed.ActionAddressManage, call, r.releaseAddress},
		{get, "/security-groups", seedbed.ActionSecurityGroupRead, call, r.securityGroups().serve},
		{post, "/security-groups", seedbed.ActionSecurityGroupManage, call, r.newSecurityGroup},
		{get, "/security-groups/:name", seedbed.ActionSecurityGroupRead, call, r.securityGroup},
		{patch, "/security-groups/:name", seedbed.ActionSecurityGroupManage, call, r.changeSecurityGroup},
		{del, "/security-groups/:name", seedbed.ActionSecurityGroupManage, call, r.removeSecurityGroup},

		{get, "/placement-groups", seedbed.ActionPlacementGroupRead, call, r.placementGroups().serve},
		{post, "/placement-groups", seedbed.ActionPlacementGroupManage, call, r.newPlacementGroup},
		{get, "/placement-groups/:name", seedbed.ActionPlacementGroupRead, call, r.placementGroup},
		{del, "/placement-groups/:name", seedbed.ActionPlacementGroupManage, call, r.removePlacementGroup},

		// Profiles.
		{get, "/profiles", seedbed.ActionProfileRead, call, r.profiles},
		{post, "/profiles", seedbed.ActionProfileManage, call, r.createProfile},
		{get, "/profiles/:name", seedbed.ActionProfileRead, call, r.profile},
		{put, "/profiles/:name", seedbed.ActionProfileManage, call, r.changeProfile},
		{del, "/profiles/:name", seedbed.ActionProfileManage, call, r.deleteProfile},
		{put, "/profiles/:name/published", seedbed.ActionProfilePublish, call,
			publish(r, seedbed.PublishedProfile, r.Store.PublishProfile, server.ProfileTag, tellProfile)},

		// Images.
		{get, "/images", seedbed.ActionImageRead, call, r.images().serve},
		{post, "/images", seedbed.ActionImageImport, call, r.accept(r.importImage)},
		{get, "/images/:name", seedbed.ActionImageRead, call, r.image},
		{del, "/images/:name", seedbed.ActionImageRemove, call, r.acceptOn(r.removeImage)},
		{put, "/images/:name/published", seedbed.ActionImagePublish, call,
			publish(r, seedbed.PublishedImage, r.Store.PublishImage, server.ContentTag[seedbed.Image],
				tagged(server.ContentTag[seedbed.Image]))},
		{post, "/images/:name/content", seedbed.ActionImageImport, server.UploadTimeout, r.accept(r.uploadImage)},
		{post, "/plan/import", seedbed.ActionImageImport, call, answer(r.planImport)},

		// Volumes of projects.
		{get, "/volumes", seedbed.ActionDiskRead, call, r.volumes().serve},
		{post, "/volumes", seedbed.ActionDiskManage, call, r.volumeChange(seedbed.DoVolumeAdd, readVolumeAdd)},
		{get, "/volumes/:name", seedbed.ActionDiskRead, call, r.volume},
		{patch, "/volumes/:name", seedbed.ActionDiskManage, call, r.renameVolume},
		{del, "/volumes/:name", seedbed.ActionDiskManage, call, r.volumeChange(seedbed.DoVolumeRemove, readNothing)},
		{post, "/volumes/:name/resize", seedbed.ActionDiskManage, call, r.volumeChange(seedbed.DoVolumeResize, readVolumeResize)},
		{post, "/volumes/:name/content", seedbed.ActionDiskManage, server.UploadTimeout, r.accept(r.uploadVolume)},
		{post, "/volumes/:name/limits", seedbed.ActionDiskManage, call, r.volumeChange(seedbed.DoVolumeSet, readVolumeSet)},
		{post, "/volumes/:name/move", seedbed.ActionDiskManage, call, r.volumeChange(seedbed.DoVolumeMove, readVolumeMove)},
		{post, "/volumes/:name/download", seedbed.ActionDiskManage, call, r.volumeChange(seedbed.DoVolumeDownload, readVolumeDownload)},
		{post, "/volumes/:name/attach", seedbed.ActionDiskAttach, call, r.volumeChange(seedbed.DoVolumeAttach, readAttachment)},
		{post, "/volumes/:name/detach", seedbed.ActionDiskAttach, call, r.volumeChange(seedbed.DoVolumeDetach, readDetachment)},

		// Instances. Metadata, the console and the screen may hold secrets.
		{get, "/instances", seedbed.ActionInstanceRead, call, r.instances},
		{post, "/instances", seedbed.ActionInstanceCreate, call, r.accept(r.createInstance)},
		{get, "/instances/:name", seedbed.ActionInstanceRead, call, r.instance},
		{patch, "/instances/:name", seedbed.ActionInstanceChange, call, r.changeInstance},
		{del, "/instances/:name", seedbed.ActionInstanceRemove, call, r.acceptOn(r.removeInstance)},
		{get, "/instances/:name/console", seedbed.ActionConsoleRead, call, r.console},
		{post, "/instances/:name/console", seedbed.ActionConsoleOpen, call, r.openConsole},
		{post, "/instances/:name/vnc", seedbed.ActionConsoleOpen, call, r.openScreen},
		{post, "/instances/:name/exec", seedbed.ActionGuestExec, call, r.exec},
		{get, "/instances/:name/exec/:process", seedbed.ActionGuestExec, call, r.execWait},
		{post, "/instances/:name/file", seedbed.ActionGuestExec, call, r.openFile},
		{get, "/instances/:name/screenshot", seedbed.ActionConsoleRead, call, r.screenshot},
		{get, "/usage", seedbed.ActionInstanceRead, call, r.usage},
		{get, "/channel", server.Anyone, call, r.OpenChannel},
		{get, "/instances/:name/access", seedbed.ActionInstanceRead, call, r.access},
		{get, "/instances/:name/trace", seedbed.ActionInstanceRead, call, r.trace},
		{get, "/instances/:name/metadata", seedbed.ActionMetadataRead, call, r.metadata},
		{get, "/instances/:name/maintenance", seedbed.ActionInstanceRead, call, r.maintenance(r.instanceOf)},
		{post, "/instances/:name/maintenance", seedbed.ActionInstanceAnnounce, call, r.announce(r.instanceOf)},
		{post, "/instances/:name/start", seedbed.ActionInstancePower, call, r.acceptOn(r.startInstance)},
		{post, "/instances/:name/stop", seedbed.ActionInstancePower, call, r.power(seedbed.DoStop)},
		{post, "/instances/:name/reboot", seedbed.ActionInstancePower, call, r.power(seedbed.DoReboot)},
		{post, "/instances/:name/migrate", seedbed.ActionInstanceMigrate, call, r.migrate},
		{post, "/instances/:name/rebuild", seedbed.ActionInstanceRebuild, call, r.acceptOn(r.rebuild)},
		{post, "/instances/:name/flatten", seedbed.ActionInstanceResize, call, r.acceptOn(r.flatten)},
		{post, "/instances/:name/resize", seedbed.ActionInstanceResize, call, r.resize},
		{post, "/instances/:name/clone", seedbed.ActionInstanceCreate, call, r.cloneInstance},
		{post, "/instances/:name/rename", seedbed.ActionInstanceResize, call, r.renameInstance},
		{get, "/instances/:name/nics", seedbed.ActionInstanceRead, call, r.nics().serve},
		{post, "/instances/:name/nics", seedbed.ActionNICManage, call, r.addNIC},
		{patch, "/instances/:name/nics/:nic", seedbed.ActionNICManage, call, r.setNIC},
		{del, "/instances/:name/nics/:nic", seedbed.ActionNICManage, call, r.removeNIC},
		{get, "/instances/:name/snapshots", seedbed.ActionSnapshotRead, call, r.snapshots().serve},
		{post, "/instances/:name/snapshots", seedbed.ActionSnapshotCreate, call, r.acceptOn(r.takeSnapshot)},
		{del, "/instances/:name/snapshots/:snapshot", seedbed.ActionSnapshotRemove, call, r.acceptOn(r.removeSnapshot)},
		{post, "/instances/:name/snapshots/:snapshot/restore", seedbed.ActionSnapshotRestore, call, r.restoreSnapshot},
		{post, "/instances/:name/backups", seedbed.ActionBackupCreate, call, r.backUp},
		{post, "/plan", seedbed.ActionInstanceCreate, call, answer(r.plan)},

		// Backups, and when they are made.
		{get, "/backups", seedbed.ActionBackupRead, doctorTimeout, r.backups().serve},
		{get, "/backups/:target/:id", seedbed.ActionBackupRead, doctorTimeout, r.backup},
		{del, "/backups/:target/:id", seedbed.ActionBackupRemove, doctorTimeout, r.onBackup(seedbed.JobBackupRemove)},
		{post, "/backups/:target/:id/restore", seedbed.ActionBackupRestore, doctorTimeout, r.restoreBackup},
		{post, "/backups/:target/:id/verify", seedbed.ActionBackupVerify, doctorTimeout, r.onBackup(seedbed.JobBackupVerify)},
		{get, "/backup-schedules", seedbed.ActionBackupRead, call, r.schedules(seedbed.ScheduleBackup).serve},
		{post, "/backup-schedules", seedbed.ActionBackupSchedule, call, r.createBackupSchedule},
		{get, "/backup-schedules/:name", seedbed.ActionBackupRead, call, r.schedule(seedbed.ScheduleBackup)},
		{del, "/backup-schedules/:name", seedbed.ActionBackupSchedule, call, r.deleteSchedule(seedbed.ScheduleBackup)},
		{post, "/backup-schedules/:name/run", seedbed.ActionBackupSchedule, call, r.runSchedule(seedbed.ScheduleBackup)},
		{get, "/snapshot-schedules", seedbed.ActionSnapshotRead, call, r.schedules(seedbed.ScheduleSnapshot).serve},
		{post, "/snapshot-schedules", seedbed.ActionSnapshotSchedule, call, r.createSnapshotSchedule},
		{get, "/snapshot-schedules/:name", seedbed.ActionSnapshotRead, call, r.schedule(seedbed.ScheduleSnapshot)},
		{del, "/snapshot-schedules/:name", seedbed.ActionSnapshotSchedule, call, r.deleteSchedule(seedbed.ScheduleSnapshot)},
		{post, "/snapshot-schedules/:name/run", seedbed.ActionSnapshotSchedule, call, r.runSchedule(seedbed.ScheduleSnapshot)},

		// Jobs. A script may print anything.
		{get, "/jobs", seedbed.ActionJobRead, call, r.jobs},
		{get, "/jobs/:id", seedbed.ActionJobRead, call, r.job},
		{get, "/jobs/:id/events", seedbed.ActionJobRead, server.MaxWait + server.CallTimeout, r.events},
		{get, "/jobs/:id/output", seedbed.ActionJobOutput, server.MaxWait + server.CallTimeout, answer(r.jobOutput)},
		{post, "/jobs/:id/file", seedbed.ActionDiskManage, call, r.openVolumeFile},
		{post, "/jobs/:id/cancel", seedbed.ActionJobCancel, call, r.cancelJob},
		{post, "/jobs/:id/retry", seedbed.ActionJobRetry, call, r.accept(r.retryJob)},
		{post, "/jobs/:id/undo", seedbed.ActionJobUndo, call, r.undoJob},

		// What jobs have left behind, the trash of the pools, and leases.
		{get, "/orphans", seedbed.ActionOrphanRead, call, r.orphans().serve},
		{get, "/trash", seedbed.ActionTrashRead, call, r.trash().serve},
		{post, "/trash", seedbed.ActionTrashRestore, binTimeout, r.discardVolume},
		{post, "/trash/:pool/:id/restore", seedbed.ActionTrashRestore, call, answer(r.restoreVolume)},
		{del, "/trash/:pool/:id", seedbed.ActionTrashPurge, binTimeout, r.purgeVolume},
		{get, "/leases", seedbed.ActionLeaseRead, call, r.leases().serve},

		// Who may do what, and who did.
		{get, "/whoami", seedbed.ActionSelfRead, call, r.whoami},
		{get, "/actions", seedbed.ActionSelfRead, call, r.actions},
		{get, "/roles", seedbed.ActionRoleRead, call, r.roles().serve},
		{get, "/roles/:name", seedbed.ActionRoleRead, call, r.role},
		{get, "/tokens", seedbed.ActionTokenRead, call, r.tokens().serve},
		{post, "/tokens", seedbed.ActionTokenManage, call, r.createToken},
		{get, "/tokens/:name", seedbed.ActionTokenRead, call, r.token},
		{patch, "/tokens/:name", seedbed.ActionTokenManage, call, r.changeToken},
		{del, "/tokens/:name", seedbed.ActionTokenManage, call, r.deleteToken},
		{put, "/tokens/:name/quota", seedbed.ActionTokenManage, call, r.setTokenQuota},
		{get, "/audit", seedbed.ActionAuditRead, call, r.auditLog},

		// People, who sign in with a browser, and their sessions: every caller has those of its own.
		{get, "/signin", server.Anyone, call, r.beginSignIn},
		{get, "/signin/provider", server.Anyone, call, r.signInProvider},
		{get, "/signin/callback", server.Anyone, call, r.endSignIn},
		{post, "/signin/confirm", server.Anyone, call, r.confirmSignIn},
		{post, "/signin/token", server.Anyone, call, r.takeSession},
		{get, "/sessions", seedbed.ActionSelfRead, call, r.sessions().serve},
		{get, "/sessions/:id", seedbed.ActionSelfRead, call, r.session},
		{del, "/sessions/:id", seedbed.ActionSelfRead, call, r.endSession},

		// Webhooks that come in. A delivery includes its payload.
		{get, "/hooks", seedbed.ActionHookRead, call, r.hooks().serve},
		{post, "/hooks", seedbed.ActionHookManage, call, r.createHook},
		{get, "/hooks/:name", seedbed.ActionHookRead, call, r.hook},
		{patch, "/hooks/:name", seedbed.ActionHookManage, call, r.changeHook},
		{del, "/hooks/:name", seedbed.ActionHookManage, call, r.deleteHook},
		{post, "/hooks/:name/rotate", seedbed.ActionHookManage, call, r.rotateHook},
		{del, "/hooks/:name/keys/:id", seedbed.ActionHookManage, call, r.removeHookKey},
		{post, "/hooks/:name/test", seedbed.ActionHookManage, call, answer(r.testHook)},
		{get, "/hooks/:name/deliveries", seedbed.ActionDeliveryRead, call, r.hookDeliveries},
		{get, "/hooks/:name/deliveries/:id", seedbed.ActionDeliveryPayload, call, r.delivery},
		{post, "/hooks/:name/deliveries/:id/redeliver", seedbed.ActionDeliveryRedeliver, call, r.redeliver},
		{get, "/deliveries", seedbed.ActionDeliveryRead, call, r.deliveries},
		{get, "/deliveries/rejected", seedbed.ActionDeliveryRead, call, r.rejections},

		// Webhooks that go out.
		{get, "/endpoints", seedbed.ActionEndpointRead, call, r.endpoints().serve},
		{post, "/endpoints", seedbed.ActionEndpointManage, call, r.createEndpoint},
		{get, "/endpoints/:name", seedbed.ActionEndpointRead, call, r.endpoint},
		{patch, "/endpoints/:name", seedbed.ActionEndpointManage, call, r.changeEndpoint},
		{del, "/endpoints/:name", seedbed.ActionEndpointManage, call, r.deleteEndpoint},
		{post, "/endpoints/:name/rotate", seedbed.ActionEndpointManage, call, r.rotateEndpoint},
		{post, "/endpoints/:name/test", seedbed.ActionEndpointManage, doctorTimeout, answer(r.testEndpoint)},
		{post, "/endpoints/:name/replay", seedbed.ActionEndpointReplay, call, r.replay},
		{get, "/endpoints/:name/deliveries", seedbed.ActionEndpointRead, call, r.outgoing},
		{post, "/endpoints/:name/deliveries/:id/resend", seedbed.ActionEndpointReplay, call, r.resend},
	}
}

// partRoutes returns the routes of what profiles name, as far as it belongs to projects.
func (r *router) partRoutes() []route {
	const (
		get, post, put, patch, del = fiber.MethodGet, fiber.MethodPost, fiber.MethodPut, fiber.MethodPatch, fiber.MethodDelete
		call                       = server.CallTimeout
	)
	systems, nics, disks := r.systemTemplates(), r.networkTemplates(), r.storageTemplates()
	documents, scripts := r.userData(), r.scripts()
	return []route{
		// Documents and scripts may hold secrets.
		{get, "/templates/system", seedbed.ActionTemplateRead, call, systems.all},
		{post, "/templates/system", seedbed.ActionTemplateManage, call, r.createSystemTemplate},
		{get, "/templates/system/:name", seedbed.ActionTemplateRead, call, systems.one},
		{put, "/templates/system/:name", seedbed.ActionTemplateManage, call, r.changeSystemTemplate},
		{del, "/templates/system/:name", seedbed.ActionTemplateManage, call, systems.drop},
		{get, "/templates/network", seedbed.ActionTemplateRead, call, nics.all},
		{post, "/templates/network", seedbed.ActionTemplateManage, call, r.newNetworkTemplate},
		{get, "/templates/network/:name", seedbed.ActionTemplateRead, call, nics.one},
		{del, "/templates/network/:name", seedbed.ActionTemplateManage, call, nics.drop},
		{post, "/templates/network/:name/vnis", seedbed.ActionTemplateManage, call, r.addVNI},
		{del, "/templates/network/:name/vnis/:vni", seedbed.ActionTemplateManage, call, r.removeVNI},
		{get, "/templates/storage", seedbed.ActionTemplateRead, call, disks.all},
		{post, "/templates/storage", seedbed.ActionTemplateManage, call, r.newStorageTemplate},
		{get, "/templates/storage/:name", seedbed.ActionTemplateRead, call, disks.one},
		{del, "/templates/storage/:name", seedbed.ActionTemplateManage, call, disks.drop},
		{post, "/templates/storage/:name/disks", seedbed.ActionTemplateManage, call, r.addDisk},
		{del, "/templates/storage/:name/disks/:disk", seedbed.ActionTemplateManage, call, r.removeDisk},
		{put, "/templates/system/:name/published", seedbed.ActionTemplatePublish, call, systems.published},
		{put, "/templates/network/:name/published", seedbed.ActionTemplatePublish, call, nics.published},
		{put, "/templates/storage/:name/published", seedbed.ActionTemplatePublish, call, disks.published},
		{get, "/userdata", seedbed.ActionUserDataRead, call, documents.all},
		{post, "/userdata", seedbed.ActionUserDataManage, call, r.createUserData},
		{get, "/userdata/:name", seedbed.ActionUserDataRead, call, documents.one},
		{put, "/userdata/:name", seedbed.ActionUserDataManage, call, r.changeUserData},
		{del, "/userdata/:name", seedbed.ActionUserDataManage, call, documents.drop},
		{put, "/userdata/:name/published", seedbed.ActionUserDataPublish, call, documents.published},
		{get, "/scripts", seedbed.ActionScriptRead, call, scripts.all},
		{post, "/scripts", seedbed.ActionScriptManage, call, r.createScript},
		{get, "/scripts/:name", seedbed.ActionScriptRead, call, scripts.one},
		{put, "/scripts/:name", seedbed.ActionScriptManage, call, r.changeScript},
		{patch, "/scripts/:name/options", seedbed.ActionScriptManage, call, r.changeOptions},
		{del, "/scripts/:name", seedbed.ActionScriptManage, call, scripts.drop},
		{put, "/scripts/:name/published", seedbed.ActionScriptPublish, call, scripts.published},
	}
}

// router is a listener with the handlers of the native routes.
type router struct{ *server.Router }

// route is one of them, as a row of the table.
type route struct {
	method, path string
	action       seedbed.Action
	timeout      time.Duration
	handler      server.Handler
}

// of returns the route as the server knows it.
func (one route) of() server.Route {
	return server.Route{Method: one.method, Path: one.path, Action: one.action, Timeout: one.timeout, Handler: one.handler}
}

// Table returns the native routes on a listener.
func Table(on *server.Router) server.Table {
	r := &router{on}
	t := server.Table{Shown: r.shown, Keyed: true}
	for _, one := range slices.Concat(r.installationRoutes(), r.projectRoutes(), r.partRoutes()) {
		t.Routes = append(t.Routes, one.of())
	}
	return t
}
