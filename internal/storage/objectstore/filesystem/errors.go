// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// S3 can store an object "a" beside an object "a/b"; a file system cannot.
var (
	errBelowObject = errors.New("a part of the key is an object already, and a file system cannot hold both")
	errAboveObject = errors.New("there are objects below that key, and a file system cannot hold both")
)

// sourceError is an error of the reader that the caller of Put passed. It is not an error
// of the store, even if it comes from the operating system.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return "reading the content: " + e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// toStoreError converts an error of the operating system to one of the contract. It drops
// the paths in such errors: the key identifies the object, and the location of the store on
// the node must not be disclosed.
func toStoreError(op, key string, err error) error {
	if _, fromSource := errors.AsType[*sourceError](err); fromSource {
		return &objectstore.Error{Op: op, Key: key, Err: err}
	}
	if _, known := errors.AsType[*objectstore.Error](err); known {
		return err
	}
	kind := sentinelForError(err)
	err = withoutPaths(err)
	if errors.Is(kind, objectstore.ErrAccess) {
		err = fmt.Errorf("%w: the directory of this location must be readable and writable for user %d and group %d; "+
			"change its owner or mode, or set fsGroup on the operator's pod", err, os.Geteuid(), os.Getegid())
	}
	return &objectstore.Error{Op: op, Key: key, Kind: kind, Err: err}
}

func sentinelForError(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return objectstore.ErrNoSpace
	case errors.Is(err, syscall.EROFS):
		return objectstore.ErrReadOnly
	case errors.Is(err, fs.ErrPermission):
		return objectstore.ErrAccess
	case errors.Is(err, syscall.EFBIG):
		return objectstore.ErrTooLarge
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.ESTALE), errors.Is(err, syscall.ETIMEDOUT),
		errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return objectstore.ErrUnavailable
	case errors.Is(err, fs.ErrExist):
		return objectstore.ErrExists
	case errors.Is(err, fs.ErrNotExist):
		return objectstore.ErrNotExist
	}
	return nil
}

// withoutPaths returns the innermost cause of an error of package os.
func withoutPaths(err error) error {
	var pathErr *fs.PathError
	var linkErr *os.LinkError
	var callErr *os.SyscallError
	switch {
	case errors.As(err, &pathErr):
		return pathErr.Err
	case errors.As(err, &linkErr):
		return linkErr.Err
	case errors.As(err, &callErr):
		return callErr.Err
	}
	return err
}
