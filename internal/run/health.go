package run

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"seedbed"
	"seedbed/internal/build"
)

// checkTimeout bounds the checks of one health request.
const checkTimeout = 5 * time.Second

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
	return serve(ctx, app, ln)
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

func serve(ctx context.Context, app *fiber.App, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() {
		<-ctx.Done()
		_ = app.ShutdownWithTimeout(2 * time.Second) // connections that are still open are closed below
		_ = ln.Close()                               // the shutdown does not close ln if the server has not begun yet
	})
	err := app.Listener(ln)
	stopped := ctx.Err() != nil
	cancel()
	wait.Wait()
	if err != nil && !stopped {
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	return nil
}
