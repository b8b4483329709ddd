package outbox

import (
	"encoding/json"
	"strconv"
	"time"

	"seedbed"
)

const (
	standardType   = "application/json"
	cloudEventType = "application/cloudevents+json"
	// source is the source of CloudEvents. Their id is unique even without it.
	source = "/seedbed"
)

// message is the body of a delivery, version 1. Existing members keep their name and meaning; more
// may be added.
type message struct {
	Type      string          `json:"type"`
	Version   int             `json:"version"`
	Timestamp time.Time       `json:"timestamp"`
	Seq       int64           `json:"seq"`
	Data      json.RawMessage `json:"data"`
}

// cloudEvent is the same body in the structured mode of CloudEvents 1.0, with the extension
// "sequence". https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md
type cloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	Time            time.Time       `json:"time"`
	Sequence        string          `json:"sequence"`
	DataContentType string          `json:"datacontenttype"`
	Data            json.RawMessage `json:"data"`
}

// body returns the body of a delivery, which has the same bytes at every attempt, and its content
// type.
func body(e seedbed.Endpoint, o seedbed.Outgoing) (b []byte, contentType string, err error) {
	if e.CloudEvents {
		b, err = json.Marshal(cloudEvent{
			SpecVersion: "1.0", ID: o.ID, Source: source, Type: "seedbed." + o.Type, Subject: o.Subject, Time: o.At,
			Sequence: strconv.FormatInt(o.Seq, 10), DataContentType: standardType, Data: o.Data,
		})
		return b, cloudEventType, err
	}
	b, err = json.Marshal(message{Type: o.Type, Version: 1, Timestamp: o.At, Seq: o.Seq, Data: o.Data})
	return b, standardType, err
}
