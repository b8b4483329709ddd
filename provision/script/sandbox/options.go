package sandbox

import (
	"slices"
	"strconv"
	"strings"
)

// volumeTypes are the file systems of volumes, by their type in mount(2). Each has the options that
// the broker sets, and those that a script may set. Other options could name a file or device of the
// host (journal_path, logdev, device), or stop the host on an error (errors=panic).
var volumeTypes = map[string]struct {
	ours  []option
	flags []string // options without a value
	keys  []string // options with a value, which is a plain word
}{
	"ext2": extOptions, "ext3": extOptions, "ext4": extOptions,
	"xfs": {
		// Clones of one image have the same UUID. XFS refuses a second one on a host.
		ours: []option{{Key: "nouuid"}},
		flags: []string{
			"discard", "nodiscard", "inode64", "inode32", "attr2", "norecovery", "nouuid", "largeio", "nolargeio", "noquota", "noalign",
		},
		keys: []string{"logbufs", "logbsize", "allocsize"},
	},
	"btrfs": {
		flags: []string{"discard", "nodiscard", "ssd", "nossd", "autodefrag", "noautodefrag", "datacow", "nodatacow", "compress", "acl", "noacl",
			"barrier", "flushoncommit", "noflushoncommit"},
		keys: []string{"subvol", "subvolid", "compress", "compress-force", "space_cache", "discard", "commit"},
	},
	"vfat": {
		ours:  []option{{"errors", "remount-ro"}},
		flags: []string{"quiet", "discard", "flush", "utf8", "sys_immutable"},
		keys:  []string{"umask", "fmask", "dmask", "codepage", "iocharset", "shortname", "allow_utime"},
	},
}

var extOptions = struct {
	ours  []option
	flags []string
	keys  []string
}{
	// The superblock may request a panic on errors. An option overrides that.
	ours: []option{{"errors", "remount-ro"}},
	flags: []string{
		"discard", "nodiscard", "acl", "noacl", "user_xattr", "barrier", "nobarrier", "delalloc", "nodelalloc", "noload", "norecovery",
		"auto_da_alloc", "noauto_da_alloc", "noquota", "minixdf", "bsddf", "init_itable", "noinit_itable", "grpid", "nogrpid",
	},
	keys: []string{"data", "commit", "stripe", "errors", "barrier", "max_batch_time", "min_batch_time", "inode_readahead_blks"},
}

// driverOf returns the name of the kernel's file system that mounts such a volume. ext4 mounts ext2,
// ext3 and ext4, but supports mapped ids only under its own name.
func driverOf(fstype string) string {
	if fstype == "ext2" || fstype == "ext3" {
		return "ext4"
	}
	return fstype
}

// volumeOptions parses mount(2)'s data for a volume.
func volumeOptions(fstype, data string) ([]option, error) {
	t := volumeTypes[fstype]
	opts := slices.Clone(t.ours)
	for item := range strings.SplitSeq(data, ",") {
		key, value, has := strings.Cut(item, "=")
		switch {
		case item == "" || item == "errors=remount-ro":
			continue
		case !has && slices.Contains(t.flags, key):
		case has && slices.Contains(t.keys, key) && plainWord(key, value) && key != "errors":
		case has && key == "errors" && value == "continue" && slices.Contains(t.keys, key):
			opts = slices.DeleteFunc(opts, func(o option) bool { return o.Key == key })
		default:
			return nil, deny("option %s of %s is not allowed", quoted(item), fstype)
		}
		if o := (option{key, value}); !slices.Contains(opts, o) {
			opts = append(opts, o)
		}
	}
	return opts, nil
}

// plainWord matches values that a file system cannot use as a path or a module of the host. The path
// of a subvolume is inside the volume. A compression has a level.
func plainWord(key, value string) bool {
	more := map[string]string{"subvol": "/@+~", "compress": ":", "compress-force": ":"}[key]
	ok := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-"+more, r)
	}
	return value != "" && len(value) < 256 && !strings.ContainsFunc(value, func(r rune) bool { return !ok(r) })
}

// tmpfsOptions parses the data of mount(2) for a tmpfs. The size is at most most.
func tmpfsOptions(data string, most int64) ([]option, error) {
	size, mode := most, "1777"
	for item := range strings.SplitSeq(data, ",") {
		key, value, _ := strings.Cut(item, "=")
		switch key {
		case "size":
			n, err := tmpfsSize(value, most)
			if err != nil {
				return nil, err
			}
			if n > 0 {
				size = min(n, most)
			}
		case "mode":
			n, err := strconv.ParseUint(value, 8, 12)
			if err != nil {
				return nil, deny("mode %s: expected an octal number", quoted(value))
			}
			mode = strconv.FormatUint(n, 8)
		case "", "uid", "gid", "nr_inodes", "nr_blocks", "huge", "mpol", "inode64", "inode32":
			// Root inside owns it. The other options are not the script's choice.
		default:
			return nil, deny("option %s of tmpfs is not allowed", quoted(item))
		}
	}
	return []option{
		{"size", strconv.FormatInt(size, 10)}, {"mode", mode}, {"nr_inodes", strconv.FormatInt(min(max(size/4096, 1024), 1<<20), 10)},
	}, nil
}

// tmpfsSize reads a size with k, m, g or %, as tmpfs(5) describes it.
func tmpfsSize(s string, most int64) (int64, error) {
	unit := int64(1)
	digits := s
	if s != "" {
		switch s[len(s)-1] {
		case 'k', 'K':
			unit = 1 << 10
		case 'm', 'M':
			unit = 1 << 20
		case 'g', 'G':
			unit = 1 << 30
		case '%':
			return most, nil // of the host's memory: no figure that a sandbox should know
		}
		if unit > 1 {
			digits = s[:len(s)-1]
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return 0, deny("size %s: expected a number, and k, m, g or %%", quoted(s))
	}
	if n > most/unit {
		return most, nil
	}
	return n * unit, nil
}
