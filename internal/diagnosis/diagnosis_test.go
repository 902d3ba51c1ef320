// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

var (
	now       = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	forbidden = apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
	missing   = apierrors.NewNotFound(schema.GroupResource{}, "any")
)

// timeAgo returns a time before now.
func timeAgo(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }

func newMeta(name string, age time.Duration) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "grapnel-system", Name: name, CreationTimestamp: *timeAgo(age)}
}

func newCondition(name string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: reason, Message: message}
}

func newServed(gv schema.GroupVersion, verbs metav1.Verbs, names ...string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: gv.String()}
	for _, name := range names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Verbs: verbs}, metav1.APIResource{Name: name + "/status"})
	}
	return list
}

func resourceNames() []string {
	var names []string
	for _, r := range KnownResources() {
		names = append(names, r.Name)
	}
	return names
}

var allVerbs = metav1.Verbs{"create", "delete", "get", "list"}

// newSnapshot returns the snapshot of an installation without problems.
func newSnapshot() *Snapshot {
	s := &Snapshot{
		Namespace: "grapnel-system", ClientVersion: "v0.2.1", ServerTime: Observed[time.Time]{Value: now}, LocalTime: now,
		Served: []*metav1.APIResourceList{newServed(v1alpha1.GroupVersion, allVerbs, resourceNames()...), newServed(corev1.SchemeGroupVersion, allVerbs, "pods")},
	}
	replicas, holder, seconds := int32(1), "pod-a_1", int32(15)
	d := appsv1.Deployment{ObjectMeta: newMeta("grapnel-controller-manager", time.Hour)}
	d.Spec.Replicas, d.Status.AvailableReplicas = &replicas, 1
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "plugin", Image: "plugin:v9.9.9"}, {Name: "manager", Image: "registry.example.com:5000/grapnel:v0.2.0@sha256:ab"}}
	s.Deployments.Value.Items = []appsv1.Deployment{d}
	s.Lease.Value.Name = "operator.grapnel.dev"
	s.Lease.Value.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: now.Add(-2 * time.Second)}}
	for _, name := range PolicyNames() {
		s.Policies.Value.Items = append(s.Policies.Value.Items, admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}})
		s.Bindings.Value.Items = append(s.Bindings.Value.Items, admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
		})
	}
	s.Downloads.Value.Name = "grapnel-downloads"
	s.Locations.Value.Items = []v1alpha1.BackupStorageLocation{newLocation("main")}
	s.Locations.Value.Items[0].Spec.Default = true
	s.Plugins.Value.Items = []v1alpha1.Plugin{newPlugin("freeze", metav1.ConditionTrue, v1alpha1.ReasonLoaded)}
	s.Schedules.Value.Items = []v1alpha1.Schedule{newSchedule("nightly")}
	s.Backups.Value.Items = []v1alpha1.Backup{newBackup("nightly-1", v1alpha1.RunPhaseCompleted)}
	return s
}

func newLocation(name string) v1alpha1.BackupStorageLocation {
	l := v1alpha1.BackupStorageLocation{ObjectMeta: newMeta(name, time.Hour)}
	l.Status.Phase, l.Status.LastValidationTime = v1alpha1.LocationPhaseAvailable, timeAgo(30*time.Second)
	l.Status.Conditions = []metav1.Condition{
		newCondition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAvailable, ""),
		newCondition(v1alpha1.ConditionWritable, metav1.ConditionTrue, v1alpha1.ReasonWritable, ""),
	}
	return l
}

func newPlugin(name string, ready metav1.ConditionStatus, reason string) v1alpha1.Plugin {
	p := v1alpha1.Plugin{ObjectMeta: newMeta(name, time.Hour)}
	p.Status.Conditions = []metav1.Condition{newCondition(v1alpha1.ConditionReady, ready, reason, "")}
	return p
}

// newSchedule returns a daily Schedule that succeeded this night.
func newSchedule(name string) v1alpha1.Schedule {
	o := v1alpha1.Schedule{ObjectMeta: newMeta(name, 1000*time.Hour), Spec: v1alpha1.ScheduleSpec{Schedule: "@daily"}}
	o.Status.Phase, o.Status.LastBackup = v1alpha1.SchedulePhaseEnabled, name+"-1"
	o.Status.LastSuccessfulTime, o.Status.NextScheduleTime = timeAgo(12*time.Hour), timeAgo(-12*time.Hour)
	return o
}

