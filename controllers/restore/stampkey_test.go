// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bytes"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/restore/stamp"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

func TestEnsureStampKey(t *testing.T) {
	newSecret := func(key string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: stamp.KeySecret, UID: "u"},
			Data:       map[string][]byte{stamp.KeyEntry: []byte(key)},
		}
	}
	const whole = "0123456789abcdef0123456789abcdef"
	for name, tc := range map[string]struct {
		existing []client.Object
		want     string // empty means a new key
	}{
		"none":             {},
		"one that exists":  {existing: []client.Object{newSecret(whole)}, want: whole},
		"one too short":    {existing: []client.Object{newSecret("short")}},
		"a Secret without": {existing: []client.Object{&corev1.Secret{ObjectMeta: newSecret("").ObjectMeta}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(tc.existing...).Build()
			r := &Reconciler{Dependencies: lifecycle.Dependencies{Client: c, Reader: c, Now: time.Now}}
			key, err := r.ensureStampKey(t.Context(), "here")
			if err != nil || len(key) < stampKeyBytes || tc.want != "" && string(key) != tc.want {
				t.Fatalf("the key is %q, error %v", key, err)
			}
			again, err := r.ensureStampKey(t.Context(), "here")
			if err != nil || !bytes.Equal(again, key) {
				t.Errorf("the second key is %q, not %q, error %v", again, key, err)
			}
			var stored corev1.Secret
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "here", Name: stamp.KeySecret}, &stored); err != nil {
				t.Fatal(err)
			}
			if tc.want == "" && stored.Labels[selection.GrapnelExcludeLabel] != "true" {
				t.Errorf("backups include the Secret: its labels are %v", stored.Labels)
			}
		})
	}
}
