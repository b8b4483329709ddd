package mapper

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mount is one line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type mount struct {
	device string // major:minor
	point  string
	source string // as given to mount; the only trace of the device if the file system has its own number (btrfs)
}

// mountsOf returns where the device is mounted, as this process sees it, innermost first.
func mountsOf(device string) ([]string, error) {
	var st unix.Stat_t
	if err := unix.Stat(device, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: device, Err: err}
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	number := fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	var points []string
	for _, m := range parseMounts(string(text)) {
		if m.device == number || m.source == device {
			points = append(points, m.point)
		}
	}
	slices.Reverse(points)
	return points, nil
}

// parseMounts reads mountinfo and skips lines of another form.
func parseMounts(text string) []mount {
	var all []mount
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		first, last := strings.Fields(before), strings.Fields(after)
		if !ok || len(first) < 6 || len(last) < 2 {
			continue
		}
		all = append(all, mount{device: first[2], point: unescape(first[4]), source: unescape(last[1])})
	}
	return all
}

// unescape undoes the kernel's octal escapes of blanks and backslashes.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