// newBackup returns a Backup that began 10 hours ago. It has ended if the phase is final.
func newBackup(name string, phase v1alpha1.RunPhase) v1alpha1.Backup {
	b := v1alpha1.Backup{ObjectMeta: newMeta(name, 10*time.Hour)}
	b.Status.Phase, b.Status.StartTimestamp = phase, timeAgo(10*time.Hour)
	succeeded := metav1.ConditionUnknown
	switch phase {
	case v1alpha1.RunPhaseCompleted:
		succeeded = metav1.ConditionTrue
	case v1alpha1.RunPhaseFailed, v1alpha1.RunPhasePartiallyFailed:
		succeeded = metav1.ConditionFalse
	default:
	}
	if succeeded != metav1.ConditionUnknown {
		b.Status.CompletionTimestamp = timeAgo(9 * time.Hour)
	}
	b.Status.Conditions = []metav1.Condition{newCondition(v1alpha1.ConditionSucceeded, succeeded, string(phase), "")}
	return b
}

func newHookRun(name string, failures int32, started time.Duration, owed bool) v1alpha1.HookRun {
	h := v1alpha1.HookRun{ObjectMeta: newMeta(name, time.Hour)}
	h.Spec.Hook, h.Spec.ActionName, h.Spec.Owed = v1alpha1.HookPostBackup, "example.io/freeze", owed
	h.Spec.ParentRef = v1alpha1.ParentReference{Kind: "Backup", Name: "backup-1"}
	h.Status.StartTimestamp, h.Status.Failures, h.Status.Message = timeAgo(started), failures, "connection refused"
	return h
}

