// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// cleanupBound is how long owed clean-up may take to run after a Cancel, whatever the store
// does. The specs give a stuck step 2 s instead of a minute, and have the rest of it.
const cleanupBound = 90 * time.Second

// disk is a file system of its own that can be frozen, as a volume is whose server went away.
type disk struct {
	dir string
	// end is closed to have everything undone.
	end io.Closer
	// ended is closed when everything is undone.
	ended chan struct{}
}

// undo waits for the end of its input, which comes when the spec closes it or when the test is
// killed, and undoes everything. A process in a call on the disk ends only after that.
const undo = `cat >/dev/null
fsfreeze -u "$1" 2>/dev/null
for i in $(seq 50); do umount "$1" 2>/dev/null && break; sleep 0.2; done
mountpoint -q "$1" && umount -l "$1"
for d in $(losetup -nO NAME -j "$2"); do losetup -d "$d"; done
rm -f "$2"; rmdir "$1"; exit 0`

// newDisk mounts a disk until the spec ends. It skips the spec where that is not possible.
func newDisk() *disk {
	GinkgoHelper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		Skip("a frozen disk needs Linux and root")
	}
	for _, tool := range []string{"mkfs.ext4", "fsfreeze", "losetup", "mountpoint"} {
		if _, err := exec.LookPath(tool); err != nil {
			Skip("a frozen disk needs " + tool)
		}
	}
	base, err := os.MkdirTemp("", "grapnel-disk-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.Remove, base)
	d := &disk{dir: filepath.Join(base, "mount"), ended: make(chan struct{})}
	image := filepath.Join(base, "image")
	Expect(os.Mkdir(d.dir, 0o700)).To(Succeed())
	Expect(os.WriteFile(image, nil, 0o600)).To(Succeed())
	Expect(os.Truncate(image, 64<<20)).To(Succeed())
	undoing := exec.Command("sh", "-c", undo, "undo", d.dir, image)
	undoing.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	d.end, err = undoing.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(undoing.Start()).To(Succeed())
	go func() {
		defer close(d.ended)
		_ = undoing.Wait() // it always exits with 0
	}()
	DeferCleanup(d.undo)
	if out, err := exec.Command("mkfs.ext4", "-q", image).CombinedOutput(); err != nil {
		Skip("mkfs.ext4: " + string(out))
	}
	if out, err := exec.Command("mount", "-o", "loop", image, d.dir).CombinedOutput(); err != nil {
		Skip("no loop device can be mounted here: " + strings.TrimSpace(string(out)))
	}
	return d
}

// freeze lets every write to the disk hang.
func (d *disk) freeze() {
	GinkgoHelper()
	Expect(exec.Command("fsfreeze", "-f", d.dir).Run()).To(Succeed())
}

// thaw ends that.
func (d *disk) thaw() { _ = exec.Command("fsfreeze", "-u", d.dir).Run() } // it may not be frozen

func (d *disk) undo() {
	_ = d.end.Close() // the process that reads it undoes everything
	<-d.ended
}

// pairOf returns a Plugin whose PreBackup action waits for a file, and the name of its action.
func pairOf(name, file string) (plugin *v1alpha1.Plugin, action string) {
	action = "example.io/" + name
	plugin = world.NewFaultPlugin(name, []v1alpha1.PluginAction{
		{Kind: v1alpha1.ActionKindPreBackup, Name: action, Selector: env.SelectorForAction(action)},
		{Kind: v1alpha1.ActionKindPostBackup, Name: action, Selector: env.SelectorForAction(action)},
	}, "FAULT_CALL=PreBackup=until:"+file)
	return plugin, action
}

// hasPhase reports whether the HookRun of an action has a phase.
func hasPhase(list *[]v1alpha1.ActionStatus, phase v1alpha1.ActionPhase) bool {
	return list != nil && len(*list) == 1 && (*list)[0].Phase == phase
}

var _ = Describe("A disk that is frozen", func() {
	DescribeTable("does not hold owed clean-up up",
		func(name string, stop func(b *v1alpha1.Backup), wantReason string, flags ...string) {
			t := GinkgoTB()
			d := newDisk()
			release := filepath.Join(world.Dir, name+"-go")
			s := world.StartOperator(t, append(flags, "--store-root="+d.dir, "--stuck-step-timeout=2s")...)
			DeferCleanup(d.thaw) // before the operator is stopped
			plugin, action := pairOf(name, release)
			env.Create(t, world.Client, plugin)
			world.WaitForPlugins(t, plugin)
			b := s.NewBackup(world.CreateApp(t, 2))
			b.Labels = env.LabelsForActions(action)
			b = env.Create(t, world.Client, b)
			env.WaitFor(t, world.Client, b, "its PreBackup action runs", func(b *v1alpha1.Backup) bool {
				return hasPhase(b.Status.PreBackupActionsStatuses, v1alpha1.ActionPhaseInProgress)
			})
			d.freeze()
			Expect(os.WriteFile(release, nil, 0o600)).To(Succeed())
			env.WaitFor(t, world.Client, b, "it archives", func(b *v1alpha1.Backup) bool {
				c := conditions.Get(b, v1alpha1.ConditionSucceeded)
				return c != nil && (c.Reason == v1alpha1.ReasonArchiving || b.Status.CompletionTimestamp != nil)
			})
			start := time.Now()
			stop(b)
			b = env.WaitFor(t, world.Client, b, "its clean-up ran while the disk was frozen", func(b *v1alpha1.Backup) bool {
				return hasPhase(b.Status.PostBackupActionsStatuses, v1alpha1.ActionPhaseCompleted) &&
					!conditions.IsTrue(b, v1alpha1.ConditionCleanupOwed)
			})
			Expect(time.Since(start)).To(BeNumerically("<", cleanupBound))
			Expect(conditions.Get(b, v1alpha1.ConditionSucceeded).Reason).To(Equal(wantReason), b.Status.Message)

			d.thaw()
			s.WaitForMetric(t, "grapnel_backup_steps_left_behind", 0)
		},
		Entry("after a Cancel", "frozen-cancel", func(b *v1alpha1.Backup) {
			world.Patch(GinkgoTB(), b, `{"spec":{"desiredState":"Cancel"}}`)
		}, v1alpha1.ReasonCancelled),
		Entry("after a delete", "frozen-delete", func(b *v1alpha1.Backup) {
			world.Delete(GinkgoTB(), b)
		}, v1alpha1.ReasonCancelled),
		Entry("after the deadline of the archive", "frozen-deadline", func(b *v1alpha1.Backup) {
			world.Patch(GinkgoTB(), b, `{"spec":{"timeouts":{"archive":"2s"}}}`)
		}, v1alpha1.ReasonStoreStalled),
		Entry("after the deadline of the run", "frozen-run", func(b *v1alpha1.Backup) {
			world.Patch(GinkgoTB(), b, `{"spec":{"timeouts":{"run":"2s"}}}`)
		}, v1alpha1.ReasonStoreStalled),
	)
})
