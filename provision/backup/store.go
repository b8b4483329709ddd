package backup

import (
	"context"
	"time"
)

// store keeps objects by name. A name has parts with slashes between them, none of which begins with a dot. Errors: ErrUnavailable if the
// store does not answer, ErrForbidden if it refuses, ErrFull.
type store interface {
	// put makes or replaces an object, which is then there as a whole. After a power cut it may be missing until sync has returned.
	put(ctx context.Context, name string, data []byte) error
	// create is put for an object that must not exist; ErrExists.
	create(ctx context.Context, name string, data []byte) error
	// sync makes what was put durable. ErrUnavailable if what was renewed is not there any more.
	sync(ctx context.Context) error
	// get returns an object; ErrNotFound, or ErrConflict for one that is larger than limit.
	get(ctx context.Context, name string, limit int64) ([]byte, error)
	// renew reports whether an object exists, which is then not removed as an old one.
	renew(ctx context.Context, name string) (bool, error)
	// list calls f for all objects whose names begin with a prefix that ends with a slash, in no particular order.
	list(ctx context.Context, prefix string, f func(object) error) error
	// remove removes an object, if it was not put or renewed after that time; zero removes it in any case. removed is false if it was.
	// An absent object counts as removed. ErrForbidden for one that the store does not let go.
	remove(ctx context.Context, name string, after time.Time) (removed bool, err error)
	// now returns the time by the store's clock, and proves that it can be written to.
	now(ctx context.Context) (time.Time, error)
	// tidy removes what interrupted calls have left before that time.
	tidy(ctx context.Context, before time.Time) error
	// close ends the use of the store.
	close() error
}

// object is an object in a store.
type object struct {
	name string
	size int64
	// time is when it was last put or renewed.
	time time.Time
}