// TestDiagnoseInstallation has one problem per row, and the findings that differ from those of an installation without problems.
func TestDiagnoseInstallation(t *testing.T) {
	withBackup := func(change func(*v1alpha1.Backup)) func(*Snapshot) {
		return func(s *Snapshot) {
			b := newBackup("backup-1", v1alpha1.RunPhaseInProgress)
			change(&b)
			s.Backups.Value.Items = append(s.Backups.Value.Items, b)
		}
	}
	withLocation := func(change func(*v1alpha1.BackupStorageLocation)) func(*Snapshot) {
		return func(s *Snapshot) { change(&s.Locations.Value.Items[0]) }
	}
	withSchedule := func(change func(*v1alpha1.Schedule)) func(*Snapshot) {
		return func(s *Snapshot) { change(&s.Schedules.Value.Items[0]) }
	}
	withPlugin := func(p v1alpha1.Plugin) func(*Snapshot) { return func(s *Snapshot) { s.Plugins.Value.Items[0] = p } }
	for name, tc := range map[string]struct {
		change func(*Snapshot)
		// want are substrings of the findings.
		want []string
	}{
		"nothing": {change: func(*Snapshot) {}},

		"no Grapnel":        {func(s *Snapshot) { s.Served = s.Served[1:] }, []string{"error CRDs the cluster has no Grapnel; install it"}},
		"a missing CRD":     {func(s *Snapshot) { s.Served[0] = newServed(v1alpha1.GroupVersion, allVerbs, resourceNames()[1:]...) }, []string{"error CRDs CRD asyncoperations.grapnel.dev is missing"}},
		"a terminating CRD": {func(s *Snapshot) { s.Served[0].APIResources[2].Verbs = metav1.Verbs{"delete", "get"} }, []string{"error CRDs CRD backuppreviews.grapnel.dev is being deleted"}},
		"another version": {func(s *Snapshot) {
			s.Served[0] = newServed(schema.GroupVersion{Group: "grapnel.dev", Version: "v1"}, allVerbs, "backups")
		}, []string{"error CRDs CRD asyncoperations.grapnel.dev is missing", "error CRDs CRD backuppreviews.grapnel.dev is missing", "error CRDs CRD backups.grapnel.dev is served as v1, not as v1alpha1", "CRDs", "CRDs", "CRDs", "CRDs", "CRDs", "CRDs", "CRDs"}},
		"a broken API": {func(s *Snapshot) {
			s.Failed = map[schema.GroupVersion]error{{Group: "metrics.k8s.io", Version: "v1beta1"}: errors.New("503")}
		}, []string{"warning APIs API metrics.k8s.io/v1beta1 does not answer: 503; fix or delete its APIService"}},
		"Velero": {func(s *Snapshot) {
			s.Served = append(s.Served, newServed(schema.GroupVersion{Group: "velero.io", Version: "v1"}, allVerbs, "restores", "backups", "podvolumebackups"))
		}, []string{"note Names the API group velero.io has backups, restores, too, which kubectl get may show instead; write backups.grapnel.dev"}},

		"a clock that is ahead":  {func(s *Snapshot) { s.ClockSkew = 90 * time.Second }, []string{"note Clock the clock of this machine is 1m30s ahead of"}},
		"a clock that is behind": {func(s *Snapshot) { s.ClockSkew = -time.Hour }, []string{"note Clock the clock of this machine is 1h0m0s behind that"}},
		"a small difference":     {change: func(s *Snapshot) { s.ClockSkew = -29 * time.Second }},
		"no time": {
			func(s *Snapshot) { s.ServerTime = Observed[time.Time]{Err: errors.New("no header")} },
			[]string{"note Clock not checked: no header"},
		},

		"no Deployment": {func(s *Snapshot) { s.Deployments.Value.Items = nil }, []string{"error Operator namespace grapnel-system has no Deployment"}},
		"no pod": {func(s *Snapshot) {
			d := &s.Deployments.Value.Items[0]
			d.Status.AvailableReplicas = 0
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "quota exceeded"}}
		}, []string{"error Operator Deployment grapnel-controller-manager: 0 of 1 replicas are available: quota exceeded; check its pods"}},
		"one pod of two":         {func(s *Snapshot) { *s.Deployments.Value.Items[0].Spec.Replicas = 2 }, []string{"warning Operator Deployment grapnel-controller-manager: 1 of 2"}},
		"scaled down":            {func(s *Snapshot) { *s.Deployments.Value.Items[0].Spec.Replicas = 0 }, []string{"error Operator Deployment grapnel-controller-manager is scaled to 0"}},
		"an old command line":    {func(s *Snapshot) { s.ClientVersion = "v0.1.7" }, []string{"warning Version the operator is v0.2.0, the command line is v0.1.7"}},
		"a build of a developer": {func(s *Snapshot) { s.ClientVersion = "dev" }, []string{"note Version not compared: the image of the operator is registry.example.com:5000/grapnel:v0.2.0@sha256:ab, the command line is dev"}},
		"an image without a tag": {func(s *Snapshot) {
			s.Deployments.Value.Items[0].Spec.Template.Spec.Containers[1].Image = "registry.example.com:5000/grapnel"
		}, []string{"note Version not compared"}},
		"no right on Deployments": {
			func(s *Snapshot) { s.Deployments.Err = forbidden },
			[]string{"note Operator not checked: no right to list deployments", "note Version not checked: no right to list deployments"},
		},

		"no lease":                               {func(s *Snapshot) { s.Lease.Err = missing }, []string{"warning Leader namespace grapnel-system has no lease"}},
		"a stale lease":                          {func(s *Snapshot) { s.Lease.Value.Spec.RenewTime.Time = now.Add(-time.Minute) }, []string{"error Leader no operator is active: pod-a_1 renewed lease operator.grapnel.dev 1m0s ago"}},
		"a released lease":                       {func(s *Snapshot) { *s.Lease.Value.Spec.HolderIdentity = "" }, []string{"error Leader no operator is active: lease operator.grapnel.dev has no holder"}},
		"an empty lease":                         {func(s *Snapshot) { s.Lease.Value.Spec = coordinationv1.LeaseSpec{} }, []string{"error Leader no operator is active"}},
		"no right on leases":                     {func(s *Snapshot) { s.Lease.Err = forbidden }, []string{"note Leader not checked: no right to get leases"}},
		"a failure of a read":                    {func(s *Snapshot) { s.Lease.Err = errors.New("timeout") }, []string{"warning Leader not checked: the attempt to get leases failed: timeout"}},
		"a missing policy":                       {func(s *Snapshot) { s.Policies.Value.Items = s.Policies.Value.Items[1:] }, []string{"warning Policies ValidatingAdmissionPolicy grapnel-asyncoperations is missing"}},
		"a missing binding":                      {func(s *Snapshot) { s.Bindings.Value.Items = s.Bindings.Value.Items[1:] }, []string{"warning Policies ValidatingAdmissionPolicy grapnel-asyncoperations has no binding"}},
		"a binding that warns":                   {func(s *Snapshot) { s.Bindings.Value.Items[0].Spec.ValidationActions[0] = admissionv1.Warn }, []string{"warning Policies ValidatingAdmissionPolicyBinding grapnel-asyncoperations denies nothing"}},
		"a binding that audits commands in pods": {change: func(s *Snapshot) { s.Bindings.Value.Items[4].Spec.ValidationActions[0] = admissionv1.Audit }},
		"no right on policies":                   {func(s *Snapshot) { s.Policies.Err = forbidden }, []string{"note Policies not checked: no right to list validatingadmissionpolicies"}},
		"a policy with errors": {func(s *Snapshot) {
			s.Policies.Value.Items[0].Status.TypeChecking = &admissionv1.TypeChecking{ExpressionWarnings: []admissionv1.ExpressionWarning{{Warning: "undefined field"}}}
		}, []string{"warning Policies ValidatingAdmissionPolicy grapnel-asyncoperations: undefined field"}},
		"no Service":          {func(s *Snapshot) { s.Downloads.Err = missing }, []string{"warning Downloads the Service of downloads is missing"}},
		"no right on Service": {func(s *Snapshot) { s.Downloads.Err = forbidden }, []string{"note Downloads not checked: no right to get services"}},

		"no location":           {func(s *Snapshot) { s.Locations.Value.Items = nil }, []string{"error Locations namespace grapnel-system has no location; create one"}},
		"no default":            {withLocation(func(l *v1alpha1.BackupStorageLocation) { l.Spec.Default = false }), []string{"warning Locations no location is the default"}},
		"a default by its name": {change: withLocation(func(l *v1alpha1.BackupStorageLocation) { l.Spec.Default, l.Name = false, "default" })},
		"two defaults": {func(s *Snapshot) {
			more := newLocation("more")
			more.Spec.Default = true
			s.Locations.Value.Items = append(s.Locations.Value.Items, more)
		}, []string{"error Locations several locations are the default (main, more)"}},
		"a default that is being deleted": {withLocation(func(l *v1alpha1.BackupStorageLocation) { l.DeletionTimestamp = timeAgo(time.Minute) }), []string{"warning Locations no location is the default"}},
		"an unavailable location": {withLocation(func(l *v1alpha1.BackupStorageLocation) {
			l.Status.Conditions[0].Status, l.Status.Message = metav1.ConditionFalse, "bucket\ndoes not exist"
		}), []string{"error Locations location main is unavailable: bucket does not exist; fix the location"}},
		"a full location": {withLocation(func(l *v1alpha1.BackupStorageLocation) {
			l.Status.Conditions[1] = newCondition(v1alpha1.ConditionWritable, metav1.ConditionFalse, v1alpha1.ReasonFull, "no space left")
		}), []string{"error Locations location main takes no new backups: no space left"}},
		"an almost full location": {withLocation(func(l *v1alpha1.BackupStorageLocation) {
			l.Status.Conditions[1].Reason, l.Status.Conditions[1].Message = v1alpha1.ReasonAlmostFull, "3 % left"
		}), []string{"warning Locations location main: 3 % left"}},
		"a read-only default": {withLocation(func(l *v1alpha1.BackupStorageLocation) { l.Spec.AccessMode = v1alpha1.AccessModeReadOnly }), []string{"warning Locations location main is the default and read-only"}},
		"a read-only location": {func(s *Snapshot) {
			more := newLocation("more")
			more.Spec.AccessMode = v1alpha1.AccessModeReadOnly
			s.Locations.Value.Items = append(s.Locations.Value.Items, more)
		}, []string{"note Locations location more is read-only"}},
		"expiry is held": {withLocation(func(l *v1alpha1.BackupStorageLocation) {
			l.Status.Conditions = append(l.Status.Conditions, newCondition(v1alpha1.ConditionExpiryHeld, metav1.ConditionTrue, v1alpha1.ReasonMassExpiry, "all at once"))
		}), []string{"warning Locations Backups of location main do not expire: all at once; see docs/guides/troubleshoot.md#when-a-clock-is-wrong"}},
		"an incomplete import": {withLocation(func(l *v1alpha1.BackupStorageLocation) {
			l.Status.Conditions = append(l.Status.Conditions, newCondition(v1alpha1.ConditionSynced, metav1.ConditionFalse, v1alpha1.ReasonSyncFailed, "cannot list"))
		}), []string{"warning Locations location main was not imported completely: cannot list"}},
		"a new location": {withLocation(func(l *v1alpha1.BackupStorageLocation) {
			l.CreationTimestamp, l.Status = *timeAgo(time.Minute), v1alpha1.BackupStorageLocationStatus{ObservedGeneration: -1}
		}), []string{"note Locations location main was not checked yet"}},
		"a location that is never checked": {withLocation(func(l *v1alpha1.BackupStorageLocation) {
			l.Status = v1alpha1.BackupStorageLocationStatus{ObservedGeneration: -1}
		}), []string{"error Locations location main was never checked; check that the operator runs"}},
		"a location that is no longer checked": {withLocation(func(l *v1alpha1.BackupStorageLocation) { l.Status.LastValidationTime = timeAgo(time.Hour) }), []string{"error Locations no location was checked for 1h0m0s"}},
		"a location that is checked daily": {withLocation(func(l *v1alpha1.BackupStorageLocation) {
			l.Spec.CheckInterval, l.Status.LastValidationTime = &metav1.Duration{Duration: 24 * time.Hour}, timeAgo(20*time.Hour)
		}), nil},
		"a location that should have been checked yesterday": {withLocation(func(l *v1alpha1.BackupStorageLocation) {
			l.Spec.CheckInterval, l.Status.LastValidationTime = &metav1.Duration{Duration: 24 * time.Hour}, timeAgo(25*time.Hour)
		}), []string{"error Locations no location was checked for 25h0m0s"}},
		"a location that is not checked regularly": {withLocation(func(l *v1alpha1.BackupStorageLocation) {
			l.Spec.CheckInterval, l.Status.LastValidationTime = &metav1.Duration{}, timeAgo(500*time.Hour)
		}), nil},
		"no right on locations": {func(s *Snapshot) { s.Locations.Err = forbidden }, []string{"note Locations not checked: no right to list backupstoragelocations"}},

		"a Plugin that is not ready": {withPlugin(newPlugin("p", metav1.ConditionFalse, "CrashLoop")), []string{"error Plugins Plugin p is not ready (CrashLoop), and every run"}},
		"a Plugin that is not ready and ignored": {func(s *Snapshot) {
			p := newPlugin("p", metav1.ConditionFalse, "CrashLoop")
			p.Spec.FailurePolicy = v1alpha1.FailurePolicyIgnore
			s.Plugins.Value.Items[0] = p
		}, []string{"warning Plugins Plugin p is not ready (CrashLoop), and left out of runs"}},
		"a Plugin that is being loaded": {withPlugin(newPlugin("p", metav1.ConditionUnknown, v1alpha1.ReasonLoading)), []string{"note Plugins Plugin p is being loaded"}},
		"a Plugin that is never loaded": {withPlugin(v1alpha1.Plugin{ObjectMeta: newMeta("p", time.Hour), Status: v1alpha1.PluginStatus{ObservedGeneration: -1}}), []string{"error Plugins Plugin p was never loaded"}},
		"a suspended Plugin": {func(s *Snapshot) {
			s.Plugins.Value.Items[0] = newPlugin("p", metav1.ConditionFalse, "CrashLoop")
			s.Plugins.Value.Items[0].Spec.Suspend = true
		}, []string{"note Plugins Plugin p is suspended"}},
		"duplicate actions": {func(s *Snapshot) {
			p := &s.Plugins.Value.Items[0]
			p.Status.Conditions = append(p.Status.Conditions, newCondition(v1alpha1.ConditionDuplicateActions, metav1.ConditionTrue, v1alpha1.ReasonDuplicateAction, "also in other"))
		}, []string{"warning Plugins Plugin freeze: also in other"}},
		"no right on Plugins": {func(s *Snapshot) { s.Plugins.Err = forbidden }, []string{"note Plugins not checked: no right to list plugins, which belong to no namespace"}},

		"a paused Schedule": {withSchedule(func(o *v1alpha1.Schedule) { o.Spec.Suspend, o.Status.LastSuccessfulTime = true, nil }), []string{"note Schedules Schedule nightly is paused"}},
		"an invalid Schedule": {withSchedule(func(o *v1alpha1.Schedule) {
			o.Status.Phase, o.Status.Message = v1alpha1.SchedulePhaseFailedValidation, "never fires"
		}), []string{"error Schedules Schedule nightly is invalid: never fires"}},
		"a Schedule whose Backups are rejected": {withSchedule(func(o *v1alpha1.Schedule) {
			o.Status.Conditions = []metav1.Condition{newCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonBackupNotCreated, "")}
			o.Status.Message = "denied"
		}), []string{"error Schedules Schedule nightly creates no Backups: denied"}},
		"a Schedule that is never processed":   {withSchedule(func(o *v1alpha1.Schedule) { o.Status.ObservedGeneration = -1 }), []string{"error Schedules Schedule nightly was never processed"}},
		"an overdue Schedule":                  {withSchedule(func(o *v1alpha1.Schedule) { o.Status.NextScheduleTime = timeAgo(10 * time.Minute) }), []string{"error Schedules Schedule nightly should have created a Backup 10m0s ago"}},
		"a Schedule that waits for its Backup": {change: withSchedule(func(o *v1alpha1.Schedule) { o.Status.NextScheduleTime, o.Status.Active = timeAgo(10*time.Minute), 1 })},
		"a failed Backup of a Schedule": {
			func(s *Snapshot) { s.Backups.Value.Items[0].Status.Phase = v1alpha1.RunPhaseFailedPreBackupActions },
			[]string{"error Schedules the last Backup of Schedule nightly, nightly-1, is FailedPreBackupActions; kubectl grapnel backup describe nightly-1"},
		},
		"a partial Backup of a Schedule": {
			func(s *Snapshot) { s.Backups.Value.Items[0].Status.Phase = v1alpha1.RunPhasePartiallyFailed },
			[]string{"warning Schedules the last Backup of Schedule nightly, nightly-1, is PartiallyFailed"},
		},
		"an old success":              {withSchedule(func(o *v1alpha1.Schedule) { o.Status.LastSuccessfulTime = timeAgo(61 * time.Hour) }), []string{"warning Schedules the last Completed Backup of Schedule nightly is 61h0m0s old"}},
		"a success of the day before": {change: withSchedule(func(o *v1alpha1.Schedule) { o.Status.LastSuccessfulTime = timeAgo(35 * time.Hour) })},
		"no success":                  {withSchedule(func(o *v1alpha1.Schedule) { o.Status.LastSuccessfulTime = nil }), []string{"warning Schedules no Backup of Schedule nightly was ever Completed, although it has existed for 1000h0m0s"}},
		"a new Schedule": {change: withSchedule(func(o *v1alpha1.Schedule) {
			o.CreationTimestamp, o.Status.LastSuccessfulTime = *timeAgo(13 * time.Hour), nil
		})},

		"a Backup that is not processed": {withBackup(func(b *v1alpha1.Backup) {
			b.Status = v1alpha1.BackupStatus{RunStatus: v1alpha1.RunStatus{ObservedGeneration: -1}}
		}), []string{"error Runs Backup backup-1 has existed for 10h0m0s, and the operator does not process it"}},
		"a Backup that waits": {withBackup(func(b *v1alpha1.Backup) { b.Status.StartTimestamp, b.Status.Message = nil, "waits for a slot" }), []string{"warning Runs Backup backup-1 has waited for 10h0m0s: waits for a slot"}},
		"a Backup that is near its deadline": {withBackup(func(b *v1alpha1.Backup) {
			b.Spec.Timeouts = &v1alpha1.BackupTimeouts{Run: &metav1.Duration{Duration: 11 * time.Hour}}
			b.Status.Message = "Archiving"
		}), []string{"warning Runs Backup backup-1 has been InProgress for 10h0m0s, and fails after 11h0m0s: Archiving; increase its spec.timeouts.run"}},
		"a Backup past its deadline": {withBackup(func(b *v1alpha1.Backup) {
			b.Spec.Timeouts = &v1alpha1.BackupTimeouts{Run: &metav1.Duration{Duration: time.Hour}}
		}), []string{"error Runs Backup backup-1 has been InProgress for 10h0m0s, although its timeout is 1h0m0s; check that the operator runs"}},
		"a Backup in progress":           {change: withBackup(func(*v1alpha1.Backup) {})},
		"a Backup in progress for a day": {withBackup(func(b *v1alpha1.Backup) { b.Status.StartTimestamp = timeAgo(25 * time.Hour) }), []string{"warning Runs Backup backup-1 has been InProgress for 25h0m0s"}},
		"a Restore in progress for a day": {func(s *Snapshot) {
			o := v1alpha1.Restore{ObjectMeta: newMeta("restore-1", 25*time.Hour)}
			o.Status.Phase, o.Status.StartTimestamp = v1alpha1.RunPhaseInProgress, timeAgo(25*time.Hour)
			o.Status.Conditions = []metav1.Condition{newCondition(v1alpha1.ConditionSucceeded, metav1.ConditionUnknown, "", "")}
			s.Restores.Value.Items = []v1alpha1.Restore{o}
		}, []string{"warning Runs Restore restore-1 has been InProgress for 25h0m0s"}},
		"missing data": {withBackup(func(b *v1alpha1.Backup) {
			*b = newBackup("backup-1", v1alpha1.RunPhaseCompleted)
			b.Status.StorageLocation = "ma\nin" // hostile
			b.Status.Conditions = append(b.Status.Conditions, newCondition(v1alpha1.ConditionDataAvailable, metav1.ConditionFalse, v1alpha1.ReasonDataMissing, ""))
		}), []string{"warning Runs the stored data of Backup backup-1 is missing; check what deleted it in location ma in"}},
		"no right on Restores": {
			func(s *Snapshot) { s.Restores.Err = forbidden },
			[]string{"note Runs not checked: no right to list restores", "note Clean-up not checked: no right to list restores"},
		},

		"overdue clean-up": {withBackup(func(b *v1alpha1.Backup) {
			b.Status.Conditions = append(b.Status.Conditions, newCondition(v1alpha1.ConditionCleanupOwed, metav1.ConditionTrue, v1alpha1.ReasonCleanupOverdue, "thaw failed"))
		}), []string{"error Clean-up Backup backup-1 owes clean-up (CleanupOverdue): thaw failed; see docs/guides/troubleshoot.md#cleanupowed-is-true"}},
		"clean-up after a run": {withBackup(func(b *v1alpha1.Backup) {
			*b = newBackup("backup-1", v1alpha1.RunPhaseCompleted)
			b.Status.Conditions = append(b.Status.Conditions, newCondition(v1alpha1.ConditionCleanupOwed, metav1.ConditionTrue, v1alpha1.ReasonCleanupPending, "thaw must run"))
		}), []string{"warning Clean-up Backup backup-1 has owed clean-up for 9h0m0s: thaw must run"}},
		"clean-up of a run in progress": {change: withBackup(func(b *v1alpha1.Backup) {
			b.Status.Conditions = append(b.Status.Conditions, newCondition(v1alpha1.ConditionCleanupOwed, metav1.ConditionTrue, v1alpha1.ReasonCleanupPending, "thaw must run"))
		})},
		"a hook that is retried": {
			func(s *Snapshot) {
				s.HookRuns.Value.Items = []v1alpha1.HookRun{newHookRun("hook-1", 5, time.Hour, false)}
			},
			[]string{"warning Hooks HookRun hook-1 (PostBackup example.io/freeze of Backup backup-1) has failed 5 times in 1h0m0s: connection refused; fix the cause, or cancel the run"},
		},
		"owed clean-up that is retried": {
			func(s *Snapshot) {
				s.HookRuns.Value.Items = []v1alpha1.HookRun{newHookRun("hook-1", 5, time.Hour, true)}
			},
			[]string{"has failed 5 times in 1h0m0s: connection refused; fix the cause; see docs/guides/troubleshoot.md#cleanupowed-is-true"},
		},
		"a hook that failed once": {change: func(s *Snapshot) {
			s.HookRuns.Value.Items = []v1alpha1.HookRun{newHookRun("hook-1", 1, time.Hour, false)}
		}},
		"a hook that is retried a bit": {change: func(s *Snapshot) {
			s.HookRuns.Value.Items = []v1alpha1.HookRun{newHookRun("hook-1", 3, time.Minute, false)}
		}},
		"a stuck deletion": {withBackup(func(b *v1alpha1.Backup) {
			b.DeletionTimestamp, b.Finalizers = timeAgo(time.Hour), []string{v1alpha1.FinalizerRun}
		}), []string{"warning Finalizers Backup backup-1 has been terminating for 1h0m0s, held by grapnel.dev/run"}},
		"a recent deletion": {change: withBackup(func(b *v1alpha1.Backup) {
			b.DeletionTimestamp, b.Finalizers = timeAgo(time.Minute), []string{v1alpha1.FinalizerRun}
		})},
		"many": {func(s *Snapshot) {
			for i := range 30 {
				s.HookRuns.Value.Items = append(s.HookRuns.Value.Items, newHookRun(fmt.Sprint("hook-", i), 5, time.Hour, false))
			}
		}, slices.Concat(slices.Repeat([]string{"warning Hooks HookRun"}, maxFindings), []string{"warning Hooks and 10 more"})},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSnapshot()
			tc.change(s)
			var got []string
			for _, f := range DiagnoseInstallation(s) {
				if f.Severity != OK {
					got = append(got, fmt.Sprintf("%s %s %s", f.Severity, f.Check, f))
				}
			}
			if len(got) != len(tc.want) {
				t.Fatalf("%d findings, want %d:\n%s", len(got), len(tc.want), strings.Join(got, "\n"))
			}
			for i := range got {
				if !strings.Contains(got[i], tc.want[i]) {
					t.Errorf("%s\nwant %s", got[i], tc.want[i])
				}
			}
		})
	}
}

