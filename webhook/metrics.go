package webhook

import (
	"errors"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"

	"seedbed"
	"seedbed/internal/httpserve"
)

// The decisions that are counted in addition to those in the history.
const (
	duplicate = "duplicate" // answered as it was before
	deferred  = "deferred"  // to be tried again later
)

// counts counts the deliveries to hooks.
type counts struct {
	received *prometheus.CounterVec
	took     *prometheus.HistogramVec
	// of holds the counts of each hook. Its names are only those of existing hooks.
	of atomic.Pointer[map[string]*counted]
	mu sync.Mutex // held to replace of
}

// counted holds the counts of one hook's verified deliveries.
type counted struct {
	accepted, repeated, ignored, planned prometheus.Counter
	done, doneBefore                     prometheus.Counter
	took                                 prometheus.Observer
}

func (c *counts) make() {
	c.received = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "seedbed_webhook_received_total",
		Help: "Deliveries received, by hook (empty for one that does not exist), " +
			"decision (accepted, done, duplicate, ignored, planned, refused or deferred) and status.",
	}, []string{"hook", "decision", "status"})
	c.took = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "seedbed_webhook_seconds",
		Help:    "Time from a delivery's header to the decision, for accepted deliveries, by hook.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"hook"})
	c.of.Store(&map[string]*counted{})
}

// hook returns the counts of one hook.
func (c *counts) hook(name string) *counted {
	if known := (*c.of.Load())[name]; known != nil {
		return known
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := maps.Clone(*c.of.Load())
	if all[name] == nil {
		of := func(decision string, status int) prometheus.Counter {
			return c.received.WithLabelValues(name, decision, strconv.Itoa(status))
		}
		all[name] = &counted{
			accepted: of(string(seedbed.DecisionAccepted), fiber.StatusAccepted), repeated: of(duplicate, fiber.StatusAccepted),
			ignored: of(string(seedbed.DecisionIgnored), fiber.StatusAccepted), planned: of(string(seedbed.DecisionPlanned), fiber.StatusOK),
			done: of(string(seedbed.DecisionDone), fiber.StatusOK), doneBefore: of(duplicate, fiber.StatusOK),
			took: c.took.WithLabelValues(name),
		}
		c.of.Store(&all)
	}
	return all[name]
}

// count counts a delivery with its outcome, a or err, and the time until the decision. A sender
// that waits for the end of the job is answered later.
func (c *counts) count(d *delivered, a outcome, err error, took time.Duration) {
	if err != nil {
		_ = c.refused(d, err) // the caller handles the error
		return
	}
	of := c.hook(d.hook.Name)
	of.took.Observe(took.Seconds())
	switch {
	case a.decision == seedbed.DecisionIgnored:
		of.ignored.Inc()
	case a.decision == seedbed.DecisionPlanned:
		of.planned.Inc()
	case a.decision == seedbed.DecisionDone && a.receipt.Duplicate:
		of.doneBefore.Inc()
	case a.decision == seedbed.DecisionDone:
		of.done.Inc()
	case a.receipt.Duplicate:
		of.repeated.Inc()
	default:
		of.accepted.Inc()
	}
}

// refused counts a delivery that was refused, and returns err. The name of an unknown hook comes
// from the sender, so it is not used as a label.
func (c *counts) refused(d *delivered, err error) error {
	status := fiber.StatusInternalServerError
	if p, ok := errors.AsType[httpserve.Problem](err); ok {
		status = p.Status
	} else if e, ok := errors.AsType[*fiber.Error](err); ok {
		status = e.Code
	}
	decision := string(seedbed.DecisionRefused)
	switch status {
	case fiber.StatusTooManyRequests, fiber.StatusServiceUnavailable, fiber.StatusInsufficientStorage:
		decision = deferred
	}
	c.received.WithLabelValues(d.hook.Name, decision, strconv.Itoa(status)).Inc()
	return err
}

// Describe implements prometheus.Collector.
func (r *Server) Describe(ch chan<- *prometheus.Desc) {
	r.counts.received.Describe(ch)
	r.counts.took.Describe(ch)
}

// Collect implements prometheus.Collector: what this host has received.
func (r *Server) Collect(ch chan<- prometheus.Metric) {
	r.counts.received.Collect(ch)
	r.counts.took.Collect(ch)
}
