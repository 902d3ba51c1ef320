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
	"github.com/grapnel-dev/grapnel/internal/selection"
)

const (
	// stampKeySecret is the Secret with the key, in the namespace of the operator.
	stampKeySecret = "grapnel-restore-stamp-key" //nolint:gosec // the name of a Secret
	stampKeyEntry  = "key"
	stampKeyBytes  = 32
)

// ensureStampKey returns the key that proves which objects Restores wrote. The first Restore
// creates it. The key is read past the cache, because an operator that took over must not create
// another one. A key that is deleted or unusable is replaced; objects that were stamped with the
// old key are then treated like any existing object.
func (r *Reconciler) ensureStampKey(ctx context.Context, namespace string) ([]byte, error) {
	var found corev1.Secret
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: stampKeySecret}, &found)
	switch {
	case err == nil && len(found.Data[stampKeyEntry]) >= stampKeyBytes:
		return found.Data[stampKeyEntry], nil
	case err == nil: // the type of a Secret cannot be changed, so recreate it
		uid := found.UID
		if err := r.Client.Delete(ctx, &found, client.Preconditions{UID: &uid}); err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("replacing Secret %s, which has no key of %d bytes: %w", stampKeySecret, stampKeyBytes, err)
		}
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading Secret %s: %w", stampKeySecret, err)
	}
	key := make([]byte, stampKeyBytes)
	_, _ = rand.Read(key) // Read never returns an error
	created := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: stampKeySecret,
			// A backup would give the key to anyone who may read the bucket.
			Labels: map[string]string{selection.GrapnelExcludeLabel: "true"},
		},
		Type: action.StampKeyType, Data: map[string][]byte{stampKeyEntry: key},
	}
	if err := r.Client.Create(ctx, created); err != nil {
		return nil, fmt.Errorf("creating Secret %s: %w", stampKeySecret, err)
	}
	return key, nil
}
