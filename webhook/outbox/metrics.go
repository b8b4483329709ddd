package outbox

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seedbed"
)

// counters counts what this host has sent.
type counters struct {
	attempts *prometheus.CounterVec
	given    *prometheus.CounterVec
}

func newCounters() *counters {
	return &counters{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "seedbed_outbox_attempts_total", Help: "Attempts to deliver an event, by endpoint and result (sent or failed).",
		}, []string{"endpoint", "result"}),
		given: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "seedbed_outbox_exhausted_total", Help: "Deliveries that were given up, by endpoint.",
		}, []string{"endpoint"}),
	}
}

func (c *counters) count(endpoint string, a seedbed.Attempt) {
	result := "sent"
	if a.State != seedbed.OutgoingSent {
		result = "failed"
	}
	c.attempts.WithLabelValues(endpoint, result).Inc()
	if a.State == seedbed.OutgoingDead {
		c.given.WithLabelValues(endpoint).Inc()
	}
}

var (
	pendingDesc = prometheus.NewDesc("seedbed_outbox_pending", "Deliveries that wait, by endpoint.", []string{"endpoint"}, nil)
	deadDesc    = prometheus.NewDesc("seedbed_outbox_dead", "Deliveries that were given up and are kept, by endpoint.",
		[]string{"endpoint"}, nil)
	oldestDesc = prometheus.NewDesc("seedbed_outbox_oldest_seconds",
		"Age of the oldest waiting event, by endpoint; 0 if no event waits.", []string{"endpoint"}, nil)
	enabledDesc = prometheus.NewDesc("seedbed_outbox_enabled", "1 when the endpoint is enabled.", []string{"endpoint"}, nil)
	openDesc    = prometheus.NewDesc("seedbed_outbox_circuit_open", "1 while deliveries to the endpoint are suspended because it fails.",
		[]string{"endpoint"}, nil)
)

// scrapeTimeout bounds the store queries of one scrape.
const scrapeTimeout = 5 * time.Second

// Describe implements prometheus.Collector.
func (d *Deliverer) Describe(ch chan<- *prometheus.Desc) {
	d.counted.attempts.Describe(ch)
	d.counted.given.Describe(ch)
	for _, desc := range []*prometheus.Desc{pendingDesc, deadDesc, oldestDesc, enabledDesc, openDesc} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector: what this host has sent, and the state of the
// installation's outbox.
func (d *Deliverer) Collect(ch chan<- prometheus.Metric) {
	d.counted.attempts.Collect(ch)
	d.counted.given.Collect(ch)
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	all, err := d.Directory.OutgoingStats(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(pendingDesc, err)
		return
	}
	gauge := func(desc *prometheus.Desc, v float64, endpoint string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, endpoint)
	}
	for _, s := range all {
		age := 0.0
		if !s.Oldest.IsZero() {
			age = max(0, time.Since(s.Oldest).Seconds())
		}
		gauge(pendingDesc, float64(s.Pending), s.Endpoint)
		gauge(deadDesc, float64(s.Dead), s.Endpoint)
		gauge(oldestDesc, age, s.Endpoint)
		gauge(enabledDesc, one(s.Enabled), s.Endpoint)
		gauge(openDesc, one(s.Open), s.Endpoint)
	}
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
