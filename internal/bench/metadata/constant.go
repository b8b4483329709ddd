package main

import (
	"context"
	"net"
	"time"

	"github.com/gofiber/fiber/v2"
)

const (
	idPath       = "/latest/meta-data/instance-id"
	userDataPath = "/latest/user-data"
	constantID   = "i-0123456789abcdef0"
)

// serveConstant answers with a constant: what Fiber can do at most, with the
// settings of the metadata server that cost something.
func serveConstant(ctx context.Context) error {
	app := fiber.New(fiber.Config{
		ServerHeader: "EC2ws", StrictRouting: true, CaseSensitive: true, DisableStartupMessage: true,
		ReadBufferSize: 8 << 10, BodyLimit: 16 << 10, Concurrency: 16384,
		ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 30 * time.Second,
	})
	id, data := []byte(constantID), document(0)
	app.Get(idPath, func(c *fiber.Ctx) error {
		c.Context().SetContentType("text/plain")
		c.Context().Response.SetBodyRaw(id)
		return nil
	})
	app.Get(userDataPath, func(c *fiber.Ctx) error {
		c.Context().SetContentType("application/octet-stream")
		c.Context().Response.SetBodyRaw(data)
		return nil
	})
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", constantTCP.String())
	if err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		app.Shutdown()
	}()
	return app.Listener(ln)
}
