// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"errors"
	"sync"

	"github.com/grapnel-dev/grapnel/internal/panics"
)

// recoverAndLogPanic returns a panic of f as an error of the given object.
func (r *enginePass) recoverAndLogPanic(about string, f func() error) error {
	err := recoverPanic(f)
	if p := (*panics.Error)(nil); errors.As(err, &p) {
		r.engine.opts.Log.Error(p, "Restoring an object panicked", "object", about, "stack", string(p.Stack))
	}
	return err
}

// startGoroutine runs f in a goroutine of wg. A panic outside of a single object, see
// restoreEntry, ends the run and not the operator.
func (r *enginePass) startGoroutine(wg *sync.WaitGroup, f func()) {
	wg.Go(func() {
		if err := recoverPanic(func() error { f(); return nil }); err != nil {
			r.cancel(err)
		}
	})
}

func recoverPanic(f func() error) (err error) {
	defer panics.Recover(&err)
	return f()
}
