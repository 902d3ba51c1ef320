// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"context"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// The roles for people, and those of Kubernetes to which Grapnel adds rights, by the letter that stands for them
// in testPeople.
var people = map[string]string{
	"v": "grapnel-viewer", "b": "grapnel-backup-operator", "r": "grapnel-restore-operator", "a": "grapnel-admin",
	"k": "view", "e": "edit", "-": "",
}

// downloadRequest returns a request for a file of the Backup or Restore "nightly".
func downloadRequest(kind v1alpha1.DownloadTargetKind) *v1alpha1.DownloadRequest {
	return &v1alpha1.DownloadRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "download-"},
		Spec:       v1alpha1.DownloadRequestSpec{Target: v1alpha1.DownloadTarget{Kind: kind, Name: "nightly"}, TokenHash: strings.Repeat("0a", 32)},
	}
}

// testPeople checks who may do what with the roles for people, each bound in the operator's namespace.
func (s *suite) testPeople(t *testing.T) {
	users := map[string]client.Client{}
	for letter, role := range people {
		name := "person-" + letter
		users[letter] = s.as(t, name)
		if role != "" {
			s.bindRole(t, namespace, role, name)
		}
	}
	meta := metav1.ObjectMeta{Namespace: namespace, GenerateName: "by-a-person-"}
	create(t, s.admin, &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "of-a-person"}})
	requestable := schedule("of-a-person")
	requestable.Spec.Suspend = true
	create(t, s.admin, requestable)
	hook := create(t, s.admin, hookRun(namespace, "of-a-backup"))
	dryRun := func(object client.Object) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, object.DeepCopyObject().(client.Object), client.DryRunAll)
		}
	}
	download := func(kind v1alpha1.DownloadTargetKind) func(context.Context, client.Client) error {
		return dryRun(downloadRequest(kind))
	}
	list := func(kind client.ObjectList, in string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error { return c.List(ctx, kind, client.InNamespace(in)) }
	}
	generated := func(object client.Object) client.Object {
		object.SetName("")
		object.SetGenerateName("by-a-person-")
		return object
	}
	eventually(t, "the roles", func(ctx context.Context) (bool, error) {
		return list(&v1alpha1.BackupList{}, namespace)(ctx, users["a"]) == nil && list(&v1alpha1.BackupList{}, namespace)(ctx, users["e"]) == nil, nil
	})
	for what, tc := range map[string]struct {
		do func(context.Context, client.Client) error
		// allowed are the letters of who may do it.
		allowed string
	}{
		"read Backups":                          {list(&v1alpha1.BackupList{}, namespace), "v b r a k e"},
		"read HookRuns":                         {list(&v1alpha1.HookRunList{}, namespace), "v b r a k e"},
		"read locations":                        {list(&v1alpha1.BackupStorageLocationList{}, namespace), "v b r a k e"},
		"read Backups of another namespace":     {list(&v1alpha1.BackupList{}, "default"), ""},
		"read DownloadRequests of others":       {list(&v1alpha1.DownloadRequestList{}, namespace), "a"},
		"read Secrets":                          {list(&corev1.SecretList{}, namespace), "e"},
		"read pods":                             {list(&corev1.PodList{}, namespace), "k e"},
		"create a Backup":                       {dryRun(&v1alpha1.Backup{ObjectMeta: meta}), "b a"},
		"preview a Backup":                      {dryRun(&v1alpha1.BackupPreview{ObjectMeta: meta}), "b a"},
		"create a Schedule":                     {dryRun(generated(schedule("x"))), "b a"},
		"destroy a backup":                      {dryRun(generated(deletionRun("x"))), "b a"},
		"create a Restore":                      {dryRun(generated(restore("x"))), "r a"},
		"create a location":                     {dryRun(generated(location("x"))), "a"},
		"create a Plugin":                       {dryRun(generated(plugin("x"))), ""},
		"create a HookRun":                      {dryRun(hookRun(namespace, "by-a-person")), ""},
		"download the log of a Backup":          {download(v1alpha1.DownloadBackupLog), "v b r a"},
		"download the post log of a Backup":     {download(v1alpha1.DownloadBackupPostLog), "v b r a"},
		"download the results of a Backup":      {download(v1alpha1.DownloadBackupResults), "v b r a"},
		"download the list of a Backup":         {download(v1alpha1.DownloadBackupResourceList), "v b r a"},
		"download the archive of a Backup":      {download(v1alpha1.DownloadBackupContents), "a"},
		"download the log of a Restore":         {download(v1alpha1.DownloadRestoreLog), "v b r a"},
		"download the post log of a Restore":    {download(v1alpha1.DownloadRestorePostLog), "v b r a"},
		"download the results of a Restore":     {download(v1alpha1.DownloadRestoreResults), "v b r a"},
		"download the resource list of Restore": {download(v1alpha1.DownloadRestoreResourceList), "v b r a"},
		"request a run of a Schedule": {func(ctx context.Context, c client.Client) error {
			s := &v1alpha1.Schedule{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "of-a-person"}}
			return c.Patch(ctx, s, patch(t, "metadata", "annotations", map[string]string{v1alpha1.AnnotationRunRequestedAt: "2026-01-02T03:00:00Z"}), client.DryRunAll)
		}, "b a"},
		"cancel a Backup": {func(ctx context.Context, c client.Client) error {
			b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "of-a-person"}}
			return c.Patch(ctx, b, patch(t, "spec", "desiredState", "Cancel"), client.DryRunAll)
		}, "b a"},
		"retry a HookRun": {func(ctx context.Context, c client.Client) error {
			for letter := range people {
				if users[letter] == c {
					return c.Patch(ctx, hook.DeepCopy(), patch(t, "spec", "intervention", interventionBy("person-"+letter)), client.DryRunAll)
				}
			}
			return nil
		}, "b r a"},
		"write the status of a Backup": {func(ctx context.Context, c client.Client) error {
			b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "of-a-person"}}
			return c.Status().Patch(ctx, b, patch(t, "status", "message", "x"), client.DryRunAll)
		}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			for letter, user := range users {
				err := tc.do(t.Context(), user)
				if err != nil && !apierrors.IsForbidden(err) {
					t.Errorf("%s: %v", people[letter], err)
				}
				if allowed := strings.Contains(tc.allowed, letter); (err == nil) != allowed {
					t.Errorf("%q may do it: %v, want %v (%v)", people[letter], err == nil, allowed, err)
				}
			}
		})
	}
	s.testDownloadService(t)
	s.testDownloadsByName(t)
}

