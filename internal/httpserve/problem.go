package httpserve

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"seedbed"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// RetryAfter is the number of seconds after which a caller may try again.
const RetryAfter = "5"

// Problem is an error in the form of its answer: application/problem+json of RFC 9457, with the
// error's kind. The caller sees its text.
type Problem struct {
	// Title is set by Write.
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Kind is a kind as seedbed.KindName returns it. This package's own problems have none, because
	// they concern the form of the request.
	Kind string `json:"kind,omitempty"`
	// Job is the job that holds a conflicting claim, if there is one.
	Job seedbed.JobID `json:"job,omitempty"`
	// Message repeats the detail as a sentence, in the API's answers: PVC's clients print it, and may
	// ask for any path.
	Message string `json:"message,omitempty"`
}

// Error returns the detail.
func (p Problem) Error() string { return p.Detail }

// Seconds returns a time to wait as the header Retry-After has it: in whole seconds, at least one.
func Seconds(wait time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(wait.Seconds()))))
}

// Write answers p. It adds Retry-After if p is 503.
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
