package api_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// asked is one request of a history.
type asked struct{ method, path, body string }

// history returns random requests of a tenant.
func history(random *rand.Rand, n int) (all []asked) {
	name := func() string { return fmt.Sprint("web", 1+random.IntN(4)) }
	part := func() string { return fmt.Sprint("p", 1+random.IntN(3)) } // of the catalogue
	for range n {
		i := "/instances/" + name()
		choices := []asked{
			{"POST", "/instances", `{"name":"` + name() + `","profile":"small"}`},
			{"POST", "/instances", `{"name":"` + name() + `","image":"debian"}`},
			{"POST", "/plan", `{"action":"create","name":"` + name() + `","profile":"small"}`},
			{"GET", i, ""}, {"DELETE", i, ""}, {"POST", i + "/stop", `{"force":true}`}, {"POST", i + "/start", ""},
			{"PATCH", i, `{"tags":{"n":"` + name() + `"}}`}, {"POST", i + "/resize", `{"disk":"1","size":"20GiB"}`},
			{"GET", i + "/access", ""}, {"GET", i + "/snapshots", ""}, {"POST", i + "/flatten", ""},
			{"GET", "/instances?name=web", ""}, {"GET", "/instances?limit=2", ""}, {"GET", "/instances?state=running", ""},
			{"GET", "/jobs?limit=3", ""}, {"GET", "/jobs?kind=remove", ""}, {"GET", "/jobs?subject=" + name(), ""},
			{"GET", "/overview", ""}, {"GET", "/trash", ""}, {"GET", "/leases", ""}, {"GET", "/orphans", ""},
			{"POST", "/trash/default/t1/restore", ""}, {"DELETE", "/trash/default/t2", ""},
			{"GET", "/images", ""}, {"GET", "/images/debian", ""}, {"GET", "/images/draft", ""}, {"GET", "/networks", ""},
			{"DELETE", "/images/debian", ""}, {"PUT", "/images/default%2Fdraft/published", `{"all":true}`},
			{"GET", "/projects", ""}, {"GET", "/projects/a", ""}, {"GET", "/vm", ""}, {"GET", "/tasks", ""},
			{"POST", "/provisioner/create?name=" + name() + "&profile=made", ""},
		}
		catalogue := []asked{
			{"POST", "/profiles", `{"name":"` + part() + `","image":"debian","vcpus":1,"memory":"512MiB","system_template":""}`},
			{"POST", "/profiles", `{"name":"` + part() + `","image":"debian","system_template":"` + part() + `"}`},
			{"POST", "/profiles", `{"name":"small","image":"debian","vcpus":1,"memory":"1GiB"}`},
			{"POST", "/templates/system", `{"name":"` + part() + `","vcpus":1,"memory":"512MiB"}`},
			{"POST", "/templates/storage", `{"name":"` + part() + `"}`}, {"POST", "/userdata", `{"name":"` + part() + `","data":"#!x"}`},
			{"POST", "/scripts", `{"name":"` + part() + `","text":"x"}`}, {"PATCH", "/scripts/" + part() + "/options", `{"time":"1m"}`},
			{"PUT", "/templates/system/" + part(), `{"vcpus":2,"memory":"512MiB"}`}, {"DELETE", "/templates/system/" + part(), ""},
			{"PUT", "/profiles/" + part() + "/published", `{"projects":["shop"]}`},
			{"PUT", "/templates/system/" + part() + "/published", `{"projects":["default"]}`},
			{"PUT", "/profiles/default%2Fsmall/published", `{"all":true}`}, {"DELETE", "/profiles/" + part(), ""},
			{"DELETE", "/profiles/small", ""}, {"GET", "/profiles", ""}, {"GET", "/profiles/" + part(), ""}, {"GET", "/profiles/small", ""},
			{"GET", "/templates/system", ""}, {"GET", "/userdata/" + part(), ""}, {"GET", "/scripts", ""}, {"GET", "/ovas", ""},
			{"POST", "/instances", `{"name":"` + name() + `","profile":"` + part() + `"}`},
			{"GET", "/instances?profile=" + part(), ""}, {"GET", "/provisioner/profile", ""}, {"GET", "/provisioner/template", ""},
			{"POST", "/provisioner/template/network?name=" + part(), ""}, {"PUT", "/provisioner/userdata/" + part() + "?data=y", ""},
		}
		if random.IntN(3) == 0 {
			choices = catalogue
		}
		if random.IntN(4) == 0 { // so that most names are those of instances
			choices = choices[:2]
		}
		all = append(all, choices[random.IntN(len(choices))])
	}
	return all
}