// bindRole binds a ClusterRole in a namespace.
func (s *suite) bindRole(t *testing.T, in, role, user string) {
	t.Helper()
	create(t, s.admin, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: user + "-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
}

// testDownloadService: the proxy for Services opens the operator's downloads, and no other Service.
func (s *suite) testDownloadService(t *testing.T) {
	t.Helper()
	for service, allowed := range map[string]string{
		"https:grapnel-downloads:https": "v b r a e", "grapnel-controller-manager-metrics": "e", "https:grapnel-controller-manager-metrics:https": "e",
	} {
		for letter, role := range people {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "person-" + letter,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: "get", Resource: "services", Subresource: "proxy", Namespace: namespace, Name: service,
				},
			}}
			if create(t, s.admin, review); review.Status.Allowed != strings.Contains(allowed, letter) {
				t.Errorf("%q may use Service %s: %v", role, service, review.Status.Allowed)
			}
		}
	}
}

// testDownloadsByName: a right for one Backup opens that one only, and the refusal says what is needed.
func (s *suite) testDownloadsByName(t *testing.T) {
	t.Helper()
	role := create(t, s.admin, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "nightly-archive"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"grapnel.dev"}, Resources: []string{"downloadrequests"}, Verbs: []string{"create"}},
		{APIGroups: []string{"grapnel.dev"}, Resources: []string{"backups/archive"}, ResourceNames: []string{"nightly"}, Verbs: []string{"get"}},
	}})
	user := s.as(t, "person-by-name")
	s.bindRole(t, namespace, role.Name, "person-by-name")
	eventually(t, "the right", func(ctx context.Context) (bool, error) {
		return user.Create(ctx, downloadRequest(v1alpha1.DownloadBackupContents), client.DryRunAll) == nil, nil
	})
	other := downloadRequest(v1alpha1.DownloadBackupContents)
	other.Spec.Target.Name = "weekly"
	err := user.Create(t.Context(), other, client.DryRunAll)
	if want := "you need the right to get backups/archive (grapnel.dev) in namespace grapnel-system"; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("the archive of another Backup: %v, want %q", err, want)
	}
	if err := user.Create(t.Context(), downloadRequest(v1alpha1.DownloadBackupLog), client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("the log of the same Backup: want Forbidden, got %v", err)
	}
}
