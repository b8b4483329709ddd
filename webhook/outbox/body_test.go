package outbox

import (
	"testing"
	"time"

	"seedbed"
)

// What receivers parse: a change here breaks them.
func TestBody(t *testing.T) {
	t.Parallel()
	o := seedbed.Outgoing{ID: "msg_1", Seq: 7, Type: "job.succeeded", Subject: "web1", Data: []byte(`{"job": {"id":"x<y"}}`),
		At: time.Date(2026, 1, 31, 12, 0, 0, 500_000_000, time.UTC)}
	for _, test := range []struct {
		name              string
		cloud             bool
		wantType, wantRaw string
	}{
		{"own", false, "application/json",
			`{"type":"job.succeeded","version":1,"timestamp":"2026-01-31T12:00:00.5Z","seq":7,"data":{"job":{"id":"x\u003cy"}}}`},
		{"CloudEvents", true, "application/cloudevents+json",
			`{"specversion":"1.0","id":"msg_1","source":"/seedbed","type":"seedbed.job.succeeded","subject":"web1",` +
				`"time":"2026-01-31T12:00:00.5Z","sequence":"7","datacontenttype":"application/json","data":{"job":{"id":"x\u003cy"}}}`},
	} {
		b, kind, err := body(seedbed.Endpoint{CloudEvents: test.cloud}, o)
		if err != nil || kind != test.wantType || string(b) != test.wantRaw {
			t.Errorf("%s: %s %s (%v)", test.name, kind, b, err)
		}
	}
}
