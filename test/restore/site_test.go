// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

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
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// site is an operator, the namespace it works for and the folder it keeps.
type site struct {
	namespace string
	dir       string
	args      []string
	op        *operator.Operator
}

// defaultLocation is the name of the location every site has, and of its folder.
const defaultLocation = "files"

// sharedSite returns the operator of the tests that need none of their own. Many
// Restores may run at a time, so that those that are held hold up nobody.
func sharedSite(t *testing.T) *site {
	t.Helper()
	world.sharedOnce.Do(func() {
		ctx := context.WithoutCancel(t.Context())
		err := operator.Install(ctx, world.client)
		if err == nil {
			world.shared, err = openSite(ctx, operator.Namespace, "--max-concurrent-restores=64", "--max-concurrent-backups=64")
		}
		world.sharedErr = err
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
	namespace := newNamespace(t, "site-")
	s, err := openSite(t.Context(), namespace, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.op.Stop(); err != nil {
			t.Error(err)
		}
	})
	awaitPlugins(t)
	return s
}

// openSite starts an operator and gives it a location.
func openSite(ctx context.Context, namespace string, args ...string) (*site, error) {
	s := &site{namespace: namespace, dir: filepath.Join(world.dir, namespace), args: args}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	location := s.location(defaultLocation)
	location.Spec.Default = true
	if err := world.client.Create(ctx, location); err != nil {
		return nil, errors.Join(err, s.op.Stop())
	}
	return s, nil
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
	suite.Eventually(t, func() string {
		select {
		case <-s.op.Done():
			return ""
		default:
			return "the operator was not killed"
		}
	})
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// location returns a location in the folder of its name.
func (s *site) location(name string) *v1alpha1.BackupStorageLocation {
	return &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       v1alpha1.BackupStorageLocationSpec{Filesystem: &v1alpha1.FilesystemLocation{Path: name}},
	}
}

// folder is where a location keeps its files.
func (s *site) folder(location string) string { return filepath.Join(s.dir, "store", location) }

// newNamespace creates a namespace with a name that begins so.
func newNamespace(t *testing.T, prefix string) string {
	t.Helper()
	return create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}).Name
}
