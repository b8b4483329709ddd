package api_test

import (
	"regexp"
	"strings"
	"testing"
)

// pvcResources are the resources of PVC's provisioner, each with its methods.
var pvcResources = map[string]string{
	"": "GET", "/template": "GET",
	"/template/system": "GET POST", "/template/system/*": "GET POST PUT DELETE",
	"/template/network": "GET POST", "/template/network/*": "GET POST DELETE",
	"/template/network/*/net": "GET POST", "/template/network/*/net/*": "GET POST DELETE",
	"/template/storage": "GET POST", "/template/storage/*": "GET POST DELETE",
	"/template/storage/*/disk": "GET POST", "/template/storage/*/disk/*": "GET POST DELETE",
	"/userdata": "GET POST", "/userdata/*": "GET POST PUT DELETE",
	"/script": "GET POST", "/script/*": "GET POST PUT DELETE",
	"/profile": "GET POST", "/profile/*": "GET POST PUT DELETE",
	"/ova": "GET POST", "/ova/*": "GET POST DELETE",
	"/create": "POST",
}

// all52 checks that the test has called every method of PVC's provisioner.
func (s *server) all52(t *testing.T) {
	t.Helper()
	n := 0
	for resource, methods := range pvcResources {
		for method := range strings.FieldsSeq(methods) {
			n++
			pattern := regexp.MustCompile("^" + method + " /provisioner" + strings.ReplaceAll(resource, "*", "[^/]+") + "$")
			asked := false
			for _, a := range s.asked {
				asked = asked || pattern.MatchString(a)
			}
			if !asked {
				t.Errorf("no request of the table is %s /provisioner%s", method, resource)
			}
		}
	}
	if n != 52 {
		t.Errorf("there are %d methods in the list, want 52", n)
	}
}
