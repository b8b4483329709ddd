package pvc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"seedbed"
	"seedbed/api/server"
	"seedbed/internal/httpserve"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"
)

// maxFields bounds the parameters of a request.
const maxFields = 1000

// fields are a request's parameters, from the query and from the body: a form (urlencoded or
// multipart) or a JSON object. err is the first error found.
type fields struct {
	query, body url.Values
	err         error
}

// former are names that parameters had in earlier releases of PVC, and have in the examples of its
// manual, with their present names.
var former = map[string]string{
	"start_with_node": "node_autostart", "disk_template": "storage_template", "userdata_template": "userdata",
}

// renamed returns values with present names instead of former ones.
func renamed(values url.Values) url.Values {
	for was, is := range former {
		if given, ok := values[was]; ok {
			values[is] = append(values[is], given...)
			delete(values, was)
		}
	}
	return values
}

// queried reads the parameters of the query, not those of the body.
func queried(c *fiber.Ctx) (*fields, error) {
	query, err := url.ParseQuery(string(c.Context().URI().QueryString()))
	if err != nil {
		return nil, refused(fiber.StatusBadRequest,
			"The query is not well formed: expected name=value, separated by &, with %%XX for other characters.")
	}
	f := &fields{query: renamed(query)}
	return f, f.check()
}

// parameters reads the parameters of a request.
func (r *router) parameters(c *fiber.Ctx) (*fields, error) {
	return r.parametersUpTo(c, r.MaxDocuments())
}

// parametersUpTo is like parameters for a body of at most most bytes.
func (r *router) parametersUpTo(c *fiber.Ctx, most int) (*fields, error) {
	f, err := queried(c)
	if err != nil {
		return nil, err
	}
	header := httpserve.FieldsOf(c.Context())
	if header.Get("content-encoding") != "" {
		return nil, refused(fiber.StatusUnsupportedMediaType, "Content-Encoding is not supported.")
	}
	raw, err := httpserve.ReadBody(c.Context(), most)
	if err != nil {
		return nil, err
	}
	if f.body, err = parseBody(header.Get("content-type"), raw); err != nil {
		return nil, err
	}
	f.body = renamed(f.body)
	if err := f.check(); err != nil {
		return nil, err
	}
	f.note(c)
	return f, nil
}

// parseBody reads the parameters of a body with the given Content-Type.
func parseBody(contentType string, raw []byte) (url.Values, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind = ""
	}
	var values url.Values
	switch kind {
	case fiber.MIMEApplicationForm:
		if values, err = url.ParseQuery(string(raw)); err != nil {
			err = refused(fiber.StatusBadRequest,
				"The form is not well formed: expected name=value, separated by &, with %%XX for other characters.")
		}
	case fiber.MIMEMultipartForm:
		values, err = parseMultipart(raw, params["boundary"])
	case fiber.MIMEApplicationJSON:
		values, err = parseObject(raw)
	default:
		err = refused(fiber.StatusUnsupportedMediaType,
			"The body is %q: expected application/x-www-form-urlencoded, multipart/form-data or application/json.", seedbed.Clip(contentType))
	}
	return values, err
}

// parseMultipart reads the parts of a form that are not files.
func parseMultipart(raw []byte, boundary string) (url.Values, error) {
	bad := refused(fiber.StatusBadRequest, "The multipart form is not well formed.")
	values := url.Values{}
	reader := multipart.NewReader(bytes.NewReader(raw), boundary)
	for n := 0; ; n++ {
		part, err := reader.NextRawPart()
		if err == io.EOF { // not wrapped: a wrapped EOF means that the form ended early
			return values, nil
		}
		if err != nil || boundary == "" || n == maxFields {
			return nil, bad
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return nil, bad
		}
		if name := part.FormName(); name != "" && part.FileName() == "" {
			values.Add(name, string(value))
		}
	}
}

