package libvirt

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"seedbed"
)

// maxTail bounds how much one call reads of a console: all that virtlogd keeps, unless its max_size
// was raised.
const maxTail = 8 * seedbed.MiB

// maxBackups bounds how many rolled logs are read (virtlogd keeps 3).
const maxBackups = 16

// consoleLog is the path of an instance's console log.
func consoleLog(dir string, id seedbed.InstanceID) string {
	return filepath.Join(dir, string(id)+".log")
}

// openConsoleDir prepares the directory of the console logs. virtlogd, as root, writes the files
// with mode 0600. Other users can enter the directory but not list it.
func openConsoleDir(dir string) error {
	if !filepath.IsAbs(dir) {
		return seedbed.Errorf(seedbed.ErrInvalid, "libvirt.console_dir is %q: expected an absolute path", dir)
	}
	_, err := os.Stat(dir)
	if err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return fmt.Errorf("make the console directory: %w", err)
	}
	// The umask may have removed the search bits that others need.
	if err := os.Chmod(dir, 0o711); err != nil {
		return fmt.Errorf("make the console directory: %w", err)
	}
	return nil
}

// consoleFiles returns the paths of the log and its rolled predecessors (LOG.0, LOG.1, …), newest
// first. They may not exist.
func consoleFiles(dir string, id seedbed.InstanceID) []string {
	log := consoleLog(dir, id)
	files := []string{log}
	for i := range maxBackups {
		files = append(files, log+"."+strconv.Itoa(i))
	}
	return files
}

// consoleTail returns the last tail bytes of a console across rolled files; nil if nothing was ever
// written.
func consoleTail(dir string, id seedbed.InstanceID, tail seedbed.Bytes) ([]byte, error) {
	want := int64(min(tail, maxTail))
	var parts [][]byte
	for _, file := range consoleFiles(dir, id) {
		if want <= 0 {
			break
		}
		part, err := fileTail(file, want)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the console of %s: %w", id, err)
		}
		parts = append(parts, part)
		want -= int64(len(part))
	}
	slices.Reverse(parts)
	return slices.Concat(parts...), nil
}

func fileTail(path string, want int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	start := max(0, end-want)
	return io.ReadAll(io.NewSectionReader(f, start, end-start))
}

// removeConsole removes an instance's log and its rolled predecessors.
func removeConsole(dir string, id seedbed.InstanceID) error {
	for _, file := range consoleFiles(dir, id) {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the console of %s: %w", id, err)
		}
	}
	return nil
}

// keepConsole makes text what a console shows of the time before the domain came to this host. It is in place of the log, which the
// next start truncates or, if the domain runs already, of the first rolled one. It may be repeated.
func keepConsole(dir string, id seedbed.InstanceID, text []byte, active bool) error {
	if len(text) == 0 {
		return nil
	}
	files := consoleFiles(dir, id)
	file := files[0]
	if active {
		file = files[1]
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("keep the console of %s: %w", id, err)
	}
	return nil
}
