// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/restore/stamp"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

const stampKeyBytes = 32

// ensureStampKey returns the key that proves which objects Restores wrote. The first Restore
// creates it. The key is read past the cache, because an operator that took over must not create
// another one. A key that is deleted or unusable is replaced; objects that were stamped with the
// old key are then treated like any existing object.
func (r *Reconciler) ensureStampKey(ctx context.Context, namespace string) ([]byte, error) {
	var found corev1.Secret
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: stamp.KeySecret}, &found)
	switch {
	case err == nil && len(found.Data[stamp.KeyEntry]) >= stampKeyBytes:
		return found.Data[stamp.KeyEntry], nil
	case err == nil: // the type of a Secret cannot be changed, so recreate it
		uid := found.UID
		if err := r.Client.Delete(ctx, &found, client.Preconditions{UID: &uid}); err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("replacing Secret %s, which has no key of %d bytes: %w", stamp.KeySecret, stampKeyBytes, err)
		}
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading Secret %s: %w", stamp.KeySecret, err)
	}
	key := make([]byte, stampKeyBytes)
	_, _ = rand.Read(key) // Read never returns an error
	created := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: stamp.KeySecret,
			// A backup would give the key to anyone who may read the bucket.
			Labels: map[string]string{selection.GrapnelExcludeLabel: "true"},
		},
		Type: action.StampKeyType, Data: map[string][]byte{stamp.KeyEntry: key},
	}
	if err := r.Client.Create(ctx, created); err != nil {
		return nil, fmt.Errorf("creating Secret %s: %w", stamp.KeySecret, err)
	}
	return key, nil
}
