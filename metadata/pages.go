package metadata

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/valyala/fasthttp"
)

// page returns the body of an answer other than 200, in the form of Amazon's service, where the
// encoding line also depends on the status.
func page(status int) []byte {
	encoding := "utf-8"
	if status == http.StatusNotFound {
		encoding = "iso-8859-1"
	}
	title := strconv.Itoa(status) + " - " + http.StatusText(status)
	return fmt.Appendf(nil, `<?xml version="1.0" encoding="%s"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN"
	"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">
 <head>
  <title>%s</title>
 </head>
 <body>
  <h1>%s</h1>
 </body>
</html>
`, encoding, title, title)
}

// fail answers with a status and its page.
func fail(ctx *fasthttp.RequestCtx, status int) {
	ctx.Response.ResetBody()
	ctx.SetStatusCode(status)
	ctx.SetContentType("text/html")
	ctx.Response.SetBodyRaw(page(status))
}

// notAllowed answers 405 and lists the allowed methods.
func notAllowed(ctx *fasthttp.RequestCtx, allow string) {
	fail(ctx, http.StatusMethodNotAllowed)
	ctx.Response.Header.Set("Allow", allow)
}
