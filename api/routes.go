package api

import (
	"context"
	_ "embed"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
)

// Description is openapi.yaml, which describes every route.
//
//go:embed openapi.yaml
var Description string

// How long a handler may take. The longer ones are for effects on many things.
const (
	callTimeout   = 20 * time.Second
	doctorTimeout = 50 * time.Second
	cleanTimeout  = 110 * time.Second
)

const (
	prefix     = "/api/v1"
	healthPath = prefix + "/health"
	// metricsPath is where Prometheus looks.
	metricsPath = "/metrics"
)

// router is a Server on one listener.
type router struct {
	*Server
	auth bool
	gate httpserve.Gate
	base context.Context
	// stopping ends waits for events.
	stopping <-chan struct{}
}

// handler answers one request; ctx ends with its time.
type handler func(ctx context.Context, c *fiber.Ctx) error

func (r *router) routes(app *fiber.App) {
	get := func(path string, h handler) { app.Get(prefix+path, r.within(callTimeout, h)) }
	post := func(path string, h handler) { app.Post(prefix+path, r.within(callTimeout, h)) }
	patch := func(path string, h handler) { app.Patch(prefix+path, r.within(callTimeout, h)) }
	del := func(path string, h handler) { app.Delete(prefix+path, r.within(callTimeout, h)) }

	get("/health", r.health)
	get("/openapi.yaml", r.description)
	app.Get(prefix+"/doctor", r.within(doctorTimeout, r.doctor))
	app.Post(prefix+"/cleanup", r.within(cleanTimeout, r.cleanup))
	get("/networks", r.networks)
	get("/networks/:name", r.network)
	patch("/networks/:name", r.changeNetwork)
	get("/certificates/identity", r.certificate)
	get("/nodes", r.hypervisors)
	post("/nodes", r.addNode)
	get("/nodes/:name", r.hypervisor)
	patch("/nodes/:name", r.changeNode)
	del("/nodes/:name", r.removeNode)
	get("/nodes/:name/maintenance", r.maintenance(r.nodeOf))
	post("/nodes/:name/maintenance", r.announce(r.nodeOf))
	post("/maintenance/:id/complete", r.endMaintenance(seedbed.MaintenanceCompleted))
	post("/maintenance/:id/cancel", r.endMaintenance(seedbed.MaintenanceCanceled))
	get("/leases", r.leases)
	get("/tokens", r.tokens)
	post("/tokens", r.createToken)
	del("/tokens/:name", r.deleteToken)
	app.Put(prefix+"/tokens/:name/quota", r.within(callTimeout, r.setTokenQuota))
	get("/audit", r.auditLog)

	get("/images", r.images)
	post("/images", r.importImage)
	get("/images/:name", r.image)
	app.Post(prefix+"/images/:name/content", r.within(uploadTimeout, r.uploadImage))

	r.profileRoutes(app)

	get("/endpoints", r.endpoints)
	post("/endpoints", r.createEndpoint)
	get("/endpoints/:name", r.endpoint)
	patch("/endpoints/:name", r.changeEndpoint)
	del("/endpoints/:name", r.deleteEndpoint)
	post("/endpoints/:name/rotate", r.rotateEndpoint)
	app.Post(prefix+"/endpoints/:name/test", r.within(doctorTimeout, r.testEndpoint))
	post("/endpoints/:name/replay", r.replay)
	get("/endpoints/:name/deliveries", r.outgoing)
	post("/endpoints/:name/deliveries/:id/resend", r.resend)

	r.hookRoutes(app)
	r.volumeRoutes(app)
	r.powerRoutes(app)
	r.adoptRoutes(app)
	r.trashRoutes(app)
	r.pvcRoutes(app)

	get("/instances", r.instances)
	post("/instances", r.createInstance)
	get("/instances/:name", r.instance)
	patch("/instances/:name", r.changeInstance)
	del("/instances/:name", r.removeInstance)
	get("/instances/:name/console", r.console)
	get("/instances/:name/access", r.access)
	get("/instances/:name/metadata", r.metadata)
	get("/instances/:name/maintenance", r.maintenance(r.instanceOf))
	post("/instances/:name/maintenance", r.announce(r.instanceOf))

	get("/overview", r.overview)
	get("/events", r.allEvents)
	r.catalogueRoutes(app)
	get("/jobs", r.jobs)
	get("/jobs/:id", r.job)
	app.Get(prefix+"/jobs/:id/events", r.within(maxWait+callTimeout, r.events))
	app.Get(prefix+"/jobs/:id/output", r.within(maxWait+callTimeout, r.jobOutput))
	post("/jobs/:id/cancel", r.cancelJob)
	post("/jobs/:id/retry", r.retryJob)
	post("/jobs/:id/undo", r.undoJob)
	get("/orphans", r.orphans)
}

// within runs h under a deadline, unless the server is stopping.
func (r *router) within(d time.Duration, h handler) fiber.Handler {
	return func(c *fiber.Ctx) error {
		if !r.gate.Enter() {
			return httpserve.Problem{Status: fiber.StatusServiceUnavailable, Kind: "unavailable", Detail: "seedbedd is stopping"}
		}
		defer r.gate.Leave()
		ctx, cancel := context.WithTimeout(r.base, d)
		defer cancel()
		ctx, err := r.withJobOptions(ctx, c)
		if err != nil {
			return err
		}
		return h(r.changing(ctx, c), c)
	}
}
