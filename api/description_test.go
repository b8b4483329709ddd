package api_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"seedbed/api"
)

var (
	nullType = regexp.MustCompile(`type: \[(\w+), "null"\]`)
	nullRef  = regexp.MustCompile(`anyOf: \[(\{\$ref: "[^"]+"\}), \{type: "null"\}\]`)
)

// description returns openapi.yaml. The validator supports OpenAPI 3.0, which declares null
// differently, so the document is converted first.
func description(t *testing.T) *openapi3.T {
	t.Helper()
	text, found := strings.CutPrefix(api.Description, "openapi: 3.1.0\n")
	if !found || strings.Contains(text, "nullable") {
		t.Fatalf("openapi.yaml is not of OpenAPI 3.1: %.40s", api.Description)
	}
	text = nullType.ReplaceAllString(text, "type: $1, nullable: true")
	text = nullRef.ReplaceAllString(text, "nullable: true, allOf: [$1]")
	doc, err := openapi3.NewLoader().LoadFromData([]byte("openapi: 3.0.3\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return doc
}
