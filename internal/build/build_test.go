package build

import (
	"runtime/debug"
	"testing"
)

func TestFromInfo(t *testing.T) {
	t.Parallel()
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"}}
	tests := []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"release", debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3"},
		{"nothing known", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "devel"},
		{"commit", debug.BuildInfo{Settings: vcs[:1]}, "devel-0123456789ab"},
		{"changed after the commit", debug.BuildInfo{Settings: vcs}, "devel-0123456789ab-dirty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := fromInfo(&tt.info); got != tt.want {
				t.Errorf("fromInfo = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestVersionIsNeverEmpty(t *testing.T) {
	t.Parallel()
	if Version() == "" {
		t.Error("Version is empty")
	}
}
