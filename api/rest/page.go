package rest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/url"
	"strings"

	"seedbed"
	"seedbed/api/server"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
)

// page is what a browser shows of a sign-in.
type page struct {
	Title string
	// Failed is what went wrong, or empty.
	Failed string
	// Person is who has signed in, with these Grants, and a session until then, if there is one.
	Person string
	Grants []seedbed.Grant
	Until  string
	// Ticket, if it is not empty, is what the form sends to Action. The browser is then sent on To.
	Ticket, Action, To string
}

// pageStyle is the only style sheet that the policy of the page allows.
const pageStyle = `body{max-width:34rem;margin:3rem auto;padding:0 1rem;font:1.1rem/1.5 system-ui,sans-serif}` +
	`button{font:inherit;padding:.5rem 1rem}`

var pageForm = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{{.Title}} - Seedbed</title>
<style>` + pageStyle + `</style>
</head>
<body>
<main>
<h1>{{.Title}}</h1>
{{- if .Failed}}
<p role="alert">{{.Failed}}</p>
{{- end}}
{{- if .Person}}
<p>You are <strong>{{.Person}}</strong>, and may act here as:</p>
<ul>
{{- range .Grants}}
<li>{{.Role}} in the project {{.Project}}</li>
{{- end}}
</ul>
{{- end}}
{{- if .Ticket}}
<p>The program that waits at {{.To}} on this computer will be able to do all of that for you.
Continue only if you have just run <code>seedbed login</code> here. If not, close this page.</p>
<form method="post" action="{{.Action}}">
<input type="hidden" name="ticket" value="{{.Ticket}}">
<button type="submit">Let it act for me</button>
</form>
{{- end}}
{{- if .Until}}
<p>The session in this browser lasts until {{.Until}}. You can close this page.</p>
{{- end}}
</main>
</body>
</html>
`))

// page answers a page that no other page can show in a frame, and that loads and runs nothing.
func (r *router) page(c *fiber.Ctx, status int, p page) error {
	var text bytes.Buffer
	if err := pageForm.Execute(&text, p); err != nil {
		return err
	}
	style := sha256.Sum256([]byte(pageStyle))
	forms := "'none'"
	if p.Ticket != "" {
		// Browsers apply this to the redirect that follows the form as well.
		forms = "'self'"
		if u, err := url.Parse(p.To); err == nil {
			forms += " " + u.Scheme + "://" + u.Host
		}
	}
	c.Set(fiber.HeaderContentSecurityPolicy, "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(style[:])+
		"'; form-action "+forms+"; frame-ancestors 'none'; base-uri 'none'")
	c.Set(fiber.HeaderXFrameOptions, "DENY")
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderReferrerPolicy, "same-origin")
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderContentType, fiber.MIMETextHTMLCharsetUTF8)
	return c.Status(status).Send(text.Bytes())
}

// failedPage answers an error with a page, if the caller is a browser.
func (r *router) failedPage(c *fiber.Ctx, err error) error {
	if !strings.Contains(httpserve.FieldsOf(c.Context()).Get("accept"), fiber.MIMETextHTML) {
		return err
	}
	p := server.ProblemOf(err)
	if p.Status >= fiber.StatusInternalServerError {
		r.Log.Error("a sign-in failed", "path", seedbed.Clip(c.Path()), "err", err)
	}
	return r.page(c, p.Status, page{Title: "You are not signed in", Failed: server.Sentence(p.Detail)})
}
