package server

import (
	"seedbed"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"
)

// Withholder is a value of an answer of which a caller without secret.read gets another form, without
// what may be secret. The other form must not be a Withholder.
type Withholder interface{ ForViewers() any }

// viewerOptions are AnswerOptions for callers without secret.read, such as viewers. Wherever in an answer one of these
// objects is, it is without what may be secret: documents, arguments, what guests and scripts write,
// and addresses that anyone who knows them can send to.
var viewerOptions = json.JoinOptions(AnswerOptions, json.WithMarshalers(json.JoinMarshalers(
	json.MarshalToFunc(func(e *jsontext.Encoder, p seedbed.Profile) error {
		type plain seedbed.Profile
		return json.MarshalEncode(e, struct {
			plain
			UserData   withheld `json:"user_data,omitzero"`
			VendorData withheld `json:"vendor_data,omitzero"`
			Arguments  withheld `json:"arguments,omitzero"`
		}{plain: plain(p)})
	}),
	json.MarshalToFunc(func(e *jsontext.Encoder, i seedbed.Instance) error {
		type plain seedbed.Instance
		i.Password = ""
		return json.MarshalEncode(e, plain(i))
	}),
	json.MarshalToFunc(func(e *jsontext.Encoder, g seedbed.GuestEvent) error {
		type plain seedbed.GuestEvent
		g.Fields = nil
		return json.MarshalEncode(e, plain(g))
	}),
	json.MarshalToFunc(func(e *jsontext.Encoder, p seedbed.Endpoint) error {
		type plain seedbed.Endpoint
		return json.MarshalEncode(e, struct {
			plain
			URL withheld `json:"url,omitzero"`
		}{plain: plain(p)})
	}),
	json.MarshalToFunc(func(e *jsontext.Encoder, o seedbed.Outgoing) error {
		type plain seedbed.Outgoing
		return json.MarshalEncode(e, struct {
			plain
			Data withheld `json:"data,omitzero"`
		}{plain: plain(o)})
	}),
	json.MarshalToFunc(func(e *jsontext.Encoder, j seedbed.Job) error {
		type plain seedbed.Job
		return json.MarshalEncode(e, plain(withoutScript(j)))
	}),
	json.MarshalToFunc(func(e *jsontext.Encoder, s seedbed.Stage) error {
		type plain seedbed.Stage
		if s.Error != "" && seedbed.ScriptStage(s.Name) {
			s.Error = seedbed.ScriptWithheld
		}
		return json.MarshalEncode(e, plain(s))
	}),
	json.MarshalToFunc(func(e *jsontext.Encoder, v seedbed.Event) error {
		type plain seedbed.Event
		return json.MarshalEncode(e, plain(eventWithoutScript(v)))
	}),
	json.MarshalToFunc(func(e *jsontext.Encoder, v seedbed.NumberedEvent) error {
		type plain seedbed.NumberedEvent
		v.Event = eventWithoutScript(v.Event)
		return json.MarshalEncode(e, plain(v))
	}),
	json.MarshalToFunc(func(e *jsontext.Encoder, v Withholder) error { return json.MarshalEncode(e, v.ForViewers()) }),
)))

// withheld takes the place of a member that is left out.
type withheld struct{}

// IsZero makes the member be left out.
func (withheld) IsZero() bool { return true }

// eventWithoutScript returns an event that does not quote a script. The last event of a job has no
// stage, or another one, and repeats the error.
func eventWithoutScript(e seedbed.Event) seedbed.Event {
	if e.Msg = seedbed.WithoutScript(e.Msg); seedbed.ScriptStage(e.Stage) {
		e.Msg = seedbed.ScriptWithheld
	}
	return e
}

// withoutScript returns a job whose error does not quote a script.
func withoutScript(j seedbed.Job) seedbed.Job {
	j.Error = seedbed.WithoutScript(j.Error)
	return j
}

// JobFor returns a job as the caller may read it, for answers that quote its error.
func JobFor(c *fiber.Ctx, j seedbed.Job) seedbed.Job {
	if CallerOf(c).May(seedbed.ActionSecretRead) {
		return j
	}
	return withoutScript(j)
}

// optionsFor returns the options of an answer to a caller.
func optionsFor(who Caller) json.Options {
	if who.May(seedbed.ActionSecretRead) {
		return AnswerOptions
	}
	return viewerOptions
}
