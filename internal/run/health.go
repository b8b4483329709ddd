package run

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"seedbed"
	"seedbed/internal/build"
	"seedbed/internal/httpserve"
)

// checkTimeout bounds the checks of one health request.
const checkTimeout = 5 * time.Second

// stopTimeout is how long the answers to running requests may take once the daemon stops.
const stopTimeout = 2 * time.Second

// NewRegistry returns a registry with the metrics of every daemon: the Go runtime, the process, and
// seedbed_build_info.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "seedbed_build_info",
		Help:        "1, with the release as label.",
		ConstLabels: prometheus.Labels{"version": build.Version()},
	})
	info.Set(1)
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), info)
	return reg
}

// MetricsHandler serves a registry in the Prometheus text format. It does not use promhttp's
// timeout, because that would watch the request's context, to which fasthttp's adaptor writes when
// the server stops.
func MetricsHandler(reg *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Health serves GET /healthz and GET /metrics.
type Health struct {
	// Checks reports the daemon's health. It has 5 seconds. If it is nil, every answer is OK.
	Checks   func(context.Context) []seedbed.Check
	Registry *prometheus.Registry
}

// Report is the body of /healthz. The status is 200 if OK is set, and 503 otherwise.
type Report struct {
	OK      bool            `json:"ok"`
	Version string          `json:"version"`
	Checks  []seedbed.Check `json:"checks"`
}

// Serve answers on ln until ctx ends, and closes ln.
func (h Health) Serve(ctx context.Context, ln net.Listener) error {
	app := fiber.New(fiber.Config{
		DisableStartupMessage: true,
		StrictRouting:         true,
		CaseSensitive:         true,
		BodyLimit:             1024,
		Concurrency:           64,
		ReadTimeout:           5 * time.Second,
		WriteTimeout:          15 * time.Second,
		IdleTimeout:           time.Minute,
		GETOnly:               true,
	})
	app.Get("/healthz", func(c *fiber.Ctx) error {
		r := h.report(ctx)
		if !r.OK {
			c.Status(fiber.StatusServiceUnavailable)
		}
		return c.JSON(r)
	})
	app.Get("/metrics", adaptor.HTTPHandler(MetricsHandler(h.Registry)))
	err := httpserve.Serve(ctx, ln, app, "health and metrics", func() {}, stopTimeout)
	if ctx.Err() != nil {
		return nil // connections that are still open end with the process
	}
	return err
}

func (h Health) report(ctx context.Context) Report {
	r := Report{OK: true, Version: build.Version(), Checks: []seedbed.Check{}}
	if h.Checks == nil {
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	r.Checks = append(r.Checks, h.Checks(ctx)...)
	for _, c := range r.Checks {
		r.OK = r.OK && c.OK
	}
	return r
}
