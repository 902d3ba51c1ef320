// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import "errors"

// Reason classifies why a plugin could not be started. The values are shown in
// the conditions of Plugin objects and are stable.
type Reason string

const (
	// ReasonBinaryNotFound means that there is no file at the path.
	ReasonBinaryNotFound Reason = "BinaryNotFound"
	// ReasonNotExecutable means that the file is a directory, lacks permission, or is not a
	// program for this machine.
	ReasonNotExecutable Reason = "NotExecutable"
	// ReasonExitedAtOnce means that the process ended before the handshake.
	ReasonExitedAtOnce Reason = "ExitedAtOnce"
	// ReasonHandshakeFailed means that the process printed something other than the
	// handshake, or a handshake for another protocol.
	ReasonHandshakeFailed Reason = "HandshakeFailed"
	// ReasonStartTimeout means that the process was not ready in time.
	ReasonStartTimeout Reason = "StartTimeout"
	// ReasonInvalidSpec means that the configuration of the process is invalid.
	ReasonInvalidSpec Reason = "InvalidSpec"
	// ReasonStartFailed means that the system could not start a process.
	ReasonStartFailed Reason = "StartFailed"
	// ReasonInterrupted means that the caller stopped waiting for the start.
	ReasonInterrupted Reason = "Interrupted"
	// ReasonCrashLoop means that the process ended too often and is restarted only after a
	// back-off.
	ReasonCrashLoop Reason = "CrashLoop"
	// ReasonUnloaded means that the plugin was unloaded.
	ReasonUnloaded Reason = "Unloaded"
)

// StartError says why a plugin is not running. Its text is for users, says what to do, is
// redacted and is the same for the same cause.
type StartError struct {
	// Reason classifies the error.
	Reason Reason
	// Message is the text.
	Message string
	// Err is the cause, if there is one. Its text must not be shown.
	Err error
}

// Error returns the message.
func (e *StartError) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// LostError means that the connection broke during a call, before the response: whether the
// call had an effect is unknown.
type LostError struct {
	// Message says how the process ended, if it is known.
	Message string
	// Err is the cause. Its text must not be shown.
	Err error
}

// Error returns the message.
func (e *LostError) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *LostError) Unwrap() error { return e.Err }

// ErrUnloaded matches the error of a Process that was closed.
var ErrUnloaded = errors.New("the plugin was unloaded")
