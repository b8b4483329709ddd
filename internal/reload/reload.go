// Package reload keeps a value that was loaded from files up to date with them, so that a renewed
// certificate needs no restart.
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
	// lookAgain is the shortest interval between two checks of the files.
	lookAgain = time.Second
	// tryAgain is the interval at which unusable files are read again although they have not
	// changed, since the cause may not be in the files themselves.
	tryAgain = time.Minute
)

// Value is the current value of the files. Its methods may be called concurrently.
type Value[T any] struct {
	files []string
	load  func() (T, error)
	log   *slog.Logger

	mu     sync.Mutex
	looked time.Time
	stamp  string
	value  T
	// refused is the stamp of files that could not be used, and tried is when they were read.
	refused string
	tried   time.Time
}

// Open loads the value from the files. Now loads it again after they have changed. If the new files
// cannot be used, the old value stays in use, and that is logged once until they change again.
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

// Now returns the value of the files as of at most a second ago.
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

// stampOf returns a stamp that changes with the content, owner and mode of the files.
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
