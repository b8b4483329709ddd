package hook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/internal/cli"
	"seedbed/webhook/signature"
)

const (
	defaultHookURL = "http://127.0.0.1:7371"
	// maxPayload is far larger than any receiver accepts.
	maxPayload  = 16 * seedbed.MiB
	sendTimeout = 30 * time.Second
)

// hookSend is one webhook to be sent.
type hookSend struct {
	name, data, url, secretFile, id string
	settings                        seedbed.HookSettings
	cli.WaitFlags
}

func hookSendCommand(a *cli.App) *cobra.Command {
	var (
		s    hookSend
		form string
	)
	c := &cobra.Command{
		Use:   "send NAME --data JSON",
		Short: "Sign a webhook and send it",
		Long: `Sign a payload with the hook's scheme, send it and print the answer. Exit status 0
means that it was accepted (202) or, with --wait, that its job succeeded.
The payload is {"action":"create","name":"vm1","profile":"web","params":{...}}.`,
		Example: `  seedbed hook send ci --data '{"action":"create","name":"vm1","profile":"web"}' --wait`,
		RunE: a.Do(func(ctx context.Context, args []string) error {
			var err error
			if s.name, err = qualified(a, args[0]); err != nil {
				return err
			}
			if s.settings.Form, err = readForm(form); err != nil {
				return err
			}
			return send(ctx, a, s)
		}),
	}
	f := c.Flags()
	f.StringVar(&s.data, "data", "", "`PAYLOAD`: JSON, @FILE, or - for standard input")
	f.StringVar(&s.url, "url", defaultHookURL, "`URL` of the receiver; the API's, for --wait, comes from the environment or the file")
	f.StringVar((*string)(&s.settings.Scheme), "scheme", string(seedbed.SchemeStandard), "signature `SCHEME` of the hook: "+schemes())
	f.StringVar(&form, "form", "", "YAML `FILE` that describes the signature of the scheme generic")
	f.StringVar(&s.secretFile, "secret-file", "", "`FILE` with the secret (default: the one that \"hook add\" saved)")
	f.StringVar(&s.id, "id", "", "webhook `ID`; the same ID means the same webhook (default: generated)")
	f.BoolVar(&s.Wait, "wait", false, "wait until the job ends")
	s.AddTimeout(c)
	_ = c.MarkFlagRequired("data") // the flag was added above
	return c
}

// qualified returns the qualified name of the hook that the command line names. One without a project is in
// that of the flag --project, the environment or the configuration.
func qualified(a *cli.App, name string) (string, error) {
	if err := checkName(name); err != nil || strings.Contains(name, "/") {
		return name, err
	}
	o, err := a.Options()
	return seedbed.Qualified(cmp.Or(o.Project, seedbed.DefaultProject), name), err
}

// payload returns what the flag --data gives.
func payload(a *cli.App, data string) ([]byte, error) {
	switch {
	case data == "-":
		return cli.ReadLimited(a.In, "standard input", maxPayload)
	case strings.HasPrefix(data, "@"):
		return cli.ReadBounded(data[1:], maxPayload)
	}
	return []byte(data), nil
}

func send(ctx context.Context, a *cli.App, s hookSend) error {
	secret, err := secret(a, s)
	if err != nil {
		return err
	}
	body, err := payload(a, s.data)
	if err != nil {
		return err
	}
	if s.id == "" {
		s.id = "msg_" + uuid.NewString()
	}
	receipt, err := deliver(ctx, a, s, secret, body)
	if err != nil {
		return err
	}
	if !s.Wait || receipt.Job == "" {
		return nil
	}
	api, err := a.Client()
	if err != nil {
		return err
	}
	return a.Follow(ctx, api, string(receipt.Job), s.Timeout, false)
}

// secret returns the text of the hook's secret.
func secret(a *cli.App, s hookSend) (string, error) {
	if s.settings.Scheme == seedbed.SchemeNone {
		return "", nil
	}
	file, err := secretFrom(a, s)
	if err != nil {
		return "", fmt.Errorf("%w: use --secret-file", err)
	}
	text, err := cli.GivenSecret(file)
	if err != nil {
		return "", fmt.Errorf("the hook's secret: %w (use --secret-file, or add the hook with: seedbed hook add %s)", err, s.name)
	}
	return text, nil
}

