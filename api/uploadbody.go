package api

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"io"
	"mime"
	"mime/multipart"
	"strings"

	"github.com/gofiber/fiber/v2"

	"seedbed"
	"seedbed/internal/httpserve"
)

// fileOf is the file in a body; rest, for a form, reads what follows it.
func fileOf(c *fiber.Ctx, body *httpserve.Stream) (file io.Reader, rest func() error, err error) {
	kind, params, err := mime.ParseMediaType(httpserve.FieldsOf(c.Context()).Get("content-type"))
	if err != nil || kind != fiber.MIMEMultipartForm {
		return body, nil, nil
	}
	malformed := httpserve.Problem{Status: fiber.StatusBadRequest, Detail: "the multipart form is not well formed: want one part with a file"}
	if params["boundary"] == "" {
		return nil, nil, malformed
	}
	form := multipart.NewReader(body, params["boundary"])
	for range maxListed {
		part, err := form.NextRawPart()
		if err != nil {
			return nil, nil, cmp.Or(body.Err(), error(malformed))
		}
		if part.FileName() == "" {
			continue
		}
		return &filePart{part, malformed}, func() error {
			if _, err := form.NextRawPart(); err != io.EOF {
				return malformed
			}
			_, err := io.Copy(io.Discard, body) // what follows the last boundary means nothing (RFC 2046)
			return err
		}, nil
	}
	return nil, nil, malformed
}

// filePart is the file of a form.
type filePart struct {
	from      io.Reader
	malformed error
}

// Read implements io.Reader. A form that ends in its file is not well formed.
func (f *filePart) Read(p []byte) (int, error) {
	n, err := f.from.Read(p)
	if err != nil && err != io.EOF {
		err = f.malformed
	}
	return n, err
}

// bounded is a file of at most so many bytes.
type bounded struct {
	from io.Reader
	left int64
}

// Read implements io.Reader. A longer file is a Problem.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, httpserve.Problem{Status: fiber.StatusRequestEntityTooLarge, Kind: "invalid", Detail: "the file is larger than what may be uploaded (storage.max_upload)"}
	}
	return n, err
}

// wantedDigest is the SHA-256 digest that a request asks for, in hexadecimal: in its query, or in
// Content-Digest or Repr-Digest (RFC 9530) or Digest (RFC 3230). Those of a form are not the file's.
func wantedDigest(c *fiber.Ctx, query string) (string, error) {
	if query != "" && !digestForm.MatchString(query) {
		return "", invalid("sha256 %q: want 64 hexadecimal digits", seedbed.Clip(query))
	}
	want := query
	header := httpserve.FieldsOf(c.Context())
	if strings.HasPrefix(strings.ToLower(header.Get("content-type")), fiber.MIMEMultipartForm) {
		return want, nil
	}
	for _, field := range []string{"content-digest", "repr-digest", "digest"} {
		for _, one := range strings.Split(header.Get(field), ",") {
			algorithm, value, ok := strings.Cut(strings.TrimSpace(one), "=")
			if !ok || !strings.EqualFold(algorithm, "sha-256") {
				continue // of several digests the one that we know counts
			}
			value, _, _ = strings.Cut(value, ";")
			sum, err := base64.StdEncoding.DecodeString(strings.Trim(strings.TrimSpace(value), ":"))
			if err != nil || len(sum) != 32 {
				return "", invalid("the header %s has no SHA-256 digest in base64", field)
			}
			text := hex.EncodeToString(sum)
			if want != "" && want != text {
				return "", invalid("two different SHA-256 digests are asked for: %s, and %s by the header %s", want, text, field)
			}
			want = text
		}
	}
	return want, nil
}
