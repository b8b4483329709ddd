// Package build says which release of Seedbed this program is.
package build

import "runtime/debug"

// version is set by the linker: -ldflags "-X seedbed/internal/build.version=1.2.3".
var version string

// Version is the release, such as "1.2.3"; for a build without one it is the
// module version or "devel" with the commit, as the Go tool recorded them.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return fromInfo(info)
}

func fromInfo(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	var commit, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = "-" + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	return "devel" + commit + dirty
}
