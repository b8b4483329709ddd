package guestplane

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"seedbed/feed"
	"seedbed/internal/run"
	"seedbed/metadata"
	"seedbed/netcfg"
)

// scrape is what Prometheus gets, by the name of the series with its labels.
func scrape(t *testing.T, c prometheus.Collector) map[string]string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	w := httptest.NewRecorder()
	run.MetricsHandler(registry).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	series := map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			series[name] = value
		}
	}
	return series
}

type oneMetric struct{ prometheus.Metric }

func (m oneMetric) Describe(ch chan<- *prometheus.Desc) { ch <- m.Desc() }
func (m oneMetric) Collect(ch chan<- prometheus.Metric) { ch <- m.Metric }

// TestLatency: each bucket has what is in those before it, too, and the count has everything.
func TestLatency(t *testing.T) {
	t.Parallel()
	h := metadata.Histogram{Bounds: []time.Duration{time.Millisecond, time.Second}, Counts: []int64{3, 2, 1}, Sum: 2500 * time.Millisecond}
	const name = "seedbed_metadata_request_seconds"
	want := map[string]string{name + `_bucket{le="0.001"}`: "3", name + `_bucket{le="1"}`: "5", name + `_bucket{le="+Inf"}`: "6",
		name + "_sum": "2.5", name + "_count": "6"}
	if d := cmp.Diff(want, scrape(t, oneMetric{latency(h)})); d != "" {
		t.Errorf("series (-want +got):\n%s", d)
	}
}

// TestFeedAge: before seedbedd has answered, the age is that of the snapshot.
func TestFeedAge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k, err := netcfg.Open(quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	spool, err := feed.OpenSpool(feed.SpoolConfig{Socket: filepath.Join(dir, "feed.sock"), Node: "node1", Dir: dir, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	p := testPlane(&fakeKernel{})
	p.spool = spool
	client := feed.NewClient(feed.ClientConfig{Socket: filepath.Join(dir, "feed.sock"), Node: "node1", Dir: dir, Applier: p, Log: quiet})
	value := func(name string) float64 {
		t.Helper()
		v, err := strconv.ParseFloat(scrape(t, NewCollector(p, client, k, dir))[name], 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return v
	}
	const age = "seedbed_feed_contact_age_seconds"
	if got := value(age); got != -1 {
		t.Errorf("without a snapshot the age is %v, want -1", got)
	}
	snapshot := filepath.Join(dir, "feed.snapshot")
	if err := os.WriteFile(snapshot, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	hourAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(snapshot, hourAgo, hourAgo); err != nil {
		t.Fatal(err)
	}
	if got := value(age); got < 3600 || got > 3700 {
		t.Errorf("with a snapshot of an hour ago the age is %v", got)
	}
	if got := value("seedbed_filter_applied_age_seconds"); got != -1 {
		t.Errorf("before anything was applied its age is %v, want -1", got)
	}
	if got := value("seedbed_spool_dropped_bytes_total"); got != 0 {
		t.Errorf("%v bytes were dropped of nothing", got)
	}
}
