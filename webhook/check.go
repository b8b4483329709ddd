package webhook

import (
	"regexp"

	"seedbed"
	"seedbed/webhook/signature"
)

// The bounds of a hook.
const (
	maxRate        = 10_000
	maxConcurrency = 1000
	maxHookBody    = 16 * seedbed.MiB
	maxListed      = 64
	maxRule        = 16 << 10
)

var subjectForm = regexp.MustCompile(`^[!-~]{1,255}$`)

// CheckHook returns ErrInvalid for a hook whose scheme, keys, limits or rules cannot work or would
// admit anyone. The text says where in a rule the fault is.
func CheckHook(h seedbed.Hook) error {
	if _, err := signature.Of(h.HookSettings); err != nil {
		return err
	}
	if err := CheckKeys(h); err != nil {
		return err
	}
	switch {
	case h.Rate < 0 || h.Rate > maxRate:
		return invalid("rate %g: expected deliveries a second, 0 (any number) to %d", h.Rate, maxRate)
	case h.Concurrency < 0 || h.Concurrency > maxConcurrency:
		return invalid("concurrency %d: expected 0 (any number) to %d", h.Concurrency, maxConcurrency)
	case h.MaxBody < 0 || h.MaxBody > maxHookBody:
		return invalid("max_body %s: expected 0 (the listener's) to %s", h.MaxBody, maxHookBody)
	case h.Instances < 0 || h.Creates < 0:
		return invalid("instances and creates: expected 0 (any number) or more")
	case len(h.CIDRs) > maxListed:
		return invalid("cidrs: %d networks: expected at most %d", len(h.CIDRs), maxListed)
	case len(h.Subjects) > maxListed:
		return invalid("subjects: %d names: expected at most %d", len(h.Subjects), maxListed)
	}
	for _, p := range h.CIDRs {
		if !p.IsValid() || p != p.Masked() {
			return invalid("cidrs: %q: expected a network without host bits, such as 192.0.2.0/24", p)
		}
	}
	for _, s := range h.Subjects {
		if !subjectForm.MatchString(s) {
			return invalid("subjects: %q: expected a DNS or URI name or the common name of a certificate", seedbed.Clip(s))
		}
	}
	if err := (seedbed.JobOptions{Priority: h.Priority}).Check(seedbed.JobCreate); err != nil {
		return err
	}
	_, err := compile(h.When, h.Mapping)
	return err
}

// CheckHook is like the function of that name, and also refuses a hook whose deliveries this
// server's listener would never accept.
func (s *Server) CheckHook(h seedbed.Hook) error {
	switch {
	case h.MaxBody > seedbed.Bytes(s.maxBody):
		return invalid("max_body %s: the listener accepts at most %s: set at most that, or raise webhook.max_body in the configuration",
			h.MaxBody, seedbed.Bytes(s.maxBody))
	case len(h.Subjects) > 0 && !s.Certificates:
		return invalid("subjects: the listener does not ask for certificates, so no sender could match: " +
			"set webhook.tls.client_ca in the configuration first")
	}
	return CheckHook(h)
}

// CheckKeys returns ErrInvalid if the keys of a hook would admit every sender, or none.
func CheckKeys(h seedbed.Hook) error {
	switch {
	case h.Scheme == seedbed.SchemeNone && !h.Insecure:
		return invalid("scheme none verifies nothing: set insecure as well; then only loopback and clients with a certificate may send")
	case h.Insecure && h.Scheme != seedbed.SchemeNone:
		return invalid("insecure is only for the scheme none")
	case h.Scheme == seedbed.SchemeNone && len(h.Keys) > 0:
		return invalid("a hook of scheme %s has no keys", seedbed.SchemeNone)
	case h.Scheme == seedbed.SchemeAlertmanager && len(h.Keys) == 0 && len(h.Subjects) == 0:
		return invalid("scheme alertmanager without a token needs subjects: the names of the certificates that may send")
	case h.Scheme == seedbed.SchemeGitLab && len(h.CIDRs) == 0 && len(h.Subjects) == 0:
		return invalid("scheme gitlab signs nothing, and its secret can be copied: " +
			"set cidrs to the networks that GitLab sends from, or use the scheme gitlab-signed")
	case !signature.Keyless(h.Scheme) && len(h.Keys) == 0:
		return invalid("the hook has no key")
	}
	return nil
}

func invalid(format string, args ...any) error {
	return seedbed.Errorf(seedbed.ErrInvalid, format, args...)
}
