package pvc

import (
	"context"
	"strings"
	"time"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// table collects the routes of PVC's API.
type table struct {
	r      *router
	routes []route
}

// routing adds a route whose parameters are in the query or in the body, for callers that may do action.
type routing func(action seedbed.Action, path string, h handler)

// add adds a route with the parameters that read returns.
func (t *table) add(
	method string, action seedbed.Action, path string, timeout time.Duration, read func(*fiber.Ctx) (*fields, error), h handler,
) {
	handle := func(ctx context.Context, c *fiber.Ctx) error {
		f, err := read(c)
		if err != nil {
			return err
		}
		return h(ctx, c, f)
	}
	t.routes = append(t.routes, route{Method: method, Path: path, Action: action, Timeout: timeout, Handler: handle})
}

// method returns a function that adds routes of one method.
func (t *table) method(method string) routing {
	return func(action seedbed.Action, path string, h handler) {
		t.add(method, action, path, server.CallTimeout, t.r.parameters, h)
	}
}

// routes returns all routes of PVC's API.
func (r *router) routes() []route {
	t := &table{r: r}
	get, post, put, del := t.method(fiber.MethodGet), t.method(fiber.MethodPost), t.method(fiber.MethodPut), t.method(fiber.MethodDelete)

	root := func(_ context.Context, c *fiber.Ctx, _ *fields) error { return say(c, version) }
	get(server.Anyone, "", root)
	get(server.Anyone, "/", root)
	for _, at := range []string{"", "/auth"} {
		t.routes = append(t.routes,
			route{Method: fiber.MethodPost, Path: at + "/login", Action: server.Anyone, Timeout: server.CallTimeout, Handler: r.login},
			route{Method: fiber.MethodPost, Path: at + "/logout", Action: server.Anyone, Timeout: server.CallTimeout, Handler: r.logout})
	}
	get(seedbed.ActionInstallationRead, "/status", r.status)
	post(seedbed.ActionMaintenanceSwitch, "/status", r.setMaintenance)
	get(server.Anyone, "/status/primary_node", r.primaryNode)
	r.vmRoutes(t, get, post)
	r.nodeRoutes("/node", get)
	r.netRoutes("/network", get, post, put, del)
	r.volumeRoutes("/storage/ceph/volume", get, put)
	get(seedbed.ActionJobRead, "/tasks", r.tasks)
	get(seedbed.ActionJobRead, "/tasks/:id", r.task)

	const p = "/provisioner"
	get(seedbed.ActionJobRead, p+"/status", r.legacyTasks)
	get(seedbed.ActionJobRead, p+"/status/:id", r.task)
	get(seedbed.ActionTemplateRead, p+"/template", r.allTemplates)
	post(seedbed.ActionInstanceCreate, p+"/create", r.starting(r.composeVM))
	r.systemRoutes(p+"/template/system", get, post, put, del)
	r.networkRoutes(p+"/template/network", get, post, del)
	r.storageRoutes(p+"/template/storage", get, post, del)
	r.textRoutes(p, get, post, put, del)
	r.profileRoutes(p+"/profile", get, post, put, del)
	r.ovaRoutes(t, p+"/ova", get)
	return t.routes
}

// segmentsOf returns the first segments of the paths of routes, and of those that PVC has and Seedbed
// does not.
func segmentsOf(routes []route) map[string]bool {
	all := map[string]bool{}
	for _, a := range absences {
		all[segments(a.path)[0]] = true
	}
	for _, one := range routes {
		first, _, _ := strings.Cut(strings.TrimPrefix(one.Path, "/"), "/")
		all[first] = true
	}
	return all
}

// owns reports whether a path belongs to PVC's API, whose answers have PVC's form.
func owns(segments map[string]bool, path string) bool {
	rest, ok := strings.CutPrefix(path, server.Prefix)
	if !ok || rest != "" && rest[0] != '/' {
		return false
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	return segments[first]
}

// router is a listener with the handlers of PVC's routes.
type router struct{ *server.Router }

// route is one of them.
type route server.Route

// Table returns the routes of PVC's API on a listener.
func Table(on *server.Router) server.Table {
	r := &router{on}
	routes := r.routes()
	segments := segmentsOf(routes)
	t := server.Table{
		Shown: r.shownComposed, Fail: r.fail, Refuse: refuse,
		Owns: func(path string) bool { return owns(segments, path) },
	}
	for _, one := range routes {
		t.Routes = append(t.Routes, server.Route(one))
	}
	return t
}
