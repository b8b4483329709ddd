package httpserve

import (
	"encoding/json"
	"net/http"

	"seedbed"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// RetryAfter is the number of seconds after which a caller may try again.
const RetryAfter = "5"

// Problem is an error as it is answered: application/problem+json of RFC 9457,
// with the error's kind. Its text reaches the caller.
type Problem struct {
	// Title is set by Write.
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Kind is as seedbed.KindName has it. The problems that this package itself
	// finds have none: what is wrong is the form of the request.
	Kind string `json:"kind,omitempty"`
	// Job is the holder of a claim that stands in the way, if there is one.
	Job seedbed.JobID `json:"job,omitempty"`
	// Message is the detail once more, where PVC's clients look for it: of a request
	// that could not be read it is not known who sent it.
	Message string `json:"message,omitempty"`
}

// Error returns the detail.
func (p Problem) Error() string { return p.Detail }

// Write answers p, with Retry-After where p is 503.
func (p Problem) Write(ctx *fasthttp.RequestCtx) {
	p.Title = http.StatusText(p.Status)
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // plain fields always marshal
	}
	if p.Status == fiber.StatusServiceUnavailable {
		ctx.Response.Header.Set(fiber.HeaderRetryAfter, RetryAfter)
	}
	ctx.Response.Header.Set(fiber.HeaderCacheControl, "no-store")
	ctx.SetStatusCode(p.Status)
	ctx.SetContentType("application/problem+json")
	ctx.SetBody(body)
}
