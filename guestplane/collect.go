package guestplane

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seedbed/feed"
	"seedbed/metadata"
	"seedbed/netcfg"
	"seedbed/netcfg/dns"
)

// collector exports the guest plane's metrics to Prometheus.
type collector struct {
	guests  *metadata.Server
	client  *feed.Client
	spool   *feed.Spool
	network *netcfg.Manager
	queries *dns.Counts
	state   string // the directory of the feed's snapshot
}

// NewCollector returns a Prometheus collector of the metrics of a plane, its feed and its network.
func NewCollector(p *Plane, client *feed.Client, network *netcfg.Manager, state string) prometheus.Collector {
	return collector{p.guests, client, p.spool, network, &p.queries, state}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("seedbed_"+name, help, labels, nil)
}

var (
	requestsDesc = describe("metadata_requests_total", "Answers to guests by dialect, version and HTTP status.", "dialect",
		"version", "status")
	noTokenDesc = describe("metadata_requests_without_token_total",
		"Requests without a session token, by whether they were answered.", "result")
	delayedDesc  = describe("metadata_requests_delayed_total", "Requests that were answered later because of the instance's rate limit.")
	latencyDesc  = describe("metadata_request_seconds", "Time from a request's header to its answer.")
	callersDesc  = describe("metadata_callers_total", "Requests of callers that belong to no instance, by outcome.", "result")
	connsDesc    = describe("metadata_connections", "Open connections of guests.")
	unknownDesc  = describe("metadata_connections_unknown", "Open connections whose caller is unknown.")
	waitsDesc    = describe("metadata_requests_waiting", "Requests of guests that wait for a change.")
	guestsDesc   = describe("metadata_instances", "Instances that are served.")
	revisionDesc = describe("feed_revision", "Revision of the feed that is applied.")
	syncDesc     = describe("feed_in_sync", "1 once everything that seedbedd had at the last contact is applied.")
	ageDesc      = describe("feed_contact_age_seconds",
		"Seconds since seedbedd last answered; before it has, since the snapshot on disk was written, and -1 without one.")
	sentDesc    = describe("spool_sent_total", "Guest events that seedbedd has acknowledged.")
	lostDesc    = describe("spool_lost_total", "Guest events that were dropped under overload.")
	droppedDesc = describe("spool_dropped_bytes_total",
		"Bytes of guest events that were dropped from the disk unsent, because there were too many.")
	waitingDesc       = describe("spool_waiting_bytes", "Bytes of guest events that wait for seedbedd.")
	peersDesc         = describe("feed_peers", "Guests of other nodes that this one knows.")
	peersRevisionDesc = describe("feed_peers_revision", "Revision of them that is applied.")
	queriesDesc       = describe("dns_queries_total", "Queries of guests to the node's resolver, by what became of them.", "result")
	portsDesc         = describe("filter_ports", "Ports of guests with filters in the kernel.")
	networksDesc      = describe("filter_networks", "Networks that are applied.")
	appliedDesc       = describe("filter_applied_age_seconds",
		"Seconds since the host's network was last made to match, or found to match, the feed; -1 before that.")
	allCollectors = []*prometheus.Desc{requestsDesc, noTokenDesc, delayedDesc, latencyDesc, callersDesc, connsDesc, unknownDesc, waitsDesc,
		guestsDesc,
		revisionDesc, syncDesc, ageDesc, peersDesc, peersRevisionDesc, sentDesc, lostDesc, droppedDesc, waitingDesc,
		queriesDesc, portsDesc, networksDesc, appliedDesc}
)

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range allCollectors {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	s := c.guests.Stats()
	for _, a := range s.Answers {
		count(requestsDesc, a.Count, a.Dialect, a.Version, strconv.Itoa(a.Status))
	}
	count(noTokenDesc, s.NoToken, "answered")
	count(noTokenDesc, s.NoTokenRejected, "rejected")
	count(delayedDesc, s.Delayed)
	ch <- latency(s.Latency)
	count(callersDesc, s.Unknown, "unknown")
	count(callersDesc, s.Held, "held")
	count(callersDesc, s.Refused, "refused")
	count(callersDesc, s.Malformed, "malformed")
	gauge(connsDesc, float64(s.Conns))
	gauge(unknownDesc, float64(s.UnknownConns))
	gauge(waitsDesc, float64(s.Waiting))
	gauge(guestsDesc, float64(s.Guests))
	gauge(revisionDesc, float64(s.Revision))
	gauge(syncDesc, map[bool]float64{true: 1}[s.InSync])
	gauge(ageDesc, c.feedAge())
	status := c.client.Status()
	gauge(peersDesc, float64(status.Peers))
	gauge(peersRevisionDesc, float64(status.PeersRevision))
	up := c.spool.Stats()
	count(sentDesc, int64(up.Sent))
	count(lostDesc, int64(up.Lost))
	count(droppedDesc, int64(up.Dropped))
	gauge(waitingDesc, float64(up.Waiting))
	q := c.queries
	count(queriesDesc, q.Answered.Load(), "answered")
	count(queriesDesc, q.Forwarded.Load(), "forwarded")
	count(queriesDesc, q.Failed.Load(), "failed")
	count(queriesDesc, q.Refused.Load(), "refused")
	count(queriesDesc, q.Limited.Load(), "limited")
	count(queriesDesc, q.Malformed.Load(), "malformed")
	f := c.network.Stats()
	gauge(portsDesc, float64(f.Ports))
	gauge(networksDesc, float64(f.Networks))
	gauge(appliedDesc, since(f.Applied))
}

// latency converts a histogram to Prometheus's form, in which each bucket includes the counts of
// those before it.
func latency(h metadata.Histogram) prometheus.Metric {
	buckets := make(map[float64]uint64, len(h.Bounds))
	var n uint64
	for i, c := range h.Counts {
		n += uint64(c)
		if i < len(h.Bounds) {
			buckets[h.Bounds[i].Seconds()] = n
		}
	}
	return prometheus.MustNewConstHistogram(latencyDesc, n, h.Sum.Seconds(), buckets)
}

func (c collector) feedAge() float64 {
	if contact := c.client.Status().Contact; !contact.IsZero() {
		return since(contact)
	}
	info, err := os.Stat(filepath.Join(c.state, "feed.snapshot"))
	if err != nil {
		return -1
	}
	return since(info.ModTime())
}

// since returns the seconds since t, or -1 for the zero time.
func since(t time.Time) float64 {
	if t.IsZero() {
		return -1
	}
	return time.Since(t).Seconds()
}
