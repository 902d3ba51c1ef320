// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// TestDriver_WriteStatus checks what follows a status write that fails. After a conflict, only the
// watch enqueues the run: a requeue would reconcile the same stale object without a pause.
func TestDriver_WriteStatus(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "grapnel.dev", Resource: "backups"}
	failure := errors.New("the API server is overloaded")
	for name, tc := range map[string]struct {
		reconcileErr, patchErr error
		wantResult             ctrl.Result
		wantErr                error
	}{
		"a conflict":                {patchErr: apierrors.NewConflict(resource, "backup-1", nil)},
		"the run no longer exists":  {patchErr: apierrors.NewNotFound(resource, "backup-1")},
		"another error":             {patchErr: failure, wantErr: failure},
		"an error of the reconcile": {reconcileErr: failure, wantErr: failure},
		"the cache is stale":        {reconcileErr: errStaleCache},
		"written":                   {wantResult: ctrl.Result{RequeueAfter: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			b := queued("backup-1", 1)
			d := driverWith(t, nil)
			d.queue = newQueue(1, func(types.NamespacedName) {})
			d.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(b).WithInterceptorFuncs(interceptor.Funcs{
				SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
					return tc.patchErr
				},
			}).Build()
			s := newScope(BackupKind, b)
			if tc.wantResult.IsZero() {
				s.Object.Status.Message = "changed"
			}
			s.RequeueAfter(time.Minute)
			got, err := d.WriteStatus(t.Context(), s, tc.reconcileErr)
			if got != tc.wantResult || !errors.Is(err, tc.wantErr) || (tc.wantErr == nil && err != nil) {
				t.Errorf("WriteStatus returns %+v, %v; want %+v, %v", got, err, tc.wantResult, tc.wantErr)
			}
		})
	}
}
