//go:build ceph && libvirt

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"seedbed"
	"seedbed/internal/bench"
)

// createOverhead has the engine and the hand make one instance in turn: clone,
// grow, define and start.
func createOverhead(ctx context.Context, s setup, i *installation, h *hand) ([]bench.Figure, error) {
	var ratios, more, engine, byHand []float64
	for turn := -1; turn < s.runs; turn++ { // the first warms up
		name := fmt.Sprintf("one%d", turn+1)
		job, err := i.create(ctx, name)
		if err != nil {
			return nil, err
		}
		took, err := i.started(ctx, job)
		if err != nil {
			return nil, err
		}
		inst, err := i.db.InstanceByName(ctx, seedbed.InDefault(name))
		if err != nil {
			return nil, err
		}
		xml, err := h.document(inst.ID)
		if err != nil {
			return nil, err
		}
		if err := i.remove(ctx, name); err != nil {
			return nil, err
		}
		hand, err := h.one(xml, inst.Volumes[0].Name)
		if err != nil {
			return nil, err
		}
		if turn < 0 {
			continue
		}
		engine, byHand = append(engine, ms(took)), append(byHand, ms(hand))
		ratios, more = append(ratios, took.Seconds()/hand.Seconds()), append(more, ms(took-hand))
	}
	how := fmt.Sprintf("from the claim to the start, %.0f ms, to clone, resize, define and create by hand, %.0f ms", bench.Median(engine),
		bench.Median(byHand))
	return []bench.Figure{
		{Name: "clone_overhead_ratio", Mark: bench.AtMost(1.25), Runs: ratios, How: how},
		{Name: "clone_overhead_ms", Unit: "ms", Mark: bench.AtMost(250), Runs: more, How: "the same, their difference"},
	}, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// started is the time from a create job's claim to the end of its stage start.
func (i *installation) started(ctx context.Context, job seedbed.Job) (time.Duration, error) {
	stages, err := i.db.Stages(ctx, job.ID)
	if err != nil {
		return 0, err
	}
	for _, st := range stages {
		if st.Name == "start" && !st.Ended.IsZero() {
			return st.Ended.Sub(job.Started), nil
		}
	}
	return 0, fmt.Errorf("job %s has no stage start that has ended", job.ID.Short())
}

// one makes the volume and the domain of the document, and takes both away again.
func (h *hand) one(xml, volume string) (took time.Duration, err error) {
	began := time.Now()
	if err := h.clone(base, volumePrefix+volume, diskSize); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.remove(volumePrefix+volume)) }()
	dom, err := h.define(xml)
	if err != nil {
		return 0, err
	}
	defer dom.Free()
	defer func() { err = errors.Join(err, dom.Undefine()) }()
	if err := dom.Create(); err != nil {
		return 0, err
	}
	took = time.Since(began)
	return took, dom.Destroy()
}

// burst has the engine and the hand make many instances at once, which are not started.
func burst(ctx context.Context, s setup, i *installation, h *hand) ([]bench.Figure, error) {
	var ratios, engine, byHand []float64
	for turn := range s.bursts {
		names := make([]string, s.atOnce)
		for n := range names {
			names[n] = fmt.Sprintf("many%d-%d", turn, n)
		}
		began := time.Now()
		err := i.many(ctx, names, seedbed.Request{Action: seedbed.DoCreate, Profile: profile, Params: map[string]any{"hold": true}})
		took := time.Since(began)
		if err != nil {
			return nil, err
		}
		inst, err := i.db.InstanceByName(ctx, seedbed.InDefault(names[0]))
		if err != nil {
			return nil, err
		}
		xml, err := h.document(inst.ID)
		if err != nil {
			return nil, err
		}
		if err := i.many(ctx, names, seedbed.Request{Action: seedbed.DoRemove}); err != nil {
			return nil, err
		}
		hand, err := h.many(xml, inst, s.atOnce)
		if err != nil {
			return nil, err
		}
		engine, byHand, ratios = append(engine, took.Seconds()), append(byHand, hand.Seconds()), append(ratios, took.Seconds()/hand.Seconds())
	}
	return []bench.Figure{{Name: "burst_ratio", Mark: bench.AtMost(1.5), Runs: ratios,
		How: fmt.Sprintf("%d creates at once until all are defined, %.2f s, to clone, resize and define by hand, %d at a time, %.2f s", s.atOnce,
			bench.Median(engine), workers, bench.Median(byHand))}}, nil
}

// atOnce calls do for each number below n, so many at the same time.
func atOnce(n, together int, do func(int) error) error {
	var wg sync.WaitGroup
	slots := make(chan struct{}, together)
	errs := make([]error, n)
	for k := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[k] = do(k)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

var macOf = regexp.MustCompile(`(<mac address=')[^']*'`)

// many makes so many volumes and domains like the instance's, and takes them away again.
func (h *hand) many(xml string, like seedbed.Instance, n int) (took time.Duration, err error) {
	ids, docs := make([]string, n), make([]string, n)
	for k := range n {
		ids[k] = uuid.NewString()
		docs[k] = macOf.ReplaceAllString(strings.NewReplacer(
			like.Volumes[0].Name,
			ids[k],
			string(like.ID),
			ids[k],
			">"+like.Name+"<",
			">"+ids[k]+"<",
		).Replace(xml), "${1}"+seedbed.NewMAC().String()+"'")
	}
	defer func() {
		err = errors.Join(err, atOnce(n, workers, func(k int) error {
			dom, e := h.virt.LookupDomainByUUIDString(ids[k])
			if e == nil {
				e = errors.Join(dom.Undefine(), dom.Free())
			}
			return errors.Join(e, h.remove(volumePrefix+ids[k]))
		}))
	}()
	began := time.Now()
	err = atOnce(n, workers, func(k int) error {
		if err := h.clone(base, volumePrefix+ids[k], diskSize); err != nil {
			return err
		}
		dom, err := h.define(docs[k])
		if err != nil {
			return err
		}
		return dom.Free()
	})
	return time.Since(began), err
}
