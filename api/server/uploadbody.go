package server

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"io"
	"mime"
	"mime/multipart"
	"regexp"
	"strings"

	"github.com/gofiber/fiber/v2"

	"seedbed"
	"seedbed/internal/httpserve"
)

// MaxListed bounds the parts of a form.
const MaxListed = 64

// fileOf returns the file in a body. For a form, rest reads what follows the file.
func fileOf(c *fiber.Ctx, body *httpserve.Stream) (file io.Reader, rest func() error, err error) {
	kind, params, err := mime.ParseMediaType(httpserve.FieldsOf(c.Context()).Get("content-type"))
	if err != nil || kind != fiber.MIMEMultipartForm {
		return body, nil, nil
	}
	malformed := httpserve.Problem{Status: fiber.StatusBadRequest, Detail: "the form is not well formed: expected one part with a file"}
	if params["boundary"] == "" {
		return nil, nil, malformed
	}
	form := multipart.NewReader(body, params["boundary"])
	for range MaxListed {
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
			_, err := io.Copy(io.Discard, body) // what follows the last boundary has no meaning (RFC 2046)
			return err
		}, nil
	}
	return nil, nil, malformed
}

// IsForm reports whether a request says that its body is a form.
func IsForm(c *fiber.Ctx) bool {
	kind := httpserve.FieldsOf(c.Context()).Get("content-type")
	return strings.HasPrefix(strings.ToLower(kind), fiber.MIMEMultipartForm)
}

// filePart reads the file in a form.
type filePart struct {
	from      io.Reader
	malformed error
}

// Read implements io.Reader. It returns an error for a form that ends within its file.
func (f *filePart) Read(p []byte) (int, error) {
	n, err := f.from.Read(p)
	if err != nil && err != io.EOF {
		err = f.malformed
	}
	return n, err
}

// bounded reads a file of limited size.
type bounded struct {
	from io.Reader
	left int64
}

// Read implements io.Reader. It returns a Problem for a file that is too long.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, httpserve.Problem{Status: fiber.StatusRequestEntityTooLarge, Kind: "invalid",
			Detail: "the file is larger than what may be uploaded (storage.max_upload)"}
	}
	return n, err
}

// WantedDigest returns the SHA-256 digest that a request expects, in hexadecimal. It comes from the
// query, or from Content-Digest or Repr-Digest (RFC 9530) or Digest (RFC 3230). In a form, the
// digest headers are not about the file and are ignored.
func WantedDigest(c *fiber.Ctx, query string) (string, error) {
	if query != "" && !DigestForm.MatchString(query) {
		return "", Invalid("sha256 %q: expected 64 hexadecimal digits", seedbed.Clip(query))
	}
	want := query
	header := httpserve.FieldsOf(c.Context())
	if IsForm(c) {
		return want, nil
	}
	for _, field := range []string{"content-digest", "repr-digest", "digest"} {
		for one := range strings.SplitSeq(header.Get(field), ",") {
			algorithm, value, ok := strings.Cut(strings.TrimSpace(one), "=")
			if !ok || !strings.EqualFold(algorithm, "sha-256") {
				continue // of several digests, the one with a known algorithm counts
			}
			value, _, _ = strings.Cut(value, ";")
			sum, err := base64.StdEncoding.DecodeString(strings.Trim(strings.TrimSpace(value), ":"))
			if err != nil || len(sum) != 32 {
				return "", Invalid("the header %s has no SHA-256 digest in base64", field)
			}
			text := hex.EncodeToString(sum)
			if want != "" && want != text {
				return "", Invalid("two different SHA-256 digests are given: %s, and %s in the header %s", want, text, field)
			}
			want = text
		}
	}
	return want, nil
}

// DigestForm matches a SHA-256 digest in hexadecimal.
var DigestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
