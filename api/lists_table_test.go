package api_test

const (
	single  = "it shows one object"
	bytes_  = "it answers bytes"
	follows = "it is followed by its numbers, in answers of bounded size"
	short   = "it has at most 52 entries"
	summary = "it sums up the installation"
)

// listRoutes has a row for each native route that is read: empty if it answers a list in pages, and
// otherwise the reason why it does not.
var listRoutes = map[string]string{
	"GET /health":                      summary,
	"GET /openapi.yaml":                bytes_,
	"GET /doctor":                      summary,
	"GET /overview":                    summary,
	"GET /events":                      follows,
	"GET /orphans":                     "",
	"GET /certificates/identity":       bytes_,
	"GET /networks":                    "",
	"GET /networks/:name":              single,
	"GET /leases":                      "",
	"GET /nodes":                       "",
	"GET /nodes/:name":                 single,
	"GET /nodes/:name/maintenance":     short,
	"GET /projects":                    "",
	"GET /projects/:name":              single,
	"GET /whoami":                      single,
	"GET /actions":                     "a release has a fixed number of them",
	"GET /roles":                       "",
	"GET /roles/:name":                 single,
	"GET /tokens":                      "",
	"GET /tokens/:name":                single,
	"GET /signin":                      "it sends a browser elsewhere",
	"GET /signin/provider":             single,
	"GET /signin/callback":             "it is a page for a browser",
	"GET /sessions":                    "",
	"GET /sessions/:id":                single,
	"GET /audit":                       "",
	"GET /images":                      "",
	"GET /images/:name":                single,
	"GET /profiles":                    "",
	"GET /profiles/:name":              single,
	"GET /catalogue":                   "it is one file, which may be signed",
	"GET /templates/system":            "",
	"GET /templates/system/:name":      single,
	"GET /templates/network":           "",
	"GET /templates/network/:name":     single,
	"GET /templates/storage":           "",
	"GET /templates/storage/:name":     single,
	"GET /userdata":                    "",
	"GET /userdata/:name":              single,
	"GET /scripts":                     "",
	"GET /scripts/:name":               single,
	"GET /ovas":                        "",
	"GET /ovas/:name":                  single,
	"GET /hooks":                       "",
	"GET /hooks/:name":                 single,
	"GET /hooks/:name/deliveries":      "",
	"GET /hooks/:name/deliveries/:id":  single,
	"GET /deliveries":                  "",
	"GET /deliveries/rejected":         "",
	"GET /endpoints":                   "",
	"GET /endpoints/:name":             single,
	"GET /endpoints/:name/deliveries":  "",
	"GET /instances":                   "",
	"GET /instances/:name":             single,
	"GET /instances/:name/console":     bytes_,
	"GET /instances/:name/access":      "",
	"GET /instances/:name/metadata":    bytes_,
	"GET /instances/:name/maintenance": short,
	"GET /instances/:name/snapshots":   "",
	"GET /domains":                     "",
	"GET /domains/:name":               single,
	"GET /jobs":                        "",
	"GET /jobs/:id":                    single,
	"GET /jobs/:id/events":             follows,
	"GET /jobs/:id/output":             follows,
	"GET /trash":                       "",
}

// selections has filters of lists: the query, how many objects of listable it selects, or -1 if it is
// refused.
var selections = []struct {
	query string
	want  int
}{
	{"/networks?name=def", 1}, {"/networks?name=-", -1},
	{"/leases?instance=web1", 1}, {"/leases?instance=none", -1}, {"/leases?instance=_", -1},
	{"/nodes?state=cordoned", 0}, {"/nodes?state=away", 1}, {"/nodes?state=ready", 1}, {"/nodes?name=hv", 1}, {"/nodes?state=on", -1},
	{"/tokens?role=viewer", 1}, {"/tokens?role=operator", 1}, {"/tokens?name=r", 1}, {"/tokens?role=boss", -1},
	{"/images?state=active&name=spare", 1}, {"/images?state=importing", 0}, {"/images?pool=none", 0}, {"/images?node=none", 0},
	{"/images?pool=a/b", -1}, {"/images?state=x", -1},
	{"/hooks?name=c", 1}, {"/hooks?scheme=standard", 2}, {"/hooks?scheme=github", 0}, {"/hooks?scheme=x", -1},
	{"/endpoints?enabled=true", 2}, {"/endpoints?enabled=false", 0}, {"/endpoints?enabled=1", -1},
	{"/orphans?kind=stage", 2}, {"/orphans?kind=volume", 0}, {"/orphans?node=none", 0}, {"/orphans?kind=x", -1}, {"/orphans?pool=-", -1},
	{"/trash?state=trashed", 2}, {"/trash?state=restored", 0}, {"/trash?instance=web1", 2}, {"/trash?instance=web2", 0},
	{"/trash?pool=none", 0}, {"/trash?state=x", -1},
	{"/domains?state=off", 2}, {"/domains?state=running", 0}, {"/domains?state=x", -1},
	{"/deliveries?hook=ci", 2}, {"/deliveries?decision=ignored", 2}, {"/deliveries?decision=refused", 1},
	{"/deliveries?decision=accepted", 0},
	{"/deliveries?hook=none", 0}, {"/deliveries?since=2026-01-01T00:00:00Z", 3}, {"/deliveries?since=2999-01-01T00:00:00Z", 0},
	{"/deliveries?decision=x", -1}, {"/deliveries?since=x", -1}, {"/deliveries?hook=-", -1}, {"/hooks/ci/deliveries?decision=ignored", 1},
	{"/deliveries/rejected?hook=ci", 2}, {"/deliveries/rejected?hook=other", 1}, {"/deliveries/rejected?since=2999-01-01T00:00:00Z", 0},
	{"/deliveries/rejected?since=1", -1},
	{"/endpoints/out/deliveries?state=sent", 0}, {"/endpoints/out/deliveries?since=2999-01-01T00:00:00Z", 0},
	{"/endpoints/out/deliveries?state=x", -1}, {"/endpoints/out/deliveries?after=x", -1},
	{"/instances/web1/access?kind=lease", 1}, {"/instances/web1/access?since=x", -1},
	{"/sessions?user=anna", 1}, {"/sessions?user=nobody", 0}, {"/sessions?user=a+b", -1},
	{"/audit?actor=nobody", 0}, {"/audit?since=2999-01-01T00:00:00Z", 0}, {"/audit?since=x", -1},
	{"/audit?after=x", -1}, {"/audit?before=-1", -1},
	{"/jobs?subject=web2", 1}, {"/jobs?subject=none", 0}, {"/jobs?node=none", 0}, {"/jobs?subject=-", -1},
}
