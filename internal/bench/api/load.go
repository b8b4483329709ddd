package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"seedbed/internal/bench"
	"seedbed/internal/bench/bare"
)

const (
	// clients is how many there are on both sides.
	clients = 16
	// listRate and showRate are how many requests a second come in a steady stream.
	listRate = 40
	showRate = 200
	// rows is how long a page is.
	rows = 100
)

// question is a request, in a project unless that is empty, and how many rows its answer has; 0 for an
// object.
type question struct {
	project, path string
	rows          int
}

// projectOf returns the project of the instance of number i, which is at least 1.
func projectOf(i int) string { return fmt.Sprintf("project-%d", 10001+(i-1)/ofProject) }

// listings ask for a filtered page, each for another.
func listings(s setup) func(n int) question {
	return func(n int) question {
		some := n * 7919 % (s.instances / 2)
		of := 10000 + n*7919%s.profiles
		project := projectOf(1 + some)
		switch n % 8 {
		case 0: // of all projects
			return question{path: fmt.Sprintf("/instances?all_projects=true&state=running&limit=%d&after=vm-100000.%s", rows, project), rows: rows}
		case 1:
			return question{path: fmt.Sprintf("/instances?all_projects=true&state=failed&limit=%d&after=vm-100000.%s", rows, project), rows: rows}
		case 2: // it has ten, or what there are of them in a smaller installation
			return question{
				path: fmt.Sprintf("/instances?all_projects=true&profile=profile-%d&limit=%d", of, rows), rows: s.instances / s.profiles,
			}
		case 3: // of one project, all and some
			return question{project, fmt.Sprintf("/instances?limit=%d", rows), ofProject}
		case 4:
			return question{project, fmt.Sprintf("/instances?name=vm-1&state=stopped&limit=%d", rows), ofProject / 10}
		case 5:
			return question{"", fmt.Sprintf("/profiles?name=profile-1&limit=%d&after=profile-%d", rows, 10000+of%(s.profiles/2)), rows}
		case 6:
			return question{"", fmt.Sprintf("/provisioner/profile?limit=^composed-1%02d", of%(s.profiles/100)), rows}
		}
		return question{"", fmt.Sprintf("/provisioner/profile?limit=sed-1%02d", of%(s.profiles/100)), rows}
	}
}

// objects ask for one object, each for another.
func objects(s setup) func(n int) question {
	return func(n int) question {
		switch n % 4 {
		case 0, 1:
			i := 1 + n*7919%s.instances
			return question{project: projectOf(i), path: fmt.Sprintf("/instances/vm-%d", 100000+i)}
		case 2:
			return question{path: fmt.Sprintf("/profiles/profile-%d", 10001+n*7919%s.profiles)}
		}
		return question{path: fmt.Sprintf("/provisioner/profile/composed-%d", 10001+n*7919%s.profiles)}
	}
}

// steady asks at a fixed rate, whatever the answers take, and gives the 99th
// percentile of how long they took in milliseconds, once per run.
func steady(ctx context.Context, s setup, addr string, rate int, ask func(n int) question) (runs []float64, err error) {
	free := make(chan *client, clients)
	for range clients {
		free <- &client{addr: addr}
	}
	for run := -1; run < s.runs && ctx.Err() == nil; run++ {
		n := int(s.length.Seconds() * float64(rate))
		took, errs := make([]time.Duration, n), make([]error, n)
		var wg sync.WaitGroup
		tick := time.NewTicker(time.Second / time.Duration(rate))
		for i := range n {
			<-tick.C
			due, q := time.Now(), ask((run+1)*n+i)
			wg.Go(func() {
				c := <-free
				status, body, err := c.do(http.MethodGet, q.project, q.path)
				took[i] = time.Since(due)
				free <- c
				errs[i] = errors.Join(err, q.check(status, body))
			})
		}
		tick.Stop()
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		if run < 0 {
			continue // to warm up
		}
		slices.Sort(took)
		runs = append(runs, float64(took[n*99/100].Microseconds())/1000)
	}
	for range clients {
		(<-free).close()
	}
	return runs, ctx.Err()
}

// check returns what is wrong with an answer.
func (q question) check(status int, body []byte) error {
	if status != http.StatusOK {
		return fmt.Errorf("%s was answered %d: %.200s", q.path, status, body)
	}
	if q.rows == 0 {
		return nil
	}
	var found []json.RawMessage
	if err := json.Unmarshal(body, &found); err != nil || len(found) != q.rows {
		return fmt.Errorf("%s has %d rows, expected %d (%v)", q.path, len(found), q.rows, err)
	}
	return nil
}

// compared is what the turns of both sides gave.
type compared struct{ ratios, made, bare []float64 }

func (c compared) how() string {
	return fmt.Sprintf("system templates created / bare rows committed, %d clients: %.0f/s / %.0f/s", clients, bench.Median(c.made),
		bench.Median(c.bare))
}

const bareBody = `{"name":"small-1","vcpus":2,"memory":"2GiB","serial":true,"vnc":false,"node_selector":"mem"}`

// creates has templates and bare rows take turns.
func creates(ctx context.Context, s setup, addr string, at place) (c compared, err error) {
	dsn, path := "", at.bare
	if at.dsn != "" {
		dsn, path = at.bare, ""
	}
	db, err := bare.Open(dsn, path, clients)
	if err != nil {
		return c, err
	}
	defer db.Close()
	var callers [clients]client
	for k := range callers {
		callers[k].addr = addr
		defer callers[k].close()
	}
	for turn := -1; turn < s.runs && ctx.Err() == nil; turn++ {
		made, err := bare.Together(clients, s.length, func(k, n int) error {
			path := fmt.Sprintf(
				"/provisioner/template/system?name=t%d-%d-%d&vcpus=2&vram=2048&serial=True&vnc=False&node_selector=mem&migration_max_downtime=300",
				turn+1, k, n)
			status, body, err := callers[k].do(http.MethodPost, "", path)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("a create was answered %d: %.200s", status, body)
			}
			return err
		})
		if err != nil {
			return c, err
		}
		committed, err := bare.Together(clients, s.length,
			func(k, n int) error { return bare.Insert(ctx, db, fmt.Sprintf("t%d-%d-%d", turn, k, n), bareBody) })
		if err != nil {
			return c, err
		}
		if turn < 0 {
			continue // to warm up
		}
		c.made, c.bare, c.ratios = append(c.made, made), append(c.bare, committed), append(c.ratios, made/committed)
	}
	return c, ctx.Err()
}
