// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

var _ = Describe("A location on a volume that is full", func() {
	It("can be restored from and emptied, and takes Backups again", func() {
		if os.Geteuid() != 0 {
			Skip("mounting a small volume needs root")
		}
		t := GinkgoTB()
		s := world.StartOperator(t)
		volume := s.LocationDir("small")
		Expect(os.MkdirAll(volume, 0o755)).To(Succeed())
		Expect(unix.Mount("tmpfs", volume, "tmpfs", 0, "size=2m")).To(Succeed())
		DeferCleanup(func() error { return unix.Unmount(volume, unix.MNT_DETACH) })
		app := world.CreateApp(t, 2)
		small := env.Create(t, world.Client, s.NewLocation("small"))
		awaitPhase(small, v1alpha1.LocationPhaseAvailable)
		first := env.Create(t, world.Client, backupIn(s, small, app))
		awaitBackup(first, v1alpha1.RunPhaseCompleted)

		fill(filepath.Join(volume, "backups", first.Name))
		// A change has the location checked at once.
		world.Patch(t, small, `{"spec":{"default":true}}`)
		small = awaitPhase(small, v1alpha1.LocationPhaseFull)
		Expect(conditions.IsTrue(small, v1alpha1.ConditionAvailable)).To(BeTrue(), "what is stored can be read")
		Expect(conditions.IsTrue(small, v1alpha1.ConditionWritable)).To(BeFalse(), "nothing can be written")

		By("refusing a Backup with what to do")
		refused := awaitBackup(env.Create(t, world.Client, backupIn(s, small, app)), v1alpha1.RunPhaseFailedValidation)
		Expect(fmt.Sprint(refused.Status.ValidationErrors, refused.Status.Message)).To(ContainSubstring("The location is full: delete backups"))

		By("restoring from it")
		restore := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"}}
		restore.Spec.BackupName = first.Name
		target := world.CreateNamespace(t, "restored-")
		restore.Spec.NamespaceMapping = map[string]v1alpha1.NamespaceName{app: v1alpha1.NamespaceName(target)}
		restore = env.Create(t, world.Client, restore)
		// Its results can be stored nowhere, which is a warning of it.
		restore = env.WaitFor(t, world.Client, restore, "its work has ended", func(r *v1alpha1.Restore) bool { return lifecycle.IsFinalized(r) })
		Expect(restore.Status.Phase).To(Equal(v1alpha1.RunPhaseCompleted), restore.Status.Message)
		Expect(restore.Status.Counts.Created).To(BeEquivalentTo(2))
		Expect(restore.Status.Warnings).To(BeEquivalentTo(1))
		Expect(restore.Status.Message).To(And(ContainSubstring("2 created"), ContainSubstring("1 warning"),
			ContainSubstring("could not be stored"), ContainSubstring("no space left")))
		Expect(restore.Status.Files).To(BeNil(), "nothing is stored")
		stored := conditions.Get(restore, v1alpha1.ConditionResultsStored)
		Expect(stored.Status).To(Equal(metav1.ConditionFalse), "it is not tried again")
		Expect(stored.Reason).To(Equal(v1alpha1.ReasonResultsNotStored))
		Eventually(func(g Gomega) {
			var events eventsv1.EventList
			g.Expect(world.Client.List(t.Context(), &events, client.InNamespace(s.Name))).To(Succeed())
			g.Expect(events.Items).To(ContainElement(And(HaveField("Regarding.UID", restore.UID),
				HaveField("Reason", v1alpha1.ReasonResultsNotStored), HaveField("Type", "Warning"))))
		}).WithTimeout(10 * time.Second).Should(Succeed())

		By("emptying it")
		deletion := env.Create(t, world.Client, &v1alpha1.DeletionRun{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"},
			Spec:       v1alpha1.DeletionRunSpec{BackupName: first.Name},
		})
		env.WaitFor(t, world.Client, deletion, "it has deleted the backup", func(d *v1alpha1.DeletionRun) bool {
			return d.Status.Phase == v1alpha1.RunPhaseCompleted
		})
		Expect(filepath.Join(volume, "backups", first.Name)).NotTo(BeADirectory())

		By("taking the next Backup")
		awaitPhase(small, v1alpha1.LocationPhaseAvailable)
		awaitBackup(env.Create(t, world.Client, backupIn(s, small, app)), v1alpha1.RunPhaseCompleted)
	})
})

// backupIn returns a Backup of a namespace in a location, which is not created.
func backupIn(s *env.Namespace, location *v1alpha1.BackupStorageLocation, namespace string) *v1alpha1.Backup {
	b := s.NewBackup(namespace)
	b.Spec.StorageLocation = location.Name
	return b
}

func awaitPhase(l *v1alpha1.BackupStorageLocation, want v1alpha1.LocationPhase) *v1alpha1.BackupStorageLocation {
	GinkgoHelper()
	return env.WaitFor(GinkgoTB(), world.Client, l, "it is "+string(want), func(l *v1alpha1.BackupStorageLocation) bool {
		return l.Status.Phase == want
	})
}

func awaitBackup(b *v1alpha1.Backup, want v1alpha1.RunPhase) *v1alpha1.Backup {
	GinkgoHelper()
	return env.WaitFor(GinkgoTB(), world.Client, b, "it is "+string(want), func(b *v1alpha1.Backup) bool {
		return b.Status.Phase == want
	})
}

// fill writes a file to a directory until its volume is full.
func fill(dir string) {
	GinkgoHelper()
	file, err := os.Create(filepath.Join(dir, "filler"))
	Expect(err).NotTo(HaveOccurred())
	for _, size := range []int{64 << 10, 1 << 10, 1} {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
		Expect(errors.Is(err, syscall.ENOSPC)).To(BeTrue(), "%v", err)
	}
	Expect(file.Close()).To(Succeed())
}
