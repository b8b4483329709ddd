package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"seedbed"
	"seedbed/api/client"
)

// The kind of an error is the same on both sides of the API.
func ExampleClient_Instance() {
	// A server that has one instance.
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/instances/web1" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"kind": %q, "detail": "instance \"web9\" does not exist"}`, seedbed.KindName(seedbed.ErrNotFound))
			return
		}
		fmt.Fprint(w, `{"name": "web1", "profile": "web", "vcpus": 2}`)
	}))
	defer api.Close()

	c, err := client.New(client.Options{URL: api.URL, Token: "a token of seedbed token add"})
	if err != nil {
		fmt.Println(err)
		return
	}
	instance, err := c.Instance(context.Background(), "web1")
	fmt.Println(instance.Name, instance.VCPUs, err)
	_, err = c.Instance(context.Background(), "web9")
	fmt.Println(errors.Is(err, seedbed.ErrNotFound), err)
	// Output:
	// web1 2 <nil>
	// true instance "web9" does not exist
}
