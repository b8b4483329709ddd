//go:build libvirt

package libvirt

import (
	"errors"
	"strings"
	"testing"
	"time"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// TestDeafAgents refuses a guest whose agent has not answered for a while, and no other.
func TestDeafAgents(t *testing.T) {
	t.Parallel()
	var a deafAgents
	now := time.Unix(1e9, 0)
	a.add("slow", now)
	for _, tt := range []struct {
		id    seedbed.InstanceID
		after time.Duration
		want  error
	}{
		{"slow", 0, seedbed.ErrUnavailable}, {"other", 0, nil}, {"slow", deafTime - 1, seedbed.ErrUnavailable}, {"slow", deafTime, nil},
	} {
		if err := a.check(tt.id, now.Add(tt.after)); !errors.Is(err, tt.want) {
			t.Errorf("%s after %s: %v; want %v", tt.id, tt.after, err, tt.want)
		}
	}
}

// TestAgentErrors tells an agent that is not there from one that may have done what it was asked.
func TestAgentErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code lv.ErrorNumber
		kind error
		text string
	}{
		{lv.ERR_AGENT_UNRESPONSIVE, seedbed.ErrConflict, "apt install qemu-guest-agent"},
		{lv.ERR_AGENT_UNSYNCED, seedbed.ErrConflict, "apt install qemu-guest-agent"},
		{lv.ERR_AGENT_COMMAND_TIMEOUT, seedbed.ErrUnavailable, "what it was asked may have been done"},
		{lv.ERR_AGENT_COMMAND_FAILED, seedbed.ErrConflict, "refuses"},
		{lv.ERR_RPC, seedbed.ErrConflict, "too large"},
	} {
		if err := agentError("i", lv.Error{Code: tt.code}); !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%d: %v; want %v with %q", tt.code, err, tt.kind, tt.text)
		}
	}
}
