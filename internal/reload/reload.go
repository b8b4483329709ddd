// Package reload keeps what was made of files up to date with them, so that a
// certificate that is renewed needs no restart.
package reload

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// lookAgain is how often the files are looked at, at most.
	lookAgain = time.Second
	// tryAgain is how often files that cannot be used are read, as long as they do not
	// change: what was in the way may not have been the files themselves.
	tryAgain = time.Minute
)

// Value is what the files hold, and what they hold next once they change. Its
// methods may be called at the same time.
type Value[T any] struct {
	files []string
	load  func() (T, error)
	log   *slog.Logger

	mu     sync.Mutex
	looked time.Time
	stamp  string
	value  T
	// refused is the stamp of files that could not be used, and tried when that was.
	refused string
	tried   time.Time
}

// Open reads the files with load. Files that have changed are read again when the
// value is asked for; new ones that cannot be used leave the old value in use, and
// one line in the log until they change again.
func Open[T any](files []string, load func() (T, error), log *slog.Logger) (*Value[T], error) {
	v := &Value[T]{files: files, load: load, log: log}
	stamp, err := stampOf(files)
	if err != nil {
		return nil, err
	}
	if v.value, err = load(); err != nil {
		return nil, err
	}
	v.stamp, v.looked = stamp, time.Now()
	return v, nil
}

// Now is the value of the files as they are, at most a second ago.
func (v *Value[T]) Now() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Since(v.looked) < lookAgain {
		return v.value
	}
	v.looked = time.Now()
	stamp, err := stampOf(v.files)
	if err == nil && stamp == v.stamp {
		v.refused = ""
		return v.value
	}
	if err != nil {
		stamp = err.Error()
	}
	known := stamp == v.refused
	if known && v.looked.Sub(v.tried) < tryAgain {
		return v.value
	}
	var next T
	if err == nil {
		next, err = v.load()
	}
	if err != nil {
		if !known {
			v.log.Error("new certificates cannot be used, the old ones stay", "err", err)
		}
		v.refused, v.tried = stamp, v.looked
		return v.value
	}
	v.value, v.stamp, v.refused = next, stamp, ""
	v.log.Info("certificates read again", "files", v.files)
	return next
}

// stampOf changes when one of the files does, or who may read it.
func stampOf(files []string) (string, error) {
	all := ""
	for _, name := range files {
		fi, err := os.Stat(name)
		if err != nil {
			return "", err
		}
		all += fmt.Sprintf("%d %d", fi.ModTime().UnixNano(), fi.Size())
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			all += fmt.Sprintf(" %d %d %o %d %d", st.Dev, st.Ino, st.Mode, st.Uid, st.Gid)
		}
		all += ";"
	}
	return all, nil
}
