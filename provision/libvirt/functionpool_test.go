//go:build libvirt

package libvirt

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// TestFunctionPoolAtOnce checks that guests that are the first at an interface at once open one pool, in libvirt's driver for tests.
func TestFunctionPoolAtOnce(t *testing.T) {
	t.Parallel()
	d, conns := &Driver{}, make([]*lv.Connect, 8)
	for i := range conns {
		conn, err := lv.NewConnect("test:///default")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns[i] = conn
	}
	for i := range 100 {
		on := fmt.Sprintf("wire%d", i)
		start, errs := make(chan struct{}), make(chan error)
		for _, conn := range conns {
			go func() {
				<-start
				errs <- d.openPool(conn, on)
			}()
		}
		close(start)
		for range conns {
			if err := <-errs; err != nil {
				t.Errorf("%s: got %v", on, err)
			}
		}
	}
	pool, err := conns[0].LookupNetworkByName(functionPool + "wire0")
	if err != nil {
		t.Fatal(err)
	}
	active, err := pool.IsActive()
	starts, startsErr := pool.GetAutostart()
	if err := errors.Join(err, startsErr, pool.Free()); err != nil || !active || !starts {
		t.Errorf("active %t, with libvirt %t, %v", active, starts, err)
	}
}

// TestFunctionPoolRefused checks that only errors that may be for want of virtual functions ask for these.
func TestFunctionPoolRefused(t *testing.T) {
	t.Parallel()
	for code, want := range map[lv.ErrorNumber]error{
		lv.ERR_INTERNAL_ERROR: seedbed.ErrConflict, lv.ERR_SYSTEM_ERROR: seedbed.ErrConflict, lv.ERR_RPC: seedbed.ErrUnavailable,
		lv.ERR_OPERATION_TIMEOUT: seedbed.ErrUnavailable, lv.ERR_ACCESS_DENIED: seedbed.ErrForbidden, lv.ERR_OPERATION_FAILED: nil,
	} {
		err := unusable("wire", lv.Error{Code: code, Message: "no"})
		var kind *seedbed.Error
		if want != nil && !errors.Is(err, want) || want == nil && errors.As(err, &kind) ||
			strings.Contains(err.Error(), "sriov_numvfs") != (want == seedbed.ErrConflict) || !strings.Contains(err.Error(), "wire") {
			t.Errorf("%d: got %v; want %v", code, err, want)
		}
	}
}
