// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
	"github.com/grapnel-dev/grapnel/internal/plugin/caller"
)

// isPluginAnswer reports whether err is what the plugin had to say, and not that it said
// nothing.
func isPluginAnswer(err error) bool {
	failed, ok := errors.AsType[*caller.Error](err)
	return ok && (failed.Kind == executor.Failed || failed.Kind == executor.Invalid)
}

// toStoreError turns the error of a call into one of the contract. Ctx is that of the
// caller, and not one that ended earlier.
func (s *Store) toStoreError(ctx context.Context, op, key string, err error) error {
	out := &objectstore.Error{Op: op, Key: key}
	failed, ok := errors.AsType[*caller.Error](err)
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
		// That one of our own deadlines is over must not look like the end of the
		// caller's: the chain of errors ends here.
		out.Kind, out.Err = objectstore.ErrUnavailable, s.withActionName(errors.New(failed.Text))
	}
	return out
}

// withActionName says whose words the error has.
func (s *Store) withActionName(err error) error {
	return fmt.Errorf("%s: %w", s.opts.Action, err)
}
