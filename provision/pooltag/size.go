package pooltag

import "seedbed"

// Sector is the unit of virtual sizes, in bytes.
const Sector = 512

// CheckSpec returns ErrInvalid for a volume whose names or size are not usable.
func CheckSpec(spec seedbed.VolumeSpec) error {
	if err := seedbed.CheckName("volume", spec.Name); err != nil {
		return err
	}
	if spec.Image != "" {
		if err := seedbed.CheckQualifiedName("image", spec.Image); err != nil {
			return err
		}
	}
	if spec.Size < 0 || spec.Size%Sector != 0 || spec.Size > seedbed.MaxDisk {
		return seedbed.Errorf(seedbed.ErrInvalid, "size %d of volume %s is not usable: expected a multiple of %d bytes, at most %s", spec.Size,
			spec.Name, Sector, seedbed.Bytes(seedbed.MaxDisk))
	}
	if spec.Image == "" && spec.Size == 0 {
		return seedbed.Errorf(seedbed.ErrInvalid, "volume %s has no image and no size: a blank volume needs a size", spec.Name)
	}
	return nil
}

// CloneSize returns the size of a volume of that spec, which is a clone of the image: the image's
// own if the spec has none. It returns ErrInvalid if the image does not fit.
func (t *Tag) CloneSize(spec seedbed.VolumeSpec) (seedbed.Bytes, error) {
	size := seedbed.Bytes(t.Size)
	switch {
	case spec.Size == 0:
		return size, nil
	case spec.Size < size:
		return 0, seedbed.Errorf(seedbed.ErrInvalid, "disk size %s is smaller than image %s, which needs at least %s", spec.Size, spec.Image,
			size)
	}
	return spec.Size, nil
}

// CheckCopy is CheckSpec for a volume that becomes a copy of another one.
func CheckCopy(spec seedbed.VolumeCopy) error {
	if err := CheckSpec(spec.VolumeSpec); err != nil {
		return err
	}
	if spec.Image != "" || spec.Name == spec.From {
		return seedbed.Errorf(seedbed.ErrInvalid, "volume %s cannot be a copy of %s: expected another volume, and no image", spec.Name, spec.From)
	}
	return spec.CopySource.Check()
}

// CheckCopied returns ErrInvalid if the volume does not fit into a copy of that spec, and ErrNotFound if it does not have the snapshot.
func (t *Tag) CheckCopied(pool string, spec seedbed.VolumeCopy) error {
	if seedbed.Bytes(t.Size) <= spec.Size {
		return t.CheckAt(pool, spec.CopySource)
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "disk size %s is smaller than volume %s, which has %s", spec.Size, t.Name, seedbed.Bytes(t.Size))
}

// CheckAt returns ErrNotFound if the volume does not have the snapshot whose content is to be copied.
func (t *Tag) CheckAt(pool string, s seedbed.CopySource) error {
	if s.At == "" {
		return nil
	}
	return t.FindToRestore(pool, s.At)
}