// secretFrom returns the path of the file with the secret.
func secretFrom(a *cli.App, s hookSend) (string, error) {
	if s.secretFile != "" {
		return s.secretFile, nil
	}
	return secretFile(a, s.name)
}

// deliver posts the webhook once and prints the answer. Anything but 202 is an error.
func deliver(ctx context.Context, a *cli.App, s hookSend, secret string, body []byte) (seedbed.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	now := a.Now()
	target := strings.TrimSuffix(s.url, "/") + "/hooks/" + s.name // of letters, digits, and characters that a path may have
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return seedbed.Receipt{}, cli.Usagef("--url: %v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	signed, err := signature.Headers(s.settings, secret, s.id, now, body)
	if err != nil {
		file, _ := secretFrom(a, s) // it has been read from there
		return seedbed.Receipt{}, fmt.Errorf("%s: %w", file, err)
	}
	for name, value := range signed {
		req.Header.Set(name, value)
	}
	noRedirect := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := noRedirect.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok && !e.Timeout() {
			err = e.Err
		}
		return seedbed.Receipt{}, fmt.Errorf("the webhook receiver does not answer on %s (is seedbedd running?): %w", s.url, err)
	}
	defer resp.Body.Close()
	answer, err := cli.ReadLimited(resp.Body, "the answer", seedbed.MiB)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	if resp.StatusCode != http.StatusAccepted && resp.StatusCode != http.StatusOK {
		return seedbed.Receipt{}, refusal(resp, answer)
	}
	var told struct {
		seedbed.Receipt
		Decision seedbed.Decision `json:"decision"`
	}
	if err := json.Unmarshal(answer, &told); err != nil || told.Job == "" && told.Decision == "" {
		return told.Receipt, fmt.Errorf("%s accepted the webhook, but it is not Seedbed that answered", s.url)
	}
	if told.Job == "" {
		return told.Receipt, printDecision(a, answer)
	}
	return told.Receipt, printReceipt(a, s, told.Receipt, answer)
}

// printDecision prints the answer to a webhook that started no job. The sizes in its plan are
// numbers, as in all JSON of the tool.
func printDecision(a *cli.App, answer []byte) error {
	var members map[string]any
	var told struct {
		Plan *seedbed.Plan `json:"plan"`
	}
	if err := errors.Join(json.Unmarshal(answer, &members), json.Unmarshal(answer, &told)); err != nil {
		return err
	}
	if told.Plan != nil {
		members["plan"] = told.Plan
	}
	return a.PrintJSON(members)
}

func printReceipt(a *cli.App, s hookSend, r seedbed.Receipt, answer []byte) error {
	switch {
	case a.JSON() && s.Wait:
		return nil // the job's end is the answer
	case a.JSON():
		return a.PrintJSON(json.RawMessage(answer))
	}
	was := "accepted"
	if r.Duplicate {
		was = "already accepted"
	}
	a.Say("%s: webhook %s %s, job %s %s", http.StatusText(http.StatusAccepted), s.id, was, r.Job.Short(), r.State)
	return nil
}

// refusal returns the error for an answer other than 202.
func refusal(resp *http.Response, answer []byte) error {
	var p struct {
		Detail string `json:"detail"`
		Kind   string `json:"kind"`
	}
	msg := "the webhook was refused: " + resp.Status
	if json.Unmarshal(answer, &p) == nil && p.Detail != "" {
		msg += ": " + p.Detail
	}
	switch code := resp.StatusCode; {
	case code == http.StatusNotFound:
		return seedbed.Errorf(seedbed.ErrNotFound, "%s", msg)
	case code >= 400 && code < 500 && code != http.StatusTooManyRequests, code == http.StatusInsufficientStorage:
		return seedbed.Errorf(seedbed.ErrInvalid, "%s", msg)
	}
	return errors.New(msg)
}
