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

// provisioner is the path of PVC's provisioner.
const provisioner = "/provisioner"

// said is PVC's answer to a change.
type said struct {
	Message string `json:"message"`
}

// tell sends a change to one of PVC's paths, and returns the server's message.
func (c *Client) tell(ctx context.Context, method, path string, body any) (string, error) {
	var s said
	err := c.do(ctx, call{method: method, path: provisioner + path, body: body, answer: &s})
	return s.Message, err
}

// matching lists the objects whose names match limit: text that may be anywhere in the name, at its
// start after '^', or at its end before '$'. An empty list is not an error here, as it is in PVC's
// API.
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

// element returns the object of that name. label is the error's word for it.
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

// absentError is PVC's error for an object that does not exist.
type absentError struct{ error }

// Unwrap returns the error itself.
func (e absentError) Unwrap() error { return e.error }

// noneFound reports whether an error is PVC's for an empty list.
func noneFound(err error) bool {
	_, ok := errors.AsType[absentError](err)
	return ok
}

// messageText returns a message as text. PVC's message about a missing argument is an object with
// the argument's name.
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

// messageError returns the error of a message. Its kind is the one that the server names or, if it
// names none, the one that the status implies.
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

// ProvisionerProfile is a profile of templates, user-data and a script, as PVC shows it. Absent
// values are "N/A", and one empty argument stands for no arguments.
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
	// Params are the declared parameters. An empty Follow means live.
	Params    []seedbed.Param `json:"params"`
	Follow    seedbed.Follow  `json:"follow"`
	Protected bool            `json:"protected"`
	Hold      bool            `json:"hold"`
}

// ProvisionerProfileRequest creates or changes a profile. Nil fields are not sent, and change
// nothing.
type ProvisionerProfileRequest struct {
	// Type is provisioner or ova. It cannot change later.
	Type     string  `json:"profile_type,omitempty"`
	System   *string `json:"system_template,omitempty"`
	Network  *string `json:"network_template,omitempty"`
	Storage  *string `json:"storage_template,omitempty"`
	UserData *string `json:"userdata,omitempty"`
	Script   *string `json:"script,omitempty"`
	OVA      *string `json:"ova,omitempty"`
	// Arguments are all arguments of the script, each as key=value. A single empty one stands for
	// no arguments.
	Arguments []string `json:"arg,omitempty"`
	// Params holds the declarations as JSON. An empty text removes them.
	Params    *string        `json:"params,omitempty"`
	Follow    seedbed.Follow `json:"follow,omitempty"`
	Protected *bool          `json:"protected,omitempty"`
	Hold      *bool          `json:"hold,omitempty"`
}

// ProvisionerProfiles lists the profiles whose names match limit. An empty limit matches all.
func (c *Client) ProvisionerProfiles(ctx context.Context, limit string) ([]ProvisionerProfile, error) {
	return matching[ProvisionerProfile](ctx, c, "/profile", limit)
}

// ProvisionerProfile returns a profile, or seedbed.ErrNotFound.
func (c *Client) ProvisionerProfile(ctx context.Context, name string) (ProvisionerProfile, error) {
	return element[ProvisionerProfile](ctx, c, "/profile", "profile", name)
}

// AddProvisionerProfile creates a profile. Type, System and Script are required. Like every change
// here, it returns the server's message.
func (c *Client) AddProvisionerProfile(ctx context.Context, name string, r ProvisionerProfileRequest) (string, error) {
	return c.tell(ctx, http.MethodPost, at("/profile", name), r)
}

// ChangeProvisionerProfile changes the fields of a profile that r sets.
func (c *Client) ChangeProvisionerProfile(ctx context.Context, name string, r ProvisionerProfileRequest) (string, error) {
	return c.tell(ctx, http.MethodPut, at("/profile", name), r)
}

// RemoveProvisionerProfile removes a profile. Instances made from it stay.
func (c *Client) RemoveProvisionerProfile(ctx context.Context, name string) (string, error) {
	return c.tell(ctx, http.MethodDelete, at("/profile", name), nil)
}

// ComposeRequest asks for an instance of a provisioner profile.
type ComposeRequest struct {
	Name    string `json:"name"`
	Profile string `json:"profile"`
	Define  bool   `json:"define_vm"`
	Start   bool   `json:"start_vm"`
	// Arguments are the script's arguments, which override the profile's.
	Arguments []string `json:"arg,omitempty"`
	// Params are values of the parameters that the profile declares, each as key=value.
	Params []string `json:"param,omitempty"`
	// Ready says when the job ends. Empty means seedbed.ReadyStarted.
	Ready seedbed.Ready `json:"ready,omitempty"`
}

// Task is a job as PVC's client knows it.
type Task struct {
	// ID is the first eight characters of the job's ID.
	ID    string `json:"task_id"`
	Name  string `json:"task_name"`
	RunOn string `json:"run_on"`
}

// Compose starts a create job. It returns seedbed.ErrNotFound when the profile does not exist.
func (c *Client) Compose(ctx context.Context, r ComposeRequest) (Task, error) {
	return post[Task](ctx, c, provisioner+"/create", r)
}
