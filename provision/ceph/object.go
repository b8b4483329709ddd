//go:build ceph

package ceph

import (
	"errors"
	"syscall"

	"github.com/ceph/go-ceph/rados"
)

// The RADOS objects in which RBD keeps its data about an image.
const (
	idObject     = "rbd_id."         // + the image's name: its ID
	headerObject = "rbd_header."     // + its ID: size, features, snapshots, image-meta
	mapObject    = "rbd_object_map." // + its ID: which of its data objects exist
	directory    = "rbd_directory"   // of the pool: all names and IDs
	trashObject  = "rbd_trash"       // of the pool: what is in RBD's trash
)

// class is the OSDs' object class with whose methods librbd reads and writes these objects too.
const class = "rbd"

// method is a call of a method, with its argument.
type method struct {
	name string
	in   []byte
}

// inspect calls methods on an object in one operation. If one fails, answers has those of the
// methods before it.
func (s *session) inspect(object string, methods ...method) (answers [][]byte, err error) {
	op := rados.CreateReadOp()
	defer op.Release()
	steps := make([]*rados.ReadOpExecStep, len(methods))
	for i, m := range methods {
		steps[i] = op.Exec(class, m.name, m.in)
	}
	good, err := outcome(op.Operate(s.io, object, rados.OperationNoFlag), len(methods))
	for _, step := range steps[:good] {
		b, e := step.Bytes()
		if e != nil {
			return nil, e
		}
		answers = append(answers, b)
	}
	return answers, err
}

// change calls methods on an existing object: all of them or none.
func (s *session) change(object string, methods ...method) error {
	op := rados.CreateWriteOp()
	defer op.Release()
	op.AssertExists()
	for _, m := range methods {
		op.Exec(class, m.name, m.in)
	}
	_, err := outcome(op.Operate(s.io, object, rados.OperationNoFlag), 0)
	return err
}

// create creates an object and calls a method on it; EEXIST if the object exists.
func (s *session) create(object string, m method) error {
	op := rados.CreateWriteOp()
	defer op.Release()
	op.Create(rados.CreateExclusive)
	op.Exec(class, m.name, m.in)
	_, err := outcome(op.Operate(s.io, object, rados.OperationNoFlag), 0)
	return err
}

// makeTrash makes the object of RBD's trash. librbd removes an image by way of the trash and makes
// the object when it first needs it, but a pool that is full by then takes no new object.
func (s *session) makeTrash() error {
	op := rados.CreateWriteOp()
	defer op.Release()
	op.Create(rados.CreateIdempotent)
	_, err := outcome(op.Operate(s.io, trashObject, rados.OperationNoFlag), 0)
	return ignore(err, syscall.ENOSPC, syscall.EDQUOT)
}

// unname removes a name from an ID, unless the name belongs to another ID by now.
func (s *session) unname(name, id string) error {
	op := rados.CreateWriteOp()
	defer op.Release()
	op.CmpExt(encodeTexts(id), 0)
	op.Remove()
	_, err := outcome(op.Operate(s.io, idObject+name, rados.OperationNoFlag), 0)
	if errno(err) >= differs {
		return nil
	}
	return ignore(err, enoent)
}

// differs is the smallest code of a comparison that found a difference; the code encodes where
// (MAX_ERRNO in librados.h).
const differs = 4095

// outcome returns the error of an operation, with its code, and how many of its steps succeeded.
func outcome(err error, steps int) (good int, _ error) {
	var failed rados.OperationError
	switch {
	case err == nil:
		return steps, nil
	case !errors.As(err, &failed):
		return 0, err
	}
	for i := range steps {
		if e, bad := failed.StepErrors[i]; bad {
			return i, e
		}
	}
	return 0, failed.OpError
}

// idOf returns the ID of the RBD image of that name; ENOENT if it does not exist.
func (s *session) idOf(name string) (string, error) {
	got, err := s.inspect(idObject+name, method{name: "get_id"})
	if err != nil {
		return "", err
	}
	return parseText(got[0])
}

// sameID reports whether both names have an object with the same ID.
func (s *session) sameID(a, b string) (bool, error) {
	var ids [2]string
	for i, name := range []string{a, b} {
		id, err := s.idOf(name)
		if err != nil {
			return false, ignore(err, enoent)
		}
		ids[i] = id
	}
	return ids[0] == ids[1], nil
}