// parseObject reads the members of a JSON object: strings, numbers, Booleans, and lists of them. It
// ignores members that are null.
func parseObject(raw []byte) (url.Values, error) {
	var members map[string]jsontext.Value
	if jsontext.Value(raw).Kind() != '{' || jsonv2.Unmarshal(raw, &members) != nil {
		return nil, refused(fiber.StatusBadRequest, "The body is not a JSON object with each name once.")
	}
	values := url.Values{}
	for name, v := range members {
		list := []jsontext.Value{v}
		if v.Kind() == '[' {
			list = nil
			if err := jsonv2.Unmarshal(v, &list); err != nil {
				return nil, err
			}
		}
		for _, e := range list {
			s, ok := scalar(e)
			switch {
			case ok:
				values.Add(name, s)
			case e.Kind() != 'n':
				return nil, &refusal{
					status:  fiber.StatusBadRequest,
					message: map[string]string{seedbed.Clip(name): "A string, a number, true, false, or a list of them is wanted."},
				}
			}
		}
	}
	return values, nil
}

// scalar returns a JSON value in the form that an HTML form would send.
func scalar(v jsontext.Value) (string, bool) {
	switch v.Kind() {
	case '"':
		var s string
		err := jsonv2.Unmarshal(v, &s)
		return s, err == nil
	case '0', 't', 'f':
		return string(v), true
	}
	return "", false
}

// private holds the parameters, besides the withheld ones, that may hold secrets, which the audit log
// does not keep.
var private = map[string]bool{"arg": true, "param": true}

// note stores the parameters for the audit log.
func (f *fields) note(c *fiber.Ctx) {
	asked := map[string]any{}
	for _, values := range []url.Values{f.query, f.body} {
		for name, all := range values {
			asked[name] = all
			text := strings.Join(all, "")
			switch {
			case server.Withheld[name]:
				asked[name] = text // whose length is kept
			case private[name]:
				asked[name] = fmt.Sprintf("(%d bytes)", len(text))
			}
		}
	}
	if raw, err := json.Marshal(asked); err == nil && len(asked) > 0 {
		server.NoteAsked(c, raw)
	}
}

// list returns all values of a parameter that may be repeated.
func (f *fields) list(name string) []string {
	return append(append([]string{}, f.query[name]...), f.body[name]...)
}

// has reports whether the parameter was sent, even if empty.
func (f *fields) has(name string) bool { return f.query.Has(name) || f.body.Has(name) }

// text returns a parameter that may be sent once. It returns an empty string if the parameter is
// absent.
func (f *fields) text(name string) string {
	all := f.list(name)
	if len(all) == 0 {
		return ""
	}
	for _, v := range all[1:] {
		if v != all[0] {
			f.wrong(name, "It is there more than once.")
		}
	}
	return all[0]
}

// must is like text for a required parameter. help describes it.
func (f *fields) must(name, help string) string {
	if !f.has(name) {
		f.wrong(name, help)
	}
	return f.text(name)
}

// number reads an integer. refusal is the error message for any other text.
func (f *fields) number(name, refusal string) int {
	n, err := strconv.Atoi(strings.TrimSpace(f.text(name)))
	if err != nil {
		f.refuse(refused(fiber.StatusBadRequest, "%s", refusal))
	}
	return n
}

// flag reads a Boolean as Python's strtobool does, except that every unknown word is false.
func (f *fields) flag(name string) bool {
	switch strings.ToLower(f.text(name)) {
	case "y", "yes", "t", "true", "on", "1":
		return true
	}
	return false
}

// match returns the names that the parameter limit selects.
func (f *fields) match() seedbed.NameMatch { return seedbed.ParseNameMatch(f.text("limit")) }

// wrong records a parameter's error, in the form that PVC has for a missing parameter.
func (f *fields) wrong(name, what string) {
	f.refuse(&refusal{status: fiber.StatusBadRequest, message: map[string]string{name: what}})
}

// check refuses too many parameters, and values that are not text.
func (f *fields) check() error {
	n := 0
	for _, values := range []url.Values{f.query, f.body} {
		for name, all := range values {
			if n += len(all); n > maxFields {
				return refused(fiber.StatusBadRequest, "There are more than %d parameters.", maxFields)
			}
			for _, v := range append([]string{name}, all...) {
				if !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
					return &refusal{
						status:  fiber.StatusBadRequest,
						message: map[string]string{strings.ToValidUTF8(seedbed.Clip(name), "?"): "It is not text: expected UTF-8 without NUL."},
					}
				}
			}
		}
	}
	return nil
}

func (f *fields) refuse(err error) {
	if f.err == nil {
		f.err = err
	}
}
