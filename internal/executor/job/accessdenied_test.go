// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// TestStop_TemporarilyDenied expires the credentials for a moment, while a Job is ended beside which
// nothing may run.
func TestStop_TemporarilyDenied(t *testing.T) {
	for name, denied := range map[string]error{
		"it is not known who asks": apierrors.NewUnauthorized("the token has expired"),
		"a right is missing":       apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, "x", errors.New("no access")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				ctx, end := context.WithCancel(t.Context())
				x := w.execute(ctx, w.options(), call())
				w.pod(w.job(), running())
				end()
				<-x.done
				back := time.Now().Add(10 * time.Second)
				w.refuse(func(string, any) error {
					if time.Now().Before(back) {
						return denied
					}
					return nil
				})
				e, err := New(w.options())
				w.must(err)
				stopping, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				w.must(e.Stop(stopping, call()))
				w.refuse(nil)
				w.nothingLeft()
			})
		})
	}
}

// TestStop_Denied: the error gives the reason.
func TestStop_Denied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse(func(string, any) error { return apierrors.NewUnauthorized("the token has expired") })
		e, err := New(w.options())
		w.must(err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		const want = "PreBackupAction(example.io/freeze): what it left running could not be stopped: its Jobs could not be listed: the token has expired"
		if err := e.Stop(ctx, call()); executor.ErrorKindOf(err) != executor.Unreachable || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
	})
}
