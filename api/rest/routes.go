// Package rest has the native routes of the API: one table, and the handlers.
package rest

import (
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

// installationRoutes returns the routes that only callers from the default project may call. They show
// and change what belongs to the installation as a whole.
func (r *router) installationRoutes() []route {
	const (
		get, post, put, patch, del = fiber.MethodGet, fiber.MethodPost, fiber.MethodPut, fiber.MethodPatch, fiber.MethodDelete
		viewer, operator, admin    = seedbed.RoleViewer, seedbed.RoleOperator, seedbed.RoleAdmin
		call                       = server.CallTimeout
	)
	systems, nics, disks := r.systemTemplates(), r.networkTemplates(), r.storageTemplates()
	documents, scripts, ovas := r.userData(), r.scripts(), r.ovaImages()
	return []route{
		// The installation.
		{get, "/doctor", viewer, doctorTimeout, r.doctor},
		{post, "/cleanup", admin, cleanTimeout, answer(r.cleanup)},
		{get, "/orphans", viewer, call, r.orphans().serve},
		{get, "/certificates/identity", viewer, call, r.certificate},

		// Networks and nodes.
		{patch, "/networks/:name", admin, call, r.changeNetwork},
		{get, "/leases", viewer, call, r.leases().serve},
		{get, "/nodes", viewer, call, r.nodes().serve},
		{post, "/nodes", admin, call, r.addNode},
		{get, "/nodes/:name", viewer, call, r.hypervisor},
		{patch, "/nodes/:name", admin, call, r.changeNode},
		{del, "/nodes/:name", admin, call, r.removeNode},
		{get, "/nodes/:name/maintenance", viewer, call, r.maintenance(r.nodeOf)},
		{post, "/nodes/:name/maintenance", admin, call, r.announce(r.nodeOf)},
		{post, "/maintenance/:id/complete", admin, call, r.endMaintenance(seedbed.MaintenanceCompleted)},
		{post, "/maintenance/:id/cancel", admin, call, r.endMaintenance(seedbed.MaintenanceCanceled)},

		// Projects and the audit log.
		{post, "/projects", admin, call, r.createProject},
		{patch, "/projects/:name", admin, call, r.changeProject},
		{put, "/projects/:name/quota", admin, call, r.setProjectQuota},
		{del, "/projects/:name", admin, call, r.deleteProject},
		{get, "/audit", admin, call, r.auditLog},

		// The catalogue. As a whole it includes all user-data and scripts.
		{post, "/images", operator, call, r.accept(r.importImage)},
		{del, "/images/:name", operator, call, r.acceptOn(r.removeImage)},
		{post, "/images/:name/content", operator, server.UploadTimeout, r.accept(r.uploadImage)},
		{post, "/profiles", operator, call, r.createProfile},
		{put, "/profiles/:name", operator, call, r.changeProfile},
		{del, "/profiles/:name", operator, call, r.deleteProfile},
		{get, "/catalogue", operator, cleanTimeout, r.exportCatalogue},
		{post, "/catalogue", operator, cleanTimeout, answer(r.importCatalogue)},

		// What profiles name. Documents and scripts may hold secrets.
		{get, "/templates/system", viewer, call, systems.all},
		{post, "/templates/system", operator, call, r.createSystemTemplate},
		{get, "/templates/system/:name", viewer, call, systems.one},
		{put, "/templates/system/:name", operator, call, r.changeSystemTemplate},
		{del, "/templates/system/:name", operator, call, systems.drop},
		{get, "/templates/network", viewer, call, nics.all},
		{post, "/templates/network", operator, call, r.newNetworkTemplate},
		{get, "/templates/network/:name", viewer, call, nics.one},
		{del, "/templates/network/:name", operator, call, nics.drop},
		{post, "/templates/network/:name/vnis", operator, call, r.addVNI},
		{del, "/templates/network/:name/vnis/:vni", operator, call, r.removeVNI},
		{get, "/templates/storage", viewer, call, disks.all},
		{post, "/templates/storage", operator, call, r.newStorageTemplate},
		{get, "/templates/storage/:name", viewer, call, disks.one},
		{del, "/templates/storage/:name", operator, call, disks.drop},
		{post, "/templates/storage/:name/disks", operator, call, r.addDisk},
		{del, "/templates/storage/:name/disks/:disk", operator, call, r.removeDisk},
		{get, "/userdata", operator, call, documents.all},
		{post, "/userdata", operator, call, r.createUserData},
		{get, "/userdata/:name", operator, call, documents.one},
		{put, "/userdata/:name", operator, call, r.changeUserData},
		{del, "/userdata/:name", operator, call, documents.drop},
		{get, "/scripts", operator, call, scripts.all},
		{post, "/scripts", operator, call, r.createScript},
		{get, "/scripts/:name", operator, call, scripts.one},
		{put, "/scripts/:name", operator, call, r.changeScript},
		{patch, "/scripts/:name/options", operator, call, r.changeOptions},
		{del, "/scripts/:name", operator, call, scripts.drop},
		{get, "/ovas", viewer, call, ovas.all},
		{get, "/ovas/:name", viewer, call, ovas.one},
		{post, "/ovas/:name/content", operator, server.UploadTimeout, r.accept(r.uploadOVA)},
		{del, "/ovas/:name", operator, call, r.acceptOn(r.removeOVA)},

		{post, "/plan/import", operator, call, answer(r.planImport)},

		// Domains that can be adopted.
		{get, "/domains", viewer, call, r.domains().serve},
		{get, "/domains/:name", viewer, call, r.domain},
		{post, "/domains/:name/adopt", operator, call, r.accept(r.adopt)},
		{post, "/instances/:name/forget", operator, call, r.acceptOn(r.forget)},

		// The trash of the pools.
		{get, "/trash", viewer, call, r.trash().serve},
		{post, "/trash", operator, binTimeout, r.discardVolume},
		{post, "/trash/:pool/:id/restore", operator, call, answer(r.restoreVolume)},
		{del, "/trash/:pool/:id", operator, binTimeout, r.purgeVolume},
	}
}

// projectRoutes returns the routes that callers of every project may call. They show and change what
// belongs to the caller's project, and show what all projects share.
func (r *router) projectRoutes() []route {
	const (
		get, post, put, patch, del = fiber.MethodGet, fiber.MethodPost, fiber.MethodPut, fiber.MethodPatch, fiber.MethodDelete
		viewer, operator, admin    = seedbed.RoleViewer, seedbed.RoleOperator, seedbed.RoleAdmin
		call                       = server.CallTimeout
	)
	return []route{
		// The installation, and what its projects share.
		{get, "/health", server.Anyone, call, r.health},
		{get, "/openapi.yaml", viewer, call, r.description},
		{get, "/overview", viewer, call, answer(r.overview)},
		{get, "/events", viewer, call, r.allEvents},
		{get, "/projects", viewer, call, r.projects().serve},
		{get, "/projects/:name", viewer, call, r.project},
		{get, "/networks", viewer, call, r.networks().serve},
		{get, "/networks/:name", viewer, call, r.network},
		{get, "/images", viewer, call, r.images().serve},
		{get, "/images/:name", viewer, call, r.image},
		{get, "/profiles", viewer, call, r.profiles},
		{get, "/profiles/:name", viewer, call, r.profile},

		// Instances. Metadata and the console may hold secrets.
		{get, "/instances", viewer, call, r.instances},
		{post, "/instances", operator, call, r.accept(r.createInstance)},
		{get, "/instances/:name", viewer, call, r.instance},
		{patch, "/instances/:name", operator, call, r.changeInstance},
		{del, "/instances/:name", operator, call, r.acceptOn(r.removeInstance)},
		{get, "/instances/:name/console", operator, call, r.console},
		{get, "/instances/:name/access", viewer, call, r.access},
		{get, "/instances/:name/metadata", operator, call, r.metadata},
		{get, "/instances/:name/maintenance", viewer, call, r.maintenance(r.instanceOf)},
		{post, "/instances/:name/maintenance", operator, call, r.announce(r.instanceOf)},
		{post, "/instances/:name/start", operator, call, r.acceptOn(r.startInstance)},
		{post, "/instances/:name/stop", operator, call, r.power(seedbed.DoStop)},
		{post, "/instances/:name/reboot", operator, call, r.power(seedbed.DoReboot)},
		{post, "/instances/:name/rebuild", operator, call, r.acceptOn(r.rebuild)},
		{post, "/instances/:name/flatten", operator, call, r.acceptOn(r.flatten)},
		{post, "/instances/:name/resize", operator, call, r.resize},
		{get, "/instances/:name/snapshots", viewer, call, r.snapshots().serve},
		{post, "/instances/:name/snapshots", operator, call, r.acceptOn(r.takeSnapshot)},
		{del, "/instances/:name/snapshots/:snapshot", operator, call, r.acceptOn(r.removeSnapshot)},
		{post, "/plan", operator, call, answer(r.plan)},

		// Jobs. A script may print anything.
		{get, "/jobs", viewer, call, r.jobs},
		{get, "/jobs/:id", viewer, call, r.job},
		{get, "/jobs/:id/events", viewer, server.MaxWait + server.CallTimeout, r.events},
		{get, "/jobs/:id/output", operator, server.MaxWait + server.CallTimeout, answer(r.jobOutput)},
		{post, "/jobs/:id/cancel", operator, call, r.cancelJob},
		{post, "/jobs/:id/retry", operator, call, r.accept(r.retryJob)},
		{post, "/jobs/:id/undo", operator, call, r.undoJob},

		// Tokens.
		{get, "/tokens", admin, call, r.tokens().serve},
		{post, "/tokens", admin, call, r.createToken},
		{get, "/tokens/:name", admin, call, r.token},
		{del, "/tokens/:name", admin, call, r.deleteToken},
		{put, "/tokens/:name/quota", admin, call, r.setTokenQuota},

		// Webhooks that come in. A delivery includes its payload.
		{get, "/hooks", viewer, call, r.hooks().serve},
		{post, "/hooks", admin, call, r.createHook},
		{get, "/hooks/:name", viewer, call, r.hook},
		{patch, "/hooks/:name", admin, call, r.changeHook},
		{del, "/hooks/:name", admin, call, r.deleteHook},
		{post, "/hooks/:name/rotate", admin, call, r.rotateHook},
		{del, "/hooks/:name/keys/:id", admin, call, r.removeHookKey},
		{post, "/hooks/:name/test", admin, call, answer(r.testHook)},
		{get, "/hooks/:name/deliveries", viewer, call, r.hookDeliveries},
		{get, "/hooks/:name/deliveries/:id", operator, call, r.delivery},
		{post, "/hooks/:name/deliveries/:id/redeliver", admin, call, r.redeliver},
		{get, "/deliveries", viewer, call, r.deliveries},
		{get, "/deliveries/rejected", viewer, call, r.rejections},

		// Webhooks that go out.
		{get, "/endpoints", viewer, call, r.endpoints().serve},
		{post, "/endpoints", admin, call, r.createEndpoint},
		{get, "/endpoints/:name", viewer, call, r.endpoint},
		{patch, "/endpoints/:name", admin, call, r.changeEndpoint},
		{del, "/endpoints/:name", admin, call, r.deleteEndpoint},
		{post, "/endpoints/:name/rotate", admin, call, r.rotateEndpoint},
		{post, "/endpoints/:name/test", admin, doctorTimeout, answer(r.testEndpoint)},
		{post, "/endpoints/:name/replay", admin, call, r.replay},
		{get, "/endpoints/:name/deliveries", viewer, call, r.outgoing},
		{post, "/endpoints/:name/deliveries/:id/resend", admin, call, r.resend},
	}
}

// router is a listener with the handlers of the native routes.
type router struct{ *server.Router }

// route is one of them, as a row of the table.
type route struct {
	method, path string
	role         seedbed.Role
	timeout      time.Duration
	handler      server.Handler
}

// of returns the route as the server knows it.
func (one route) of(inProject bool) server.Route {
	return server.Route{Method: one.method, Path: one.path, Role: one.role, Timeout: one.timeout, Handler: one.handler, InProject: inProject}
}

// Table returns the native routes on a listener.
func Table(on *server.Router) server.Table {
	r := &router{on}
	t := server.Table{Shown: r.shown, Keyed: true}
	for _, one := range r.installationRoutes() {
		t.Routes = append(t.Routes, one.of(false))
	}
	for _, one := range r.projectRoutes() {
		t.Routes = append(t.Routes, one.of(true))
	}
	return t
}
