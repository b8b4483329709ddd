package webhook

import (
	"context"
	"reflect"
	"sync"
	"time"

	"seedbed"
	"seedbed/webhook/signature"

	"github.com/gofiber/fiber/v2"
)

// refreshPause is the least time between two reads of one hook that bypass the cache. Without it,
// anyone could cause reads by sending wrong signatures.
const refreshPause = time.Second

// refreshes records when each hook was last read again.
type refreshes struct {
	mu sync.Mutex
	at map[string]time.Time
}

// may reports whether a hook may be read again now, and if so records that it was.
func (r *refreshes) may(hook string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.at[hook]; ok && now.Sub(last) < refreshPause && !now.Before(last) {
		return false
	}
	if r.at == nil {
		r.at = map[string]time.Time{}
	}
	r.at[hook] = now
	return true
}

// verify checks a delivery against the keys of its hook. If they do not match, it reads the hook
// again and retries, because another control host may have added a key a moment ago.
func (r *receiver) verify(ctx context.Context, c *fiber.Ctx, d *delivered, s signature.Scheme, claimed signature.Claim, from peer) error {
	reason := signature.Verify(d.hook, s, claimed, d.body, d.Received)
	if reason == nil || d.hook.Name == "" || r.HookNow == nil || !r.refreshes.may(d.hook.Name, time.Now()) {
		return reason
	}
	now, err := r.HookNow(ctx, d.hook.Name)
	if err != nil || reflect.DeepEqual(now, d.hook) {
		return reason
	}
	// The checks before the signature must also hold for the new settings.
	if !from.admits(now) || insecureTransport(c.Context(), now, r.TrustedProxies) || now.MaxBody > 0 &&
		seedbed.Bytes(len(d.body)) > now.MaxBody ||
		now.Scheme != d.hook.Scheme || !reflect.DeepEqual(now.Form, d.hook.Form) {
		return reason
	}
	d.hook = now
	return signature.Verify(now, s, claimed, d.body, d.Received)
}
