package guestplane

import (
	"errors"
	"net"
	"strings"
	"testing"

	"seedbed"
)

// TestTakeDownRefuses: the daemon would make everything again.
func TestTakeDownRefuses(t *testing.T) {
	t.Parallel()
	daemon, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer daemon.Close()
	health := daemon.Addr().String()
	for _, force := range []bool{false, true} {
		err := TakeDown(t.Context(), health, quiet, force)
		want := "seedbed-metadata is running (it answers on " + health + "): stop it first"
		if !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), want) {
			t.Errorf("force %v: %v, want ErrInUse: %s", force, err, want)
		}
	}
}
