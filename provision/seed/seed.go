// Package seed keeps the CD-ROMs by which guests get their metadata without a network: the files of a NoCloud seed as an
// ISO 9660 image, one for each instance, in one directory of the node.
//
// Source: cloud-init, "NoCloud" (the label of the volume, and the names of the files).
package seed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"

	"seedbed"
	"seedbed/internal/durable"
)

// label is that of the volume, by which guests find the seed, filled up with blanks (ECMA-119 7.4.3.2): the library fills it up
// with NUL.
const label = "cidata                          "

// Open makes the directory if it is missing, and removes what a Write left there that was cut short, as by a crash: no other
// process may write to it. It returns ErrInvalid unless the path is absolute. QEMU's user can enter the directory, but not list it.
func Open(dir string) error {
	if !filepath.IsAbs(dir) {
		return seedbed.Errorf(seedbed.ErrInvalid, "libvirt.cdrom_dir is %q: expected an absolute path", dir)
	}
	_, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o711); err == nil {
			err = os.Chmod(dir, 0o711) // the umask may have removed the search bits
		}
	}
	if err != nil {
		return fmt.Errorf("make the directory of CD-ROMs: %w", err)
	}
	return sweep(dir)
}

// making begins the names of the directories in which CD-ROMs are made. Digits follow (os.MkdirTemp).
const making = ".making-"

// half matches the names of what Write makes before there is a CD-ROM, and the ID of its instance where that is in it.
var half = regexp.MustCompile(`^\.(?:making-|(.+)\.iso\.)[0-9]+$`)

// sweep removes what calls of Write left that did not end. It may have user-data.
func sweep(dir string) error {
	all, err := os.ReadDir(dir)
	for _, entry := range all {
		m := half.FindStringSubmatch(entry.Name())
		if m == nil {
			continue
		}
		if id := m[1]; id != "" {
			if _, err := seedbed.ParseInstanceID(id); err != nil {
				continue // it is not ours
			}
		}
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
	}
	if err != nil {
		return fmt.Errorf("remove what is left of CD-ROMs: %w", err)
	}
	return nil
}

// Path returns the path of an instance's CD-ROM.
func Path(dir string, id seedbed.InstanceID) string { return filepath.Join(dir, string(id)+".iso") }

// Write makes the CD-ROM of an instance, or makes it again. A guest that runs keeps the former one until it is started
// again. Only root can read the file, and QEMU's user, to whom libvirt gives it, since user-data may hold secrets.
func Write(dir string, s seedbed.Seed) (err error) {
	if err := s.Check(); err != nil {
		return err
	}
	work, err := os.MkdirTemp(dir, making) // with mode 0700
	if err != nil {
		return fmt.Errorf("make the CD-ROM of %s: %w", s.ID, err)
	}
	defer func() {
		if gone := os.RemoveAll(work); err == nil && gone != nil {
			err = fmt.Errorf("make the CD-ROM of %s: %w", s.ID, gone)
		}
	}()
	if err := build(work, s); err != nil {
		return fmt.Errorf("make the CD-ROM of %s: %w", s.ID, err)
	}
	image, err := os.ReadFile(filepath.Join(work, "image"))
	if err != nil {
		return fmt.Errorf("make the CD-ROM of %s: %w", s.ID, err)
	}
	return durable.WriteFile(Path(dir, s.ID), image, 0o600)
}

// build writes the file image in work.
func build(work string, s seedbed.Seed) error {
	content := filepath.Join(work, "content")
	if err := os.Mkdir(content, 0o755); err != nil {
		return err
	}
	for _, f := range s.Files {
		if err := os.WriteFile(filepath.Join(content, f.Name), f.Data, 0o444); err != nil {
			return err
		}
	}
	out, err := os.OpenFile(filepath.Join(work, "image"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	image, err := iso9660.Create(file.New(out, false), 0, 0, 0, content)
	if err != nil {
		return err
	}
	// Linux reads the names from Rock Ridge, Windows from Joliet: ISO 9660 itself has no '-' in them.
	return image.Finalize(iso9660.FinalizeOptions{RockRidge: true, Joliet: true, VolumeIdentifier: label})
}

// Remove removes the CD-ROM of an instance, if it has one.
func Remove(dir string, id seedbed.InstanceID) error {
	if err := os.Remove(Path(dir, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the CD-ROM of %s: %w", id, err)
	}
	return nil
}
