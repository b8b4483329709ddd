package api_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"seedbed/api"
)

var (
	nullType = regexp.MustCompile(`type: \[(\w+), "null"\]`)
	nullRef  = regexp.MustCompile(`anyOf: \[(\{\$ref: "[^"]+"\}), \{type: "null"\}\]`)
)

// description returns openapi.yaml, which is parsed once for all tests.
func description(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// parsed reads and validates openapi.yaml. The validator supports OpenAPI 3.0, which declares null
// differently, so the document is converted first.
var parsed = sync.OnceValues(func() (*openapi3.T, error) {
	text, found := strings.CutPrefix(api.Description, "openapi: 3.1.0\n")
	if !found || strings.Contains(text, "nullable") {
		return nil, fmt.Errorf("openapi.yaml is not of OpenAPI 3.1: %.40s", api.Description)
	}
	text = nullType.ReplaceAllString(text, "type: $1, nullable: true")
	text = nullRef.ReplaceAllString(text, "nullable: true, allOf: [$1]")
	doc, err := openapi3.NewLoader().LoadFromData([]byte("openapi: 3.0.3\n" + text))
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

// TestInstallationIsDescribed checks that the description of each native operation says whether only
// callers from the default project may call it.
func TestInstallationIsDescribed(t *testing.T) {
	t.Parallel()
	paths := description(t).Paths
	for _, r := range api.NativeRoutes() {
		operation := paths.Value(r.Described()).GetOperation(r.Method)
		said := strings.Contains(operation.Description, "Only from the project default.")
		if said == r.InProject() {
			t.Errorf("%s %s: for callers of every project: openapi.yaml says %v, and the table %v", r.Method, r.Path, !said, r.InProject())
		}
	}
}

// TestEveryActionIsDescribed checks that the description of each operation names the action that it
// requires, and that one for anyone says that it needs no token.
func TestEveryActionIsDescribed(t *testing.T) {
	t.Parallel()
	paths, said := description(t).Paths, regexp.MustCompile(`Requires ([a-z]+\.[a-z]+)\.`)
	for _, r := range api.Routes() {
		if r.Path == "" {
			continue
		}
		operation := paths.Value(r.Described()).GetOperation(r.Method)
		got := ""
		if m := said.FindAllStringSubmatch(operation.Description, -1); len(m) == 1 {
			got = m[0][1]
		}
		if free := operation.Security != nil && len(*operation.Security) == 0; free != (r.Action == api.Anyone) || got != string(r.Action) {
			t.Errorf("%s %s: openapi.yaml says the action %q, and the table %q", r.Method, r.Path, got, r.Action)
		}
	}
}

// routes returns a router of the description for the API at url.
func routes(t *testing.T, url string) routers.Router {
	t.Helper()
	doc := *description(t)
	doc.Servers = openapi3.Servers{{URL: url + "/api/v1"}}
	r, err := legacy.NewRouter(&doc, openapi3.DisableSchemaPatternValidation()) // description has compiled the patterns
	if err != nil {
		t.Fatal(err)
	}
	return r
}
