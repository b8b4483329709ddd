package client_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"seedbed"
	"seedbed/api/client"
)

// TestListPages checks that a list longer than a page is read to its end, or to the limit.
func TestListPages(t *testing.T) {
	t.Parallel()
	const total = 2500
	requests := make(chan string, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		requests <- q.Get("after") + "+" + q.Get("limit")
		from, _ := strconv.Atoi(q.Get("after"))
		n, _ := strconv.Atoi(q.Get("limit"))
		page := []seedbed.Instance{}
		for i := from + 1; i <= min(total, from+n); i++ {
			page = append(page, seedbed.Instance{Name: fmt.Sprintf("%04d", i)})
		}
		if last := from + len(page); last < total {
			w.Header().Set("Link", fmt.Sprintf(`<https://elsewhere.example/x?after=%04d&limit=5>; rel="next"`, last))
		}
		json.NewEncoder(w).Encode(page)
	}))
	defer srv.Close()
	c, err := client.New(client.Options{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		limit, want int
		requests    []string
	}{
		{0, 2500, []string{"+1000", "1000+1000", "2000+1000"}},
		{1, 1, []string{"+1"}},
		{1000, 1000, []string{"+1000"}},
		{1001, 1001, []string{"+1000", "1000+1"}},
		{9999, 2500, []string{"+1000", "1000+1000", "2000+1000"}},
	} {
		all, err := c.ListInstances(t.Context(), seedbed.InstanceQuery{Scope: seedbed.AllProjects(), Limit: test.limit})
		if err != nil || len(all) != test.want || all[len(all)-1].Name != fmt.Sprintf("%04d", test.want) {
			t.Errorf("limit %d: %d instances, %v", test.limit, len(all), err)
		}
		for _, want := range test.requests {
			if got := <-requests; got != want {
				t.Errorf("limit %d: asked for %s, want %s", test.limit, got, want)
			}
		}
	}
}
