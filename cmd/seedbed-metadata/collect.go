package main

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seedbed/feed"
	"seedbed/metadata"
)

// collector gives the guest plane's figures to Prometheus.
type collector struct {
	guests *metadata.Server
	client *feed.Client
	spool  *feed.Spool
}

func newCollector(guests *metadata.Server, client *feed.Client, spool *feed.Spool) prometheus.Collector {
	return collector{guests, client, spool}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("seedbed_"+name, help, labels, nil)
}

var (
	requestsDesc  = describe("metadata_requests_total", "Answers to guests by HTTP status.", "status")
	callersDesc   = describe("metadata_callers_total", "Requests of callers that are nobody's, by what became of them.", "result")
	connsDesc     = describe("metadata_connections", "Connections of guests that are open.")
	guestsDesc    = describe("metadata_instances", "Instances that are served.")
	revisionDesc  = describe("feed_revision", "Revision of the feed that is applied.")
	syncDesc      = describe("feed_in_sync", "1 once everything that seedbedd had at the last contact is applied.")
	ageDesc       = describe("feed_contact_age_seconds", "Seconds since seedbedd last answered; -1 before the first time.")
	sentDesc      = describe("spool_sent_total", "Guest events that seedbedd has acknowledged.")
	lostDesc      = describe("spool_lost_total", "Guest events that were dropped under overload.")
	waitingDesc   = describe("spool_waiting_bytes", "Bytes of guest events that wait for seedbedd.")
	allCollectors = []*prometheus.Desc{requestsDesc, callersDesc, connsDesc, guestsDesc, revisionDesc, syncDesc, ageDesc, sentDesc, lostDesc, waitingDesc}
)

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range allCollectors {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	s := c.guests.Stats()
	for status, n := range s.Requests {
		count(requestsDesc, float64(n), strconv.Itoa(status))
	}
	count(callersDesc, float64(s.Unknown), "unknown")
	count(callersDesc, float64(s.Held), "held")
	count(callersDesc, float64(s.Refused), "refused")
	count(callersDesc, float64(s.Malformed), "malformed")
	gauge(connsDesc, float64(s.Conns))
	gauge(guestsDesc, float64(s.Guests))
	gauge(revisionDesc, float64(s.Revision))
	inSync := 0.0
	if s.InSync {
		inSync = 1
	}
	gauge(syncDesc, inSync)
	age := -1.0
	if contact := c.client.Status().Contact; !contact.IsZero() {
		age = time.Since(contact).Seconds()
	}
	gauge(ageDesc, age)
	up := c.spool.Stats()
	count(sentDesc, float64(up.Sent))
	count(lostDesc, float64(up.Lost))
	gauge(waitingDesc, float64(up.Waiting))
}
