package main

import "testing"

func TestParseAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in     string
		status int
		body   string
		whole  bool
		fails  bool
	}{
		"nothing yet":         {in: ""},
		"half a head":         {in: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"},
		"half a body":         {in: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na"},
		"whole":               {in: "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 2\r\n\r\nab", status: 200, body: "ab", whole: true},
		"empty":               {in: "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", status: 404, whole: true},
		"more than announced": {in: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc", fails: true},
		"no length":           {in: "HTTP/1.1 200 OK\r\nServer: x\r\n\r\n", fails: true},
		"negative length":     {in: "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n", fails: true},
		"no HTTP":             {in: "SSH-2.0\r\nContent-Length: 0\r\n\r\n", fails: true},
		"no status":           {in: "HTTP/1.1 x\r\nContent-Length: 0\r\n\r\n", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, whole, err := parseAnswer([]byte(c.in))
			if (err != nil) != c.fails {
				t.Fatalf("error %v, want one: %v", err, c.fails)
			}
			if err == nil && (whole != c.whole || a.status != c.status || string(a.body) != c.body) {
				t.Errorf("status %d, body %q, whole %v", a.status, a.body, whole)
			}
		})
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 2\r\n\r\nab"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, whole, err := parseAnswer(b); err == nil && whole && len(a.body) > len(b) {
			t.Errorf("a body of %d bytes in an answer of %d", len(a.body), len(b))
		}
	})
}
