// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"errors"
	"fmt"
)

// Sentinel errors of stores, for errors.Is. An error of a store that matches none of these
// (a broken reader of the caller, a canceled context, a bug of a server) wraps its cause.
var (
	// ErrNotExist means that there is no object under the key.
	ErrNotExist = errors.New("object does not exist")
	// ErrExists means that a Put with IfAbsent found an object.
	ErrExists = errors.New("object already exists")
	// ErrAccess means wrong credentials or a missing permission. A retry does not help
	// until a user fixes either of them.
	ErrAccess = errors.New("access denied")
	// ErrUnavailable means that the store could not be reached or kept failing. A retry may
	// succeed later.
	ErrUnavailable = errors.New("object store unavailable")
	// ErrNoSpace means that the store is full or a quota is used up.
	ErrNoSpace = errors.New("no space left in the object store")
	// ErrReadOnly means that the store cannot be written at all.
	ErrReadOnly = errors.New("object store is read-only")
	// ErrNoStore means that the bucket or directory itself does not exist. A missing object
	// in an existing store is ErrNotExist.
	ErrNoStore = errors.New("bucket or directory does not exist")
	// ErrInvalidKey means that the key cannot be used; see ValidateKey.
	ErrInvalidKey = errors.New("invalid object key")
	// ErrTooLarge means that the object exceeds what the store can hold under
	// one key.
	ErrTooLarge = errors.New("object too large")
	// ErrStalled means that the store accepted a call and then transferred no byte for too
	// long. It is an ErrUnavailable.
	ErrStalled error = stalledError{}
)

// IsUnwritable reports whether a write failed because the store is full or read-only.
// Retries do not help, but stored objects can still be read.
func IsUnwritable(err error) bool {
	return errors.Is(err, ErrNoSpace) || errors.Is(err, ErrReadOnly)
}

// stalledError is the type of ErrStalled.
type stalledError struct{}

func (stalledError) Error() string { return "object store stalled" }
func (stalledError) Unwrap() error { return ErrUnavailable }

// Error is the error type of stores. It has the attempted operation, the key, one of the
// sentinels of this package where one fits, and the cause.
type Error struct {
	// Op is the attempted operation, as in "putting".
	Op string
	// Key is the key or prefix concerned, relative to the store.
	Key string
	// Kind is a sentinel of this package, or nil.
	Kind error
	// Err is the cause, or nil. It must not contain secrets.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	what := fmt.Sprintf("%s object %q", e.Op, e.Key)
	switch {
	case e.Kind == nil && e.Err == nil:
		return what + ": failed"
	case e.Kind == nil:
		return what + ": " + e.Err.Error()
	case e.Err == nil:
		return what + ": " + e.Kind.Error()
	}
	return what + ": " + e.Kind.Error() + ": " + e.Err.Error()
}

// Unwrap lets errors.Is and errors.As see both the sentinel and the cause.
func (e *Error) Unwrap() []error {
	var all []error
	if e.Kind != nil {
		all = append(all, e.Kind)
	}
	if e.Err != nil {
		all = append(all, e.Err)
	}
	return all
}
