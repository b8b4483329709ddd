package dir

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// onNode opens the pool as the worker of a node that shares it does.
func onNode(t *testing.T, path, node string) (*Pool, error) {
	t.Helper()
	p, err := Open(Config{Name: "nfs", Path: path, Reserve: 1, Shared: true, Node: node, Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return p, err
}

func TestSharedLocks(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	private := Config{Name: "nfs", Path: path, Reserve: 1, Log: slog.New(slog.DiscardHandler)}
	alone, err := Open(private)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := alone.Info(t.Context()); err != nil || info.Shared {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := onNode(t, path, "hv1"); !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), "shared: true") {
		t.Errorf("beside a node that has it for its own: %v", err)
	}
	if err := alone.Close(); err != nil {
		t.Fatal(err)
	}
	one, err := onNode(t, path, "hv1")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := one.Info(t.Context()); err != nil || !info.Shared {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := onNode(t, path, "hv1"); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("a second worker of the node: %v", err)
	}
	if _, err := onNode(t, path, ""); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("without a node's name: %v", err)
	}
	if _, err := Open(private); !errors.Is(err, seedbed.ErrInUse) {
		t.Errorf("for its own beside a node that shares it: %v", err)
	}
	// What a node is making is not what another finds unfinished at its start.
	f, err := one.temp(suffix)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := onNode(t, path, "hv2"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.Name()); err != nil || filepath.Dir(f.Name()) == filepath.Join(path, building) {
		t.Errorf("unfinished file of hv1 at %s: %v", f.Name(), err)
	}
}

// TestSharedTurn: another node's turn is waited for, and no longer than the call may take.
func TestSharedTurn(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	var nodes []*Pool
	for _, n := range []string{"hv1", "hv2"} {
		p, err := onNode(t, path, n)
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, p)
	}
	if err := nodes[0].enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := nodes[1].enter(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the other's turn: %v", err)
	}
	time.AfterFunc(20*time.Millisecond, nodes[0].leave)
	if err := nodes[1].enter(t.Context()); err != nil {
		t.Errorf("once it is over: %v", err)
	}
	nodes[1].leave()
	if err := nodes[0].enter(t.Context()); err != nil {
		t.Errorf("the first again: %v", err)
	}
	nodes[0].leave()
}
