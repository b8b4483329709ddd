package run

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// NewLog returns the log of a daemon: text lines on w from level ("debug", "info", "warn" or
// "error") up. Lines have no time if w is the systemd journal, which adds its own.
func NewLog(w io.Writer, level string) *slog.Logger {
	var min slog.Level
	if err := min.UnmarshalText([]byte(level)); err != nil {
		min = slog.LevelInfo // config.Validate has already refused it
	}
	opt := &slog.HandlerOptions{Level: min}
	if isJournal(w, os.Getenv("JOURNAL_STREAM")) {
		opt.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	return slog.New(slog.NewTextHandler(w, opt))
}

// isJournal reports whether w is the stream that JOURNAL_STREAM names by device and inode
// (systemd.exec(5)). The variable alone proves nothing: programs whose output is redirected inherit
// it too.
func isJournal(w io.Writer, stream string) bool {
	f, ok := w.(*os.File)
	if !ok || stream == "" {
		return false
	}
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return false
	}
	return strings.TrimSpace(stream) == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}
