// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"errors"
	"strings"
	"unicode"

	"github.com/grapnel-dev/grapnel/internal/text"
)

// MaxMessageLength is the maximum size in bytes of the text of an Error and of Answer.Message.
// Statuses and events contain these texts; the note of an event is limited to 1 KiB
// (events.k8s.io/v1).
const MaxMessageLength = 1024

// ErrorKind classifies why an execution failed. Failure policies and retries depend on it.
type ErrorKind string

const (
	// Unreachable means that the action could not be called or that the
	// connection was lost before it answered. Whether it ran is unknown.
	Unreachable ErrorKind = "Unreachable"
	// Timeout means that the action did not answer before the deadline of ctx.
	// Whether it still runs is unknown.
	Timeout ErrorKind = "Timeout"
	// Failed means that the action answered with an error, a panic or something outside the
	// contract.
	Failed ErrorKind = "Failed"
	// Invalid means that the call could not be made as it was: a retry without a change of the
	// configuration is useless.
	Invalid ErrorKind = "Invalid"
	// Interrupted means that the caller's ctx was canceled (not: timed out) before the action
	// answered, because the run was canceled or the operator stops. The error also matches
	// context.Canceled. It says nothing about the action.
	Interrupted ErrorKind = "Interrupted"
)

// Error is the type of all errors that an Executor returns.
type Error struct {
	// Kind classifies the failure.
	Kind ErrorKind
	// Message is the text for users; the package comment lists what it may contain.
	Message string
	// Text is the message without the name of the action in front, for places that already name the
	// action.
	Text string
	// Progress is like that of an Answer: a failed attempt may be repeated, or undone.
	Progress map[string]string
	// Err is the cause, for errors.Is and errors.As. Its text may contain anything and must not be
	// shown to users.
	Err error
}

// NewError returns an Error whose message is "kind(name): text", reduced to one line of at most
// MaxMessageLength bytes. The caller redacts text first.
func NewError(kind ErrorKind, call Call, text string, cause error) *Error {
	return &Error{
		Kind: kind, Message: OneLine(call.ActionKind() + "(" + call.Action + "): " + text), Text: OneLine(text), Err: cause,
	}
}

// Error returns the message.
func (e *Error) Error() string {
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error {
	return e.Err
}

// ErrorKindOf returns the Kind of the first *Error in err's chain, or "" if there is none.
func ErrorKindOf(err error) ErrorKind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}

// OneLine returns s as one line of printable characters without leading or
// trailing space and of at most MaxMessageLength bytes; a longer text ends in
// "…". Invalid UTF-8 is replaced.
func OneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return text.Truncate(strings.Join(strings.Fields(s), " "), MaxMessageLength)
}
