// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storagelocation_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/storagelocation"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
	"github.com/grapnel-dev/grapnel/internal/testing/storeplugin"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var cluster suite.Cluster

func TestMain(m *testing.M) {
	storeplugin.ServeIfAsked()
	os.Exit(m.Run())
}

var (
	_ = BeforeSuite(func() { Expect(cluster.Start()).To(Succeed()) })
	_ = AfterSuite(func() { Expect(cluster.Stop()).To(Succeed()) })
)

func TestController(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "BackupStorageLocation controller")
}

// operator starts an operator whose filesystem locations are below root. It checks
// each location once, and again after a second if a test requests that.
func operator(t testing.TB, env *suite.Env, root string, options ...func(*storagelocation.Reconciler)) {
	t.Helper()
	env.StartManager(func(mgr ctrl.Manager) error {
		redactor := redact.New()
		r := &storagelocation.Reconciler{
			Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("grapnel"), Redactor: redactor, Interval: time.Hour,
			Opener: &location.Opener{Reader: mgr.GetAPIReader(), Root: root, Redactor: redactor},
		}
		for _, option := range options {
			option(r)
		}
		return r.SetupWithManager(mgr)
	})
}

func often(r *storagelocation.Reconciler) { r.Interval = time.Second }

// directory creates a location in a directory.
func directory(env *suite.Env, path string, edits ...func(*v1alpha1.BackupStorageLocation)) *v1alpha1.BackupStorageLocation {
	bsl := &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "directory-"},
		Spec:       v1alpha1.BackupStorageLocationSpec{Filesystem: &v1alpha1.FilesystemLocation{Path: path}},
	}
	for _, edit := range edits {
		edit(bsl)
	}
	return suite.Create(env, bsl)
}

func readOnly(bsl *v1alpha1.BackupStorageLocation) {
	bsl.Spec.AccessMode = v1alpha1.AccessModeReadOnly
}

// verdict is what users and other controllers read from a location.
type verdict struct {
	phase  v1alpha1.LocationPhase
	reason string
	// message is a substring of the message.
	message string
}

var available = verdict{phase: v1alpha1.LocationPhaseAvailable, reason: v1alpha1.ReasonAvailable}

func unavailable(message string) verdict {
	return verdict{phase: v1alpha1.LocationPhaseUnavailable, reason: v1alpha1.ReasonUnavailable, message: message}
}

func invalid(message string) verdict {
	return verdict{phase: v1alpha1.LocationPhaseUnavailable, reason: v1alpha1.ReasonInvalidSpec, message: message}
}

// await waits for a verdict on the current generation.
func await(env *suite.Env, bsl *v1alpha1.BackupStorageLocation, want verdict) {
	is := map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}
	good := want.phase == v1alpha1.LocationPhaseAvailable
	suite.WaitFor(env, bsl, func(bsl *v1alpha1.BackupStorageLocation) string {
		s := bsl.Status
		for of, status := range map[string]metav1.ConditionStatus{
			v1alpha1.ConditionAvailable: is[good], v1alpha1.ConditionReady: is[good], v1alpha1.ConditionStalled: is[!good],
		} {
			c := conditions.Get(bsl, of)
			if c == nil || c.Status != status || c.Reason != want.reason || bsl.Status.ObservedGeneration != bsl.Generation {
				return fmt.Sprintf("%s is %+v, want %s because of %s", of, c, status, want.reason)
			}
		}
		if s.Phase != want.phase || !strings.Contains(s.Message, want.message) || (s.Message == "") != good || s.LastValidationTime == nil {
			return fmt.Sprintf("status is %+v, want %+v", s, want)
		}
		return ""
	})
}
