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

// rereadPause is the least time between two looks at one hook past what is
// remembered of it: strangers choose when a signature is wrong.
const rereadPause = time.Second

// rereads is when each hook was last read again.
type rereads struct {
	mu sync.Mutex
	at map[string]time.Time
}

// may tells whether it is time to read a hook again, and if so takes that.
func (r *rereads) may(hook string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.at[hook]; ok && now.Sub(last) < rereadPause && !now.Before(last) {
		return false
	}
	if r.at == nil {
		r.at = map[string]time.Time{}
	}
	r.at[hook] = now
	return true
}

// verify holds a delivery against the keys of its hook. One that they do not
// prove has the hook read again: another control host may have given it a key a
// moment ago, and a sender need not be told that it may not send for that.
func (r *receiver) verify(ctx context.Context, c *fiber.Ctx, d *delivered, s signature.Scheme, claimed signature.Claim, from peer) error {
	reason := signature.Verify(d.hook, s, claimed, d.body, d.Received)
	if reason == nil || d.hook.Name == "" || r.HookNow == nil || !r.rereads.may(d.hook.Name, time.Now()) {
		return reason
	}
	now, err := r.HookNow(ctx, d.hook.Name)
	if err != nil || reflect.DeepEqual(now, d.hook) {
		return reason
	}
	// What was looked at before the signature holds for what the hook is now, too.
	if !from.admits(now) || overheard(c.Context(), now, r.TrustedProxies) || now.MaxBody > 0 && seedbed.Bytes(len(d.body)) > now.MaxBody ||
		now.Scheme != d.hook.Scheme || !reflect.DeepEqual(now.Form, d.hook.Form) {
		return reason
	}
	d.hook = now
	return signature.Verify(now, s, claimed, d.body, d.Received)
}
