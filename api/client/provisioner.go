package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"seedbed"
)

// provisioner is where PVC's provisioner is.
const provisioner = "/provisioner"

// said is PVC's answer to a change.
type said struct {
	Message string `json:"message"`
}

// tell asks for a change on one of PVC's paths, and gives what the server says of it.
func (c *Client) tell(ctx context.Context, method, path string, body any) (string, error) {
	var s said
	err := c.do(ctx, call{method: method, path: provisioner + path, body: body, answer: &s})
	return s.Message, err
}

// matching lists the objects whose names match limit, which is text that is
// anywhere in the name, at its start after '^', and at its end before '$'; none
// is no error, as it is for PVC.
func matching[T any](ctx context.Context, c *Client, path, limit string) ([]T, error) {
	var q url.Values
	if limit != "" {
		q = url.Values{"limit": {limit}}
	}
	all, err := get[[]T](ctx, c, provisioner+path, q)
	if noneFound(err) {
		return []T{}, nil
	}
	return all, err
}

// element is the object of that name; label is what the error calls it.
func element[T any](ctx context.Context, c *Client, path, label, name string) (T, error) {
	var none T
	all, err := get[[]T](ctx, c, at(provisioner+path, name), nil)
	switch {
	case noneFound(err) || err == nil && len(all) == 0:
		return none, seedbed.Errorf(seedbed.ErrNotFound, "the %s %q does not exist", label, name)
	case err != nil:
		return none, err
	}
	return all[0], nil
}

// absentError is that of a resource that is not there, of a server that says so.
type absentError struct{ error }

// Unwrap returns the error itself.
func (e absentError) Unwrap() error { return e.error }

// noneFound reports whether an error is PVC's for an empty list.
func noneFound(err error) bool {
	_, ok := errors.AsType[absentError](err)
	return ok
}

// messageText is a message as one text: PVC's is an object with the name of the
// argument where one is missing.
func messageText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var of map[string]string
	if json.Unmarshal(raw, &of) != nil {
		return ""
	}
	var all []string
	for name, what := range of {
		all = append(all, name+": "+what)
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// messageError is the error of a message, of the kind that the server names or, where
// it names none, that the status tells.
func messageError(status int, kind, msg string) error {
	if kind != "" {
		err := seedbed.KindError(kind, msg)
		if errors.Is(err, seedbed.ErrNotFound) {
			return absentError{err}
		}
		return err
	}
	is := seedbed.ErrInvalid
	switch status {
	case http.StatusUnauthorized:
		is = seedbed.ErrUnauthenticated
	case http.StatusForbidden:
		is = seedbed.ErrForbidden
	case http.StatusNotFound:
		is = seedbed.ErrNotFound
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		is = seedbed.ErrUnavailable
	default:
		if status >= http.StatusInternalServerError {
			return fmt.Errorf("the API failed: %s", msg)
		}
	}
	return &seedbed.Error{Kind: is, Msg: msg}
}

// ProvisionerProfile puts templates, userdata and a script together, as PVC
// shows it: what it does not have is "N/A", and no argument is one empty one.
type ProvisionerProfile struct {
	ID        int64    `json:"id"`
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	System    string   `json:"system_template"`
	Network   string   `json:"network_template"`
	Storage   string   `json:"storage_template"`
	UserData  string   `json:"userdata"`
	Script    string   `json:"script"`
	OVA       string   `json:"ova"`
	Arguments []string `json:"arguments"`
	// Params are what it declares; Follow is empty for live.
	Params    []seedbed.Param `json:"params"`
	Follow    seedbed.Follow  `json:"follow"`
	Protected bool            `json:"protected"`
	Hold      bool            `json:"hold"`
}

// ProvisionerProfileRequest is what a profile is made of, or what of it is
// changed. What is nil is not sent, and stays.
type ProvisionerProfileRequest struct {
	// Type is provisioner or ova; a profile's stays what it was made with.
	Type     string  `json:"profile_type,omitempty"`
	System   *string `json:"system_template,omitempty"`
	Network  *string `json:"network_template,omitempty"`
	Storage  *string `json:"storage_template,omitempty"`
	UserData *string `json:"userdata,omitempty"`
	Script   *string `json:"script,omitempty"`
	OVA      *string `json:"ova,omitempty"`
	// Arguments are all of the script's, each as key=value; one that is empty alone stands for none.
	Arguments []string `json:"arg,omitempty"`
	// Params is the declarations as JSON; empty takes them away.
	Params    *string        `json:"params,omitempty"`
	Follow    seedbed.Follow `json:"follow,omitempty"`
	Protected *bool          `json:"protected,omitempty"`
	Hold      *bool          `json:"hold,omitempty"`
}

// ProvisionerProfiles lists the profiles whose names match limit; empty is all.
func (c *Client) ProvisionerProfiles(ctx context.Context, limit string) ([]ProvisionerProfile, error) {
	return matching[ProvisionerProfile](ctx, c, "/profile", limit)
}

// ProvisionerProfile is one profile, or seedbed.ErrNotFound.
func (c *Client) ProvisionerProfile(ctx context.Context, name string) (ProvisionerProfile, error) {
	return element[ProvisionerProfile](ctx, c, "/profile", "profile", name)
}

// AddProvisionerProfile makes a profile; a Type, a System and a Script are needed.
// Like every change here, it gives what the server says of it.
func (c *Client) AddProvisionerProfile(ctx context.Context, name string, r ProvisionerProfileRequest) (string, error) {
	return c.tell(ctx, http.MethodPost, at("/profile", name), r)
}

// ChangeProvisionerProfile changes what r says of a profile.
func (c *Client) ChangeProvisionerProfile(ctx context.Context, name string, r ProvisionerProfileRequest) (string, error) {
	return c.tell(ctx, http.MethodPut, at("/profile", name), r)
}

// RemoveProvisionerProfile removes a profile; what was made from it stays.
func (c *Client) RemoveProvisionerProfile(ctx context.Context, name string) (string, error) {
	return c.tell(ctx, http.MethodDelete, at("/profile", name), nil)
}

// ComposeRequest asks for a machine of a provisioner profile.
type ComposeRequest struct {
	Name    string `json:"name"`
	Profile string `json:"profile"`
	Define  bool   `json:"define_vm"`
	Start   bool   `json:"start_vm"`
	// Arguments are the script's, over those of the profile.
	Arguments []string `json:"arg,omitempty"`
	// Params are values of what the profile declares, each as key=value.
	Params []string `json:"param,omitempty"`
	// Ready is what ends the job; empty is seedbed.ReadyStarted.
	Ready seedbed.Ready `json:"ready,omitempty"`
}

// Task is a job as PVC's client knows it.
type Task struct {
	// ID is the first eight characters of the job's.
	ID    string `json:"task_id"`
	Name  string `json:"task_name"`
	RunOn string `json:"run_on"`
}

// Compose starts a create job; seedbed.ErrNotFound when there is no such profile.
func (c *Client) Compose(ctx context.Context, r ComposeRequest) (Task, error) {
	return post[Task](ctx, c, provisioner+"/create", r)
}
