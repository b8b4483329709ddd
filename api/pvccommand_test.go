package api_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPVCCommandsOfVM checks what the documentation says of each command of "pvc vm" against the routes that there are, and that what is
// refused is refused with a sentence.
func TestPVCCommandsOfVM(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/reference/pvc.md")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t)
	s.stored(t)
	// Other commands make the same requests.
	refusedByRoute := map[string]bool{"PUT /vm/{vm}": true, "POST /vm/{vm}/state": true}
	row := regexp.MustCompile("(?m)^\\| (.+) \\| `([A-Z]+) (/[^`]*)` \\| (works|differs|refused)(.*) \\|$")
	rows := row.FindAllStringSubmatch(string(text), -1)
	if len(rows) < 25 {
		t.Errorf("found %d rows", len(rows))
	}
	for _, row := range rows {
		commands, method, path, verdict := row[1], row[2], strings.TrimSuffix("/vm"+row[3], "/"), row[4]
		route := strings.ReplaceAll(path, "<vm>", "{vm}")
		item := description(t).Paths.Find(route)
		there := item != nil && item.GetOperation(method) != nil
		if verdict != "works" && !strings.HasPrefix(row[5], ": ") {
			t.Errorf("%s: the table does not say why", commands)
		}
		byRoute := refusedByRoute[method+" "+route]
		if verdict != "refused" || byRoute {
			if !there {
				t.Errorf("%s: there is no route %s %s", commands, method, route)
			}
			continue
		}
		r := s.do(t, method, "/api/v1"+strings.ReplaceAll(path, "<vm>", "web1"), "")
		if there || r.status < 400 || strings.Contains(r.body, "no such path") {
			t.Errorf("%s: %s %s answers %d %s", commands, method, route, r.status, r.body)
		}
	}
}
