package doctor

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"seedbed"
)

// guestPlane asks seedbed-metadata on this host for its health (GET /healthz at its health
// address). No other daemon can notice that it has stopped.
func (h host) guestPlane(ctx context.Context) []seedbed.Check {
	const name, reportSize = "seedbed-metadata", 1 << 20
	addr := h.config.Metadata.Health
	gone := func(detail string) []seedbed.Check {
		return []seedbed.Check{{Name: name, Detail: detail, Hint: h.start(name, h.file)}}
	}
	ctx, cancel := context.WithTimeout(ctx, 4*h.dial) // its own checks take some time
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/healthz", nil)
	if err != nil {
		return gone(err.Error())
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return gone("no answer on " + addr)
	}
	defer resp.Body.Close()
	var report struct {
		Version string          `json:"version"`
		Checks  []seedbed.Check `json:"checks"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, reportSize)).Decode(&report); err != nil {
		return gone("what answers on " + addr + " is not seedbed-metadata")
	}
	return append([]seedbed.Check{{Name: name, OK: true, Detail: report.Version + " answers on " + addr}}, report.Checks...)
}
