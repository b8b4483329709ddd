package doctor

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

func TestGuestPlane(t *testing.T) {
	t.Parallel()
	const report = `{"ok":false,"version":"1.2.3","checks":[{"name":"feed","ok":false,"detail":"gone","hint":"start seedbedd"}]}`
	const gone = "install seedbed-metadata, and start it"
	for _, c := range []struct {
		name   string
		handle http.HandlerFunc
		want   []seedbed.Check
	}{
		{"answers", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable) // as it answers when it has a problem
			w.Write([]byte(report))
		}, []seedbed.Check{{Name: "seedbed-metadata", OK: true, Detail: "1.2.3 answers on ADDR"},
			{Name: "feed", Detail: "gone", Hint: "start seedbedd"}}},
		{"somebody else", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("<html>")) },
			[]seedbed.Check{{Name: "seedbed-metadata", Detail: "what answers on ADDR is not seedbed-metadata", Hint: gone}}},
		{"nobody", nil, []seedbed.Check{{Name: "seedbed-metadata", Detail: "no answer on ADDR", Hint: gone}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(c.handle)
			defer server.Close()
			nothing := func(string) (string, error) { return "", exec.ErrNotFound }
			h := host{dial: time.Minute, system: system{find: nothing}}
			h.config.Metadata.Health = server.Listener.Addr().String()
			if c.handle == nil {
				h.config.Metadata.Health = "127.0.0.1:1" // a port that was closed may be another test's
			}
			got := h.guestPlane(t.Context())
			got[0].Detail = strings.ReplaceAll(got[0].Detail, h.config.Metadata.Health, "ADDR")
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("checks (-want +got):\n%s", diff)
			}
		})
	}
}
