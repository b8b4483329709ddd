package fleet_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/hook"
)

// startHooks is start with a script of that name and text.
func startHooks(t *testing.T, name, text string) *lab {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hooks.d")
	// A program that another test starts meanwhile would hold the file open for writing for a
	// moment, and the kernel would not run it.
	syscall.ForkLock.RLock()
	// Set the mode explicitly: concurrent tests create sockets under another umask.
	err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755),
		os.Chmod(filepath.Join(dir, name), 0o755))
	syscall.ForkLock.RUnlock()
	must(t, "write the script", err)
	l := start(t)
	must(t, "stop", l.stop())
	l.hooks = hook.New(hook.Config{Dir: dir})
	l.serve(t)
	return l
}

func hookOf(script string) seedbed.HookRun {
	return seedbed.HookRun{Script: script, ID: "h1", HookFacts: seedbed.HookFacts{Job: call(1).Job, Stage: "define", Node: "elsewhere"}}
}

// TestHookOverTheWire checks that a script runs on the worker's node, receives the node's name, and
// that its output and its end come over the wire.
func TestHookOverTheWire(t *testing.T) {
	t.Parallel()
	l := startHooks(t, "say", "#!/bin/sh\necho at $SEEDBED_NODE\nexit 3\n")
	var out []string
	r, err := effects.RunHook.Do(t.Context(), l, call(1), hookOf("say"),
		effects.OnOutput(func(line seedbed.OutputLine) { out = append(out, line.Stream+" "+line.Text) }))
	if err != nil || r.Problem != "it failed: exit status 3: at n1" || strings.Join(out, ";") != "stdout at n1" {
		t.Errorf("%+v, %v, %q", r, err, out)
	}
	for name, kind := range map[string]error{"none": seedbed.ErrNotFound, "../say": seedbed.ErrInvalid} {
		if _, err := effects.RunHook.Do(t.Context(), l, call(1), hookOf(name)); !errors.Is(err, kind) {
			t.Errorf("%s: %v; want %v", name, err, kind)
		}
	}
	other := hookOf("say")
	other.Job = "5f3c1a30-1111-4222-8333-000000000000"
	if _, err := effects.RunHook.Do(t.Context(), l, call(1), other); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("the facts of another job: %v", err)
	}
	checks, err := effects.Health.Ask(t.Context(), l, effects.None{})
	if err != nil || !strings.Contains(checks[len(checks)-2].Detail+checks[len(checks)-1].Detail, "say") {
		t.Errorf("health %+v, %v", checks, err)
	}
}

// TestNoHooks checks the error of a worker without a directory of scripts.
func TestNoHooks(t *testing.T) {
	t.Parallel()
	l := start(t)
	if _, err := effects.RunHook.Do(t.Context(), l, call(1), hookOf("say")); !errors.Is(err, seedbed.ErrInvalid) ||
		!strings.Contains(err.Error(), "runs no hook scripts") {
		t.Errorf("%v", err)
	}
}

// TestHookFenced checks that a newer holder of the job ends the former holder's script before it
// begins anything, and that the former holder can start no more. The end of the worker ends the
// script, too.
func TestHookFenced(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		end  func(t *testing.T, l *lab)
		want error
	}{
		{"newer holder", func(t *testing.T, l *lab) {
			if _, err := effects.CloneVolume.Do(t.Context(), l, call(2), volume()); err != nil {
				t.Error(err)
			}
		}, seedbed.ErrStale},
		{"end of the worker", func(t *testing.T, l *lab) {
			if err := l.stop(); err != nil {
				t.Error(err)
			}
		}, seedbed.ErrUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			mark := filepath.Join(t.TempDir(), "mark")
			l := startHooks(t, "slow", "#!/bin/sh\necho up\nsleep 1000\necho over > "+mark+"\n")
			up := make(chan struct{})
			failed := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				_, err := effects.RunHook.Do(ctx, l, call(1), hookOf("slow"), effects.OnOutput(func(seedbed.OutputLine) { close(up) }))
				failed <- err
			}()
			select {
			case <-up:
			case <-time.After(patience):
				t.Fatal("the script does not run")
			}
			test.end(t, l)
			if err := <-failed; !errors.Is(err, test.want) {
				t.Errorf("the script's call ended with %v; want %v", err, test.want)
			}
			if _, err := os.Stat(mark); err == nil {
				t.Error("the script ran on")
			}
			if test.want == seedbed.ErrStale {
				if _, err := effects.RunHook.Do(t.Context(), l, call(1), hookOf("slow")); !errors.Is(err, seedbed.ErrStale) {
					t.Errorf("a former holder's script: %v", err)
				}
			}
		})
	}
}
