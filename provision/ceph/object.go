//go:build ceph

package ceph

import (
	"errors"

	"github.com/ceph/go-ceph/rados"
)

// The RADOS objects in which RBD keeps what it knows of an image.
const (
	idObject     = "rbd_id."         // and the image's name: its ID
	headerObject = "rbd_header."     // and its ID: size, features, snapshots, image-meta
	mapObject    = "rbd_object_map." // and its ID: which of its data objects there are
	directory    = "rbd_directory"   // of the pool: all names and IDs
)

// class is the OSDs' object class by whose methods librbd, too, reads and writes these objects.
const class = "rbd"

// method is one to be called, and what it is given.
type method struct {
	name string
	in   []byte
}

// inspect calls methods on an object, all in one operation. The answers are those
// of the methods before the one that failed, if one did.
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

// change calls methods on an object that is there, all of them or none.
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

// create makes an object, EEXIST when it is there, and calls a method on it.
func (s *session) create(object string, m method) error {
	op := rados.CreateWriteOp()
	defer op.Release()
	op.Create(rados.CreateExclusive)
	op.Exec(class, m.name, m.in)
	_, err := outcome(op.Operate(s.io, object, rados.OperationNoFlag), 0)
	return err
}

// unname takes a name from an ID, unless the name is another's by now.
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

// differs is the least code of a comparison that found a difference: it says where (MAX_ERRNO in librados.h).
const differs = 4095

// outcome is the error of an operation, with its code, and how many of its steps have gone well.
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

// idOf is the ID of the RBD image of that name; ENOENT when there is none.
func (s *session) idOf(name string) (string, error) {
	got, err := s.inspect(idObject+name, method{name: "get_id"})
	if err != nil {
		return "", err
	}
	return parseText(got[0])
}

// sameID tells whether both names have an object, of one ID.
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
