package webhook

import (
	"errors"
	"slices"
	"strings"

	"seedbed"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// payload is the body of a delivery:
// {"action":"create","name":"web1","profile":"small","params":{"vcpus":2}}.
type payload struct {
	Action  string         `json:"action"`
	Name    string         `json:"name"`
	Profile string         `json:"profile"`
	Params  map[string]any `json:"params"`
}

// decode reads a verified body: one JSON object with known members, each at
// most once and spelled exactly, and nothing after it. The error names the
// member, as a JSON pointer, and never its value.
func decode(body []byte) (payload, error) {
	var p payload
	if jsontext.Value(body).Kind() != '{' {
		return p, errors.New("the body is not a JSON object")
	}
	err := json.Unmarshal(body, &p, json.RejectUnknownMembers(true))
	if err == nil {
		return p, nil
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(e, jsontext.ErrDuplicateName) {
			return p, errors.New("member " + place(e.JSONPointer) + " comes twice")
		}
		return p, errors.New("the body is not valid JSON near " + place(e.JSONPointer))
	}
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		if errors.Is(e, json.ErrUnknownName) {
			return p, errors.New("member " + place(e.JSONPointer) + " is unknown: want action, name, profile and params")
		}
		return p, errors.New("member " + place(e.JSONPointer) + " has the wrong type: want a string, or an object for params")
	}
	return p, errors.New("the body is not valid JSON")
}

func place(p jsontext.Pointer) string {
	if p == "" {
		return "its start or end"
	}
	return clip(string(p))
}

// request checks that nothing needed is missing; ErrInvalid names the member.
func (p payload) request() (seedbed.Request, error) {
	switch {
	case p.Action == "":
		return seedbed.Request{}, invalid("action is missing: want one of %s", strings.Join(seedbed.Actions(), ", "))
	case p.Name == "":
		return seedbed.Request{}, invalid("name is missing")
	case makes(p.Action) && p.Profile == "":
		return seedbed.Request{}, invalid("profile is missing")
	}
	return seedbed.Request{Action: p.Action, Name: p.Name, Profile: p.Profile, Params: p.Params}, nil
}

// makes tells whether an action makes an instance, or would.
func makes(action string) bool { return action == seedbed.DoCreate || action == seedbed.DoPlan }

// allowsAction tells whether hook may ask for action; a hook without a list may
// create alone.
func allowsAction(hook seedbed.Hook, action string) bool {
	if len(hook.Actions) == 0 {
		return action == seedbed.DoCreate
	}
	return slices.Contains(hook.Actions, action)
}

// allowsProfile tells whether hook may use profile; a hook without a list may
// use any.
func allowsProfile(hook seedbed.Hook, profile string) bool {
	return len(hook.Profiles) == 0 || slices.Contains(hook.Profiles, profile)
}
