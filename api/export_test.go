package api

import (
	"regexp"

	"seedbed/api/server"
)

// Anyone is the action of a route that needs no token.
const Anyone = server.Anyone

// Route is a route of a table.
type Route struct{ server.Route }

// Routes returns the routes of both tables.
func Routes() (all []Route) {
	for _, table := range tables(&server.Router{Server: server.New(server.Config{Store: struct{ server.Store }{}})}) {
		for _, r := range table.Routes {
			all = append(all, Route{r})
		}
	}
	return all
}

var pathParam = regexp.MustCompile(`:(\w+)`)

// Described returns the path as openapi.yaml writes it.
func (r Route) Described() string { return pathParam.ReplaceAllString(r.Path, "{$1}") }

// NativeRoutes returns the routes of the native table.
func NativeRoutes() (all []Route) {
	for _, r := range tables(&server.Router{Server: server.New(server.Config{Store: struct{ server.Store }{}})})[0].Routes {
		all = append(all, Route{r})
	}
	return all
}
