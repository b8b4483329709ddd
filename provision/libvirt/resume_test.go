//go:build libvirt

package libvirt

import (
	"errors"
	"testing"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// pausedDomain is a domain whose resume has that outcome, and that is in that state afterwards.
type pausedDomain struct {
	err   error
	state lv.DomainState
}

func (d pausedDomain) Resume() error                          { return d.err }
func (d pausedDomain) GetState() (lv.DomainState, int, error) { return d.state, 0, nil }

// A domain that was paused because it was being started may run by then, or be switched off by the
// libvirtd that replaces one that was killed.
func TestResume(t *testing.T) {
	t.Parallel()
	invalid := lv.Error{Code: lv.ERR_OPERATION_INVALID, Domain: lv.FROM_QEMU, Message: "domain is not running"}
	for name, c := range map[string]struct {
		dom  pausedDomain
		want error
	}{
		"resumed":            {pausedDomain{nil, lv.DOMAIN_RUNNING}, nil},
		"started by another": {pausedDomain{invalid, lv.DOMAIN_RUNNING}, nil},
		"taken away":         {pausedDomain{invalid, lv.DOMAIN_SHUTOFF}, seedbed.ErrUnavailable},
		"cannot be resumed":  {pausedDomain{invalid, lv.DOMAIN_PAUSED}, invalid},
		"refused for good":   {pausedDomain{lv.Error{Code: lv.ERR_OPERATION_DENIED}, lv.DOMAIN_SHUTOFF}, lv.Error{Code: lv.ERR_OPERATION_DENIED}},
		"libvirtd is away":   {pausedDomain{lv.Error{Code: lv.ERR_RPC}, lv.DOMAIN_SHUTOFF}, lv.Error{Code: lv.ERR_RPC}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := resume(c.dom); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// TestAwake checks that no guest is asked to let go of a device while its domain is paused.
func TestAwake(t *testing.T) {
	t.Parallel()
	for state, want := range map[lv.DomainState]error{
		lv.DOMAIN_RUNNING: nil, lv.DOMAIN_PAUSED: seedbed.ErrConflict, lv.DOMAIN_PMSUSPENDED: seedbed.ErrConflict, lv.DOMAIN_SHUTDOWN: nil,
	} {
		if err := awake(pausedDomain{state: state}); !errors.Is(err, want) {
			t.Errorf("state %d: %v, want %v", state, err, want)
		}
	}
}
