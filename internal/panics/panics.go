// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package panics

import (
	"fmt"
	"runtime/debug"
)

// Error is a recovered panic.
type Error struct {
	// Value is the argument of panic.
	Value any
	// Stack is the stack of the goroutine that panicked. It belongs in the log, not in a
	// status or an event.
	Stack []byte
}

// Error describes the panic without its stack.
func (e *Error) Error() string { return fmt.Sprintf("internal error: %v", e.Value) }

// Unwrap returns the value of the panic if it is an error, for errors.As.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Recover stores a panic of the calling function in err as an *Error. It must be
// deferred directly. Without a panic err stays as it is.
func Recover(err *error) {
	if value := recover(); value != nil {
		*err = &Error{Value: value, Stack: debug.Stack()}
	}
}
