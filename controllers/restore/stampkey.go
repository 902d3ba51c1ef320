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

	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/secret"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

const (
	// stampKeySecret is the Secret with the key, in the namespace of the operator.
	stampKeySecret = "grapnel-restore-stamp-key" //nolint:gosec // the name of a Secret
	stampKeyEntry  = "key"
	stampKeyBytes  = 32
)

// ensureStampKey returns the key that proves what Restores wrote, which the first one creates.
// It is read past the cache: an operator that took over must not create another one. A
// key that is removed or unusable is replaced; objects that were stamped with the old one
// are then treated as any that exist.
func (r *Reconciler) ensureStampKey(ctx context.Context, namespace string) ([]byte, error) {
	var found corev1.Secret
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: stampKeySecret}, &found)
	switch {
	case err == nil && len(found.Data[stampKeyEntry]) >= stampKeyBytes:
		return found.Data[stampKeyEntry], nil
	case err == nil: // its type cannot be changed, so it is created again
		uid := found.UID
		if err := r.Client.Delete(ctx, &found, client.Preconditions{UID: &uid}); err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("replacing Secret %s, which has no key of %d bytes: %w", stampKeySecret, stampKeyBytes, err)
		}
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading Secret %s: %w", stampKeySecret, err)
	}
	key := make([]byte, stampKeyBytes)
	_, _ = rand.Read(key) // it never returns an error
	created := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: stampKeySecret,
			// In a backup it would be in the hands of those who may read the bucket.
			Labels: map[string]string{selection.GrapnelExcludeLabel: "true"},
		},
		Type: secret.StampKeyType, Data: map[string][]byte{stampKeyEntry: key},
	}
	if err := r.Client.Create(ctx, created); err != nil {
		return nil, fmt.Errorf("creating Secret %s: %w", stampKeySecret, err)
	}
	return key, nil
}