func TestWorstSeverity(t *testing.T) {
	for want, severities := range map[Severity][]Severity{
		OK: nil, Note: {OK, Note}, Warning: {Warning, Note, OK}, Error: {Note, Error, Warning},
	} {
		var findings []Finding
		for _, severity := range severities {
			findings = append(findings, Finding{Severity: severity})
		}
		if got := WorstSeverity(findings); got != want {
			t.Errorf("%v: %s, want %s", severities, got, want)
		}
	}
}

// TestLists compares the lists of kinds and policies with the manifests.
func TestLists(t *testing.T) {
	for dir, tc := range map[string]struct {
		pattern string
		want    []string
	}{
		"crd/bases": {`(?m)^    plural: (.*)$`, resourceNames()},
		"policy":    {`(?m)^kind: ValidatingAdmissionPolicy\nmetadata:\n  name: (.*)$`, PolicyNames()},
	} {
		files, err := filepath.Glob(filepath.Join("../../config", dir, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile(tc.pattern).FindAllStringSubmatch(string(content), -1) {
				found = append(found, match[1])
			}
		}
		slices.Sort(found)
		if diff := cmp.Diff(tc.want, found); diff != "" {
			t.Errorf("%s: %s", dir, diff)
		}
	}
}

// TestDocuments checks that the sections exist to which findings refer.
func TestDocuments(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(docs/[\w/-]+\.md)(?:#([\w-]+))?`).FindAllStringSubmatch(string(content), -1) {
			found++
			document, err := os.ReadFile(filepath.Join("../..", match[1]))
			if err != nil {
				t.Fatal(err)
			}
			if match[2] == "" {
				continue
			}
			isHeading := func(line string) bool {
				title, isTitle := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
				anchor := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(title), "")
				return isTitle && strings.HasPrefix(line, "#") && strings.ReplaceAll(anchor, " ", "-") == match[2]
			}
			if !slices.ContainsFunc(strings.Split(string(document), "\n"), isHeading) {
				t.Errorf("%s: there is no section %s", file, match[0])
			}
		}
	}
	if found < 5 {
		t.Errorf("found only %d references", found)
	}
}
