// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
)

// site is an operator, the namespace it works for and the folder it keeps.
type site struct {
	namespace string
	dir       string
	args      []string
	op        *operator.Operator
}

// sharedLocation is the name of the location every site has, its default.
const sharedLocation = "files"

// sharedSite returns the operator of the tests that need none of their own. Many
// Backups may run at a time, so that those that hang hold up nobody.
func sharedSite(t *testing.T) *site {
	t.Helper()
	world.sharedOnce.Do(func() {
		ctx := context.WithoutCancel(t.Context())
		s := &site{namespace: operator.Namespace, dir: filepath.Join(world.dir, "shared"), args: []string{"--max-concurrent-backups=64"}}
		err := errors.Join(os.MkdirAll(s.dir, 0o755), operator.Install(ctx, world.client), installPlugins(ctx))
		if err == nil {
			err = s.start(ctx)
		}
		if err == nil {
			err = s.createLocation(ctx)
		}
		world.shared, world.sharedErr = s, err
	})
	if world.sharedErr != nil {
		t.Fatal(world.sharedErr)
	}
	awaitPlugins(t)
	return world.shared
}

// newSite starts an operator with flags of its own, for a namespace of its own,
// until the test ends.
func newSite(t *testing.T, args ...string) *site {
	t.Helper()
	sharedSite(t) // which brings the Plugins
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "site-"}}
	create(t, namespace)
	s := &site{namespace: namespace.Name, dir: filepath.Join(world.dir, namespace.Name), args: args}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.op.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := s.createLocation(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) start(ctx context.Context) error {
	var err error
	s.op, err = operator.Start(ctx, operator.Options{
		Programs: world.programs, Kubeconfig: world.plane.Kubeconfig(), Dir: s.dir,
		Args: append([]string{"--namespace=" + s.namespace}, s.args...),
	})
	return err
}

// restart starts the operator again after it was killed.
func (s *site) restart(t *testing.T) {
	t.Helper()
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// storeRoot is the folder that filesystem locations are in.
func (s *site) storeRoot() string { return filepath.Join(s.dir, "store") }

func (s *site) createLocation(ctx context.Context) error {
	return world.client.Create(ctx, &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: sharedLocation},
		Spec: v1alpha1.BackupStorageLocationSpec{
			Default: true, Filesystem: &v1alpha1.FilesystemLocation{Path: sharedLocation},
		},
	})
}
