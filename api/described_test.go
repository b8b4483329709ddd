package api

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestEveryRouteIsDescribed checks that openapi.yaml has the paths and methods of the routes of both
// tables, and no others. It leaves out the root of PVC's API, which has no path below the server's.
func TestEveryRouteIsDescribed(t *testing.T) {
	t.Parallel()
	var doc struct {
		Paths map[string]map[string]any `yaml:"paths"`
	}
	if err := yaml.Unmarshal([]byte(Description), &doc); err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for path, item := range doc.Paths {
		for method := range item {
			if method != "parameters" {
				described[strings.ToUpper(method)+" "+path] = true
			}
		}
	}
	served := map[string]bool{}
	for _, r := range Routes() {
		if r.Path != "" {
			served[r.Method+" "+r.Described()] = true
		}
	}
	for _, route := range slices.Sorted(maps.Keys(served)) {
		if !described[route] {
			t.Errorf("%s is a route that openapi.yaml does not describe", route)
		}
	}
	for _, route := range slices.Sorted(maps.Keys(described)) {
		if !served[route] {
			t.Errorf("%s is described in openapi.yaml and is not a route: add it to routes.go", route)
		}
	}
}
