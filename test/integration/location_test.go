// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

func newDirLocation(s site, name string) *v1alpha1.BackupStorageLocation {
	return &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: name},
		Spec:       v1alpha1.BackupStorageLocationSpec{Filesystem: &v1alpha1.FilesystemLocation{Path: name}},
	}
}

var _ = Describe("Locations", Label("import"), func() {
	It("waits for a location that is created after the Backup", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		name := "of-" + app
		b := s.NewBackup(app)
		b.Spec.StorageLocation = name
		s.apply(t, b)
		waiting := doing(t, b, v1alpha1.ReasonWaitingForLocation)
		says(t, []string{waiting.Status.Message}, "Waiting until ", name, "does not exist")
		env.Create(t, world.Client, newDirLocation(s, name))
		b = outcome(t, b, v1alpha1.RunPhaseCompleted)
		if b.Status.StorageLocation != name {
			t.Errorf("it is stored in %s", b.Status.StorageLocation)
		}
	})

	It("uses the default location", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)}
		app := world.CreateApp(t, 1)
		try := func() *v1alpha1.Backup { return s.apply(t, s.NewBackup(app)) }
		marked := func(name string) {
			if b := outcome(t, try(), v1alpha1.RunPhaseCompleted); b.Status.StorageLocation != name {
				t.Errorf("it is stored in %s, want %s", b.Status.StorageLocation, name)
			}
		}
		marked(env.DefaultLocation) // it is the one that is marked
		files := newDirLocation(s, env.DefaultLocation)
		world.Patch(t, files, `{"spec":{"default":false}}`)
		refused(t, try(), []string{"no BackupStorageLocation is marked as default; set spec.storageLocation to one of: " + env.DefaultLocation})
		other := env.Create(t, world.Client, newDirLocation(s, "default"))
		marked("default") // the name stands in for the mark
		for _, location := range []*v1alpha1.BackupStorageLocation{files, other} {
			world.Patch(t, location, `{"spec":{"default":true}}`)
		}
		refused(t, try(), []string{"several BackupStorageLocations are marked as default", env.DefaultLocation, "mark only one"})
	})
})
