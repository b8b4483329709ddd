package webhook

import (
	"context"
	"reflect"
	"sync"
	"time"

	"seedbed/webhook/signature"
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
func (r *receiver) verify(ctx context.Context, d *delivered, s signature.Scheme, claimed signature.Claim) error {
	reason := signature.Verify(d.hook, s, claimed, d.body, d.Received)
	if reason == nil || d.hook.Name == "" || r.HookNow == nil || !r.refreshes.may(d.hook.Name, time.Now()) {
		return reason
	}
	now, err := r.HookNow(ctx, d.hook.Name)
	if err != nil || reflect.DeepEqual(now, d.hook) {
		return reason
	}
	if now.Scheme != d.hook.Scheme || !reflect.DeepEqual(now.Form, d.hook.Form) {
		return reason
	}
	d.hook = now
	return signature.Verify(now, s, claimed, d.body, d.Received)
}
