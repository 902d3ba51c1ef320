// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// isPluginAnswer reports whether err is an answer of the plugin, as opposed to a call
// without an answer.
func isPluginAnswer(err error) bool {
	failed, ok := errors.AsType[*CallError](err)
	return ok && (failed.Kind == executor.Failed || failed.Kind == executor.Invalid)
}

// toStoreError converts the error of a call to one of the contract. Ctx is that of the
// caller, not a derived one that ended earlier.
func (s *Store) toStoreError(ctx context.Context, op, key string, err error) error {
	out := &objectstore.Error{Op: op, Key: key}
	failed, ok := errors.AsType[*CallError](err)
	switch {
	case ctx.Err() != nil:
		out.Err = ctx.Err()
	case errors.Is(err, errTransferIdle):
		out.Kind, out.Err = objectstore.ErrStalled, s.withActionName(errTransferIdle)
	case !ok:
		out.Err = err
	case isPluginAnswer(err):
		out.Err = s.withActionName(failed)
	default:
		// The expiration of one of our own deadlines must not look like the end of the
		// caller's ctx, so the error does not wrap it.
		out.Kind, out.Err = objectstore.ErrUnavailable, s.withActionName(errors.New(failed.Text))
	}
	return out
}

// withActionName adds the name of the action that returned the error.
func (s *Store) withActionName(err error) error {
	return fmt.Errorf("%s: %w", s.opts.Action, err)
}
