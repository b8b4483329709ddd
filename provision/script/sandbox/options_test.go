package sandbox

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVolumeOptions(t *testing.T) {
	t.Parallel()
	remount := option{"errors", "remount-ro"}
	for _, tt := range []struct {
		fstype, data string
		want         []option
		refused      bool
	}{
		{"ext4", "", []option{remount}, false},
		{"ext4", "discard,errors=remount-ro,commit=30", []option{remount, {"discard", ""}, {"commit", "30"}}, false},
		{"ext4", "errors=continue", []option{{"errors", "continue"}}, false},
		{"ext4", "errors=panic", nil, true},
		{"ext4", "journal_path=/etc/shadow", nil, true},
		{"ext4", "journal_dev=0x700", nil, true},
		{"ext4", "usrjquota=aquota.user", nil, true},
		{"ext4", "data=ordered,", []option{remount, {"data", "ordered"}}, false},
		{"ext4", "data=../x", nil, true},
		{"ext4", "discard=1", nil, true},
		{"ext3", "commit", nil, true},
		{"xfs", "nouuid,inode64", []option{{"nouuid", ""}, {"inode64", ""}}, false},
		{"xfs", "logdev=/dev/sda", nil, true},
		{"xfs", "rtdev=/dev/sda", nil, true},
		{"btrfs", "subvol=@/root,compress=zstd:3", []option{{"subvol", "@/root"}, {"compress", "zstd:3"}}, false},
		{"btrfs", "device=/dev/sda", nil, true},
		{"btrfs", "compress=/x", nil, true},
		{"vfat", "umask=0077,utf8", []option{remount, {"umask", "0077"}, {"utf8", ""}}, false},
		{"vfat", "iocharset=../x", nil, true},
		{"vfat", "errors=panic", nil, true},
	} {
		t.Run(tt.fstype+" "+tt.data, func(t *testing.T) {
			t.Parallel()
			got, err := volumeOptions(tt.fstype, tt.data)
			if (err != nil) != tt.refused {
				t.Fatalf("error %v, want refused: %t", err, tt.refused)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTmpfsOptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		data    string
		want    []option
		refused bool
	}{
		{"", []option{{"size", "1048576"}, {"mode", "1777"}, {"nr_inodes", "1024"}}, false},
		{"size=64k,mode=755", []option{{"size", "65536"}, {"mode", "755"}, {"nr_inodes", "1024"}}, false},
		{"size=10g,uid=0,gid=5,nr_inodes=0", []option{{"size", "1048576"}, {"mode", "1777"}, {"nr_inodes", "1024"}}, false},
		{"size=50%", []option{{"size", "1048576"}, {"mode", "1777"}, {"nr_inodes", "1024"}}, false},
		{"size=0", []option{{"size", "1048576"}, {"mode", "1777"}, {"nr_inodes", "1024"}}, false},
		{"size=99999999999999999999", nil, true},
		{"size=9223372036854775807g", []option{{"size", "1048576"}, {"mode", "1777"}, {"nr_inodes", "1024"}}, false},
		{"size=-1", nil, true},
		{"size=k", nil, true},
		{"mode=9", nil, true},
		{"mode=77777", nil, true},
		{"noswap", nil, true},
	} {
		t.Run(tt.data, func(t *testing.T) {
			t.Parallel()
			got, err := tmpfsOptions(tt.data, 1<<20)
			if (err != nil) != tt.refused {
				t.Fatalf("error %v, want refused: %t", err, tt.refused)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzOptions(f *testing.F) {
	for _, seed := range []string{"discard,commit=5", "size=1g,mode=0755", "subvol=@", ",=,="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		for fstype, known := range volumeTypes {
			opts, err := volumeOptions(fstype, data)
			if err != nil {
				continue
			}
			for _, o := range opts {
				if o.Value != "" && !plainWord(o.Key, o.Value) {
					t.Errorf("%s: %v got through", fstype, o)
				}
				if o == (option{"errors", "panic"}) {
					t.Errorf("%s: %v got through", fstype, o)
				}
			}
			if len(known.ours) > 0 && known.ours[0].Value == "" && opts[0] != known.ours[0] {
				t.Errorf("%s: %v was lost", fstype, known.ours[0])
			}
		}
		opts, err := tmpfsOptions(data, 1<<20)
		if err != nil {
			return
		}
		if n, err := tmpfsSize(opts[0].Value, 1<<20); err != nil || n <= 0 || n > 1<<20 {
			t.Errorf("size %s: %v", opts[0].Value, err)
		}
	})
}
