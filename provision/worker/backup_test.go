package worker

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
	"seedbed/provision/effects"
)

// The commands of a place run around what uses it: those before for the first, those after for the last. No shell reads them.
func TestCommandsOfPlaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	point := filepath.Join(dir, "$HOME;x")
	at := seedbed.BackupPlace{Kind: seedbed.BackupDir, Path: dir, Before: []string{"mkdir  " + point}, After: []string{"rmdir " + point}}
	p := &places{
		allowed: Backups{Dirs: []string{dir}, Commands: append(at.Before, at.After...)}, log: slog.New(slog.DiscardHandler),
		used: map[string]*mounted{},
	}
	there := func() bool { _, err := os.Stat(point); return err == nil }
	inside, leave, done := make(chan bool), make(chan bool), make(chan error)
	for range 2 {
		go func() {
			done <- p.use(t.Context(), at, func(context.Context) error {
				inside <- true
				<-leave
				return nil
			})
		}()
	}
	<-inside
	<-inside // mkdir would have failed the second time
	leave <- true
	if err := <-done; err != nil || !there() {
		t.Errorf("after the first: %v, mounted %v", err, there())
	}
	leave <- true
	if err := <-done; err != nil || there() {
		t.Errorf("after the last: %v, mounted %v", err, there())
	}
	broken := errors.New("broken")
	if err := p.use(t.Context(), at, func(context.Context) error { return broken }); !errors.Is(err, broken) || there() {
		t.Errorf("what failed: %v, mounted %v", err, there())
	}
	if len(p.used) != 0 {
		t.Errorf("%d places are in use", len(p.used))
	}

	if err := os.WriteFile(point, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := p.use(t.Context(), at, func(context.Context) error { t.Error("it was used"); return nil })
	if !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), "mkdir") || !strings.Contains(err.Error(), "File exists") {
		t.Errorf("before that fails: %v", err)
	}
}

// What the worker's own configuration does not list is refused.
func TestPlacesAllowed(t *testing.T) {
	t.Parallel()
	p := &places{allowed: Backups{Dirs: []string{"/mnt", "/srv/b"}, Commands: []string{"mount /mnt/b"}}}
	for _, tt := range []struct {
		at   seedbed.BackupPlace
		want error
	}{
		{seedbed.BackupPlace{Kind: seedbed.BackupDir, Path: "/mnt"}, nil},
		{seedbed.BackupPlace{Kind: seedbed.BackupDir, Path: "/mnt/b/", Before: []string{"mount /mnt/b"}}, nil},
		{seedbed.BackupPlace{Kind: seedbed.BackupDir, Path: "/srv/b/c"}, nil},
		{seedbed.BackupPlace{Kind: seedbed.BackupDir, Path: "/srv/bc"}, seedbed.ErrForbidden},
		{seedbed.BackupPlace{Kind: seedbed.BackupDir, Path: "/mnt/../etc"}, seedbed.ErrForbidden},
		{seedbed.BackupPlace{Kind: seedbed.BackupDir, Path: "/"}, seedbed.ErrForbidden},
		{seedbed.BackupPlace{Kind: seedbed.BackupDir, Path: "/mnt/b", Before: []string{"mount  /mnt/b"}}, seedbed.ErrForbidden},
		{seedbed.BackupPlace{Kind: seedbed.BackupDir, Path: "/mnt/b", After: []string{"rm -r /"}}, seedbed.ErrForbidden},
	} {
		if err := p.check(tt.at); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%+v: %v; want %v", tt.at, err, tt.want)
		}
	}
}

// A sweep must not be so soon that it hurts a backup that is being made.
func TestSweepGrace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := effects.Handlers{}
	HandleBackups(h, Backups{Dirs: []string{dir}}, slog.New(slog.DiscardHandler), nil)
	args := `{"place":{"kind":"dir","path":"` + dir + `"},"grace":3600000000000}`
	if _, err := h["sweep-backups"].Run(t.Context(), seedbed.Call{}, []byte(args), effects.Listener{}); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("a sweep after an hour: %v", err)
	}
}

// TestPlaceIsVeiled checks that what fails in a job, which its project sees, does not say where a place is. A check of the target does.
func TestPlaceIsVeiled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := effects.Handlers{}
	HandleBackups(h, Backups{Dirs: []string{dir}}, slog.New(slog.DiscardHandler), nil)
	for name, tt := range map[string]struct {
		path string
		want error
	}{
		"it does not exist": {dir + "/none", seedbed.ErrNotFound}, "it is not allowed": {"/elsewhere/backup", seedbed.ErrForbidden},
	} {
		args := []byte(`{"place":{"kind":"dir","path":"` + tt.path + `","known":true}}`)
		_, err := h["list-backups"].Run(t.Context(), seedbed.Call{}, args, effects.Listener{})
		if !errors.Is(err, tt.want) || strings.Contains(err.Error(), tt.path) || strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		_, err = h["check-backup-place"].Run(t.Context(), seedbed.Call{}, []byte(`{"kind":"dir","path":"`+tt.path+`"}`), effects.Listener{})
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.path) {
			t.Errorf("%s: the check answers %v", name, err)
		}
	}
}