// What differs between two worlds by chance: times, and the IDs, numbers, MAC and IP addresses that are
// given out. The addresses are those of a network that the projects share.
var byChance = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ][0-9:.]+(Z|[+-]\d\d:\d\d)?|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|` +
	`52:54:00(:[0-9a-f]{2}){3}|\b10\.\d+\.\d+\.\d+|"id":\d+,"index"|"tap":"[^"]*"|\b[0-9a-f]{8}\b|"(number|account)":"\d{12}"|` +
	`"(started|updated|scheduled|active)":[0-9.]+|\bi-[0-9a-f]{17}\b`)

// anonymous replaces what differs by chance by the order of its first appearance.
func anonymous(known map[string]string, text string) string {
	return byChance.ReplaceAllStringFunc(text, func(found string) string {
		if strings.Contains(found, ":") && !strings.HasPrefix(found, "52:54") { // a time
			return "TIME"
		}
		if strings.HasPrefix(found, "10.") || strings.HasPrefix(found, `"id"`) { // those of what was removed are given out again
			return "ADDRESS"
		}
		if len(found) == 36 {
			found = found[:8] // which messages show of a job's ID
		}
		if known[found] == "" {
			known[found] = fmt.Sprintf("<%d>", len(known))
		}
		return known[found]
	})
}

// tenantsOf adds the projects a and b to the world of secretWorld, and returns a token of each.
func tenantsOf(t *testing.T) (*server, map[string]string) {
	t.Helper()
	s, _ := secretWorld(t)
	s.publish(t)
	tokens := map[string]string{}
	for _, project := range []string{"a", "b"} {
		s.expect(t, "POST", "/projects", `{"name":"`+project+`"}`, 201)
		tokens[project] = s.newTokenIn(t, project, "of-"+project, seedbed.RoleAdmin)
	}
	return s, tokens
}

// settle ends all jobs, as a worker would have done them.
func (s *server) settle(t *testing.T) {
	t.Helper()
	for {
		job, err := s.db.ClaimJob(t.Context(), "test", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if job == nil {
			return
		}
		result := seedbed.JobResult{State: seedbed.JobSucceeded}
		switch job.Kind {
		case seedbed.JobCreate, seedbed.JobStart:
			result.InstanceState = seedbed.InstanceRunning
		case seedbed.JobStop:
			result.InstanceState = seedbed.InstanceStopped
		case seedbed.JobRemove:
			result.Drop = true
		}
		if job.State == seedbed.JobUndoing {
			result = seedbed.JobResult{State: seedbed.JobRolledBack, Drop: job.Kind == seedbed.JobCreate, Error: "cancelled"}
		}
		if err := s.db.Finish(t.Context(), job.Ref(), result); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHistoriesTellNothing has a tenant send random requests in two worlds: alone, and while another
// tenant does the same with the same names. The answers are the same, but for what is given out by
// chance.
func TestHistoriesTellNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			const length = 120
			mine := history(rand.New(rand.NewPCG(seed, 1)), length)
			theirs := history(rand.New(rand.NewPCG(seed, 2)), 2*length)
			pace := rand.New(rand.NewPCG(seed, 3))
			var settled []bool
			for range mine {
				settled = append(settled, pace.IntN(3) > 0)
			}
			var answers [2][]string
			statuses := map[int]int{}
			for world := range answers {
				s, tokens := tenantsOf(t)
				ask := func(project string, q asked) response {
					return s.do(t, q.method, "/api/v1"+q.path, q.body, "Authorization", "Bearer "+tokens[project])
				}
				known := map[string]string{}
				for n, q := range mine {
					if world == 1 {
						ask("b", theirs[2*n])
						ask("b", theirs[2*n+1])
					}
					r := ask("a", q)
					statuses[r.status]++
					answers[world] = append(answers[world], fmt.Sprintf("%s %s %s: %d %s", q.method, q.path, q.body, r.status,
						anonymous(known, r.body)))
					if settled[n] {
						s.settle(t)
					}
				}
			}
			for n, alone := range answers[0] {
				if beside := answers[1][n]; beside != alone {
					t.Fatalf("request %d\nalone:\n%s\nbeside another tenant:\n%s", n, alone, beside)
				}
			}
			if statuses[200] < 20 || statuses[202] < 10 || statuses[404] < 5 || statuses[409] < 2 {
				t.Errorf("the answers were %v", statuses)
			}
		})
	}
}
