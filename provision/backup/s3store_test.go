package backup

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
)

// A backup does not count on an object that a sweep removes after it was renewed.
func TestSweptAfterRenewal(t *testing.T) {
	t.Parallel()
	var swept atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		when := time.Now().Add(-48 * time.Hour).UTC()
		switch {
		case swept.Load():
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodHead:
			w.Header().Set("Last-Modified", when.Format(http.TimeFormat))
			w.Header().Set("ETag", `"1"`)
		case r.Method == http.MethodPut && r.Header.Get("X-Amz-Copy-Source") != "":
			_, _ = io.WriteString(w, `<CopyObjectResult><ETag>"1"</ETag><LastModified>`+when.Format(time.RFC3339)+
				`</LastModified></CopyObjectResult>`)
		default:
			w.WriteHeader(http.StatusNotImplemented)
		}
	}))
	defer server.Close()
	s, err := openS3(seedbed.BackupPlace{URL: server.URL, Bucket: "backups", KeyID: "k", Secret: "s"})
	if err != nil {
		t.Fatal(err)
	}
	renew := func() {
		t.Helper()
		if there, err := s.renew(t.Context(), "chunks/ab/ab"); err != nil || !there {
			t.Fatal(there, err)
		}
	}
	renew()
	if err := s.sync(t.Context()); err != nil {
		t.Errorf("it is there: %v", err)
	}
	renew()
	swept.Store(true)
	if err := s.sync(t.Context()); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("it was swept: %v", err)
	}
}
