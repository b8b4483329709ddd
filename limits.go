package seedbed

// The bounds of what an instance may have. They prevent mistakes and abuse; the job finds out what
// the host can really give.
const (
	// MaxVCPUs is the largest number of virtual CPUs: what the pc machine type of every supported
	// QEMU takes.
	MaxVCPUs = 255
	// MaxDisk is the largest virtual size of a disk, whether asked for or imported.
	MaxDisk = 64 * TiB
	// MaxNICs and MaxVolumes are how many NICs and disks an instance has at most.
	MaxNICs    = 16
	MaxVolumes = 32

	minMemory = 64 * MiB
	maxMemory = 64 * TiB
	sector    = Bytes(512)
)

// CheckVCPUs returns ErrInvalid unless n is 1 to MaxVCPUs.
func CheckVCPUs(n int) error {
	if n < 1 || n > MaxVCPUs {
		return Errorf(ErrInvalid, "vcpus is out of range: expected 1 to %d", MaxVCPUs)
	}
	return nil
}

// CheckMemory returns ErrInvalid unless size is a whole number of MiB from 64 MiB to 64 TiB.
func CheckMemory(size Bytes) error {
	if size < minMemory || size > maxMemory {
		return Errorf(ErrInvalid, "memory is %s: expected %s to %s", size, minMemory, maxMemory)
	}
	if size%MiB != 0 {
		return Errorf(ErrInvalid, "memory is %s: expected a multiple of 1MiB", size)
	}
	return nil
}

// CheckDisk returns ErrInvalid unless size is a whole number of sectors up to MaxDisk. Zero, which
// means the size of the image, is valid. The message calls the size param, its name for the user.
func CheckDisk(param string, size Bytes) error {
	if size < 0 || size > MaxDisk {
		return Errorf(ErrInvalid, "%s is %s: expected at most %s", param, size, MaxDisk)
	}
	if size%sector != 0 {
		return Errorf(ErrInvalid, "%s is %s: expected a multiple of %d bytes, a disk's sector", param, size, sector)
	}
	return nil
}
