//go:build ceph

package ceph

import "github.com/ceph/go-ceph/rbd"

// #include <rados/librados.h>
import "C"

// closeImage closes an image that was opened with s.io. Nothing else may close one: librbd's thread
// that ends an open wakes the caller first, and then takes a mutex of the image, which a close
// frees. closeImage waits until that thread has left. See docs/decisions/0020-closed-images.md.
func (s *session) closeImage(img *rbd.Image) error {
	if err := s.settle(); err != nil {
		return err
	}
	return img.Close()
}

// settle waits until librados has returned from the callbacks that it has begun. It runs them one
// after the other, and so this one, which no operation precedes, runs after them.
func (s *session) settle() error {
	var done C.rados_completion_t
	if code := C.rados_aio_create_completion2(nil, nil, &done); code < 0 {
		return refusal(-code)
	}
	defer C.rados_aio_release(done)
	if code := C.rados_aio_flush_async(C.rados_ioctx_t(s.io.Pointer()), done); code < 0 {
		return refusal(-code)
	}
	if code := C.rados_aio_wait_for_complete(done); code < 0 {
		return refusal(-code)
	}
	return nil
}
