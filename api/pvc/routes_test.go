package pvc

import (
	"testing"

	"seedbed/api/server"
)

func TestOwns(t *testing.T) {
	t.Parallel()
	segments := segmentsOf((&router{Router: &server.Router{Server: server.New(server.Config{Store: struct{ server.Store }{}})}}).routes())
	for path, want := range map[string]bool{
		"/api/v1": true, "/api/v1/": true, "/api/v1/login": true, "/api/v1/auth/login": true,
		"/api/v1/tasks/x": true, "/api/v1/provisioner/x/y": true, "/api/v1/status": true,
		"/api/v1/instances": false, "/api/v1x": false, "/api/v1/loginx": false, "/metrics": false, "/": false, "/api/v1/profiles/login": false,
	} {
		if owns(segments, path) != want {
			t.Errorf("%s: %t", path, !want)
		}
	}
}
