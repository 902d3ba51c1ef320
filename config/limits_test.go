// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"context"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testLimits asks what the operator may not do, although it may write every object.
func (s *suite) testLimits(t *testing.T) {
	for _, spec := range []authorizationv1.SubjectAccessReviewSpec{
		reviewOf("deletecollection", "", "secrets", "default"),
		reviewOf("deletecollection", "", "namespaces", ""),
		reviewOf("impersonate", "", "users", ""),
		reviewOf("impersonate", "", "groups", ""),
		reviewOf("impersonate", "", "serviceaccounts", "kube-system"),
		reviewOf("approve", "certificates.k8s.io", "signers", ""),
		reviewOf("sign", "certificates.k8s.io", "signers", ""),
		reviewOf("use", "example.io", "anything", "default"),
		{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}},
		{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/logs/audit.log", Verb: "get"}},
		{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/debug/pprof/profile", Verb: "get"}},
	} {
		s.wantAccess(t, false, spec)
	}
	s.wantAccess(t, true, reviewOf("create", "", "serviceaccounts/token", "kube-system")) // what roles cannot refuse
}

// testRefusals tries what the operator's roles allow and a policy refuses, as the operator and
// as an administrator, who is not concerned.
func (s *suite) testRefusals(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "default", Name: "target"}
	pod := create(t, s.admin, &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}})
	account := create(t, s.admin, &corev1.ServiceAccount{ObjectMeta: meta})
	create(t, s.admin, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "target"}})
	create(t, s.admin, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	connect := func(path string) func(string, client.Client) error {
		return func(user string, _ client.Client) error {
			return s.connector(t, user, "/api/v1/"+path)(t.Context())
		}
	}
	for name, do := range map[string]func(string, client.Client) error{
		"run a command": connect("namespaces/default/pods/target/exec?command=ls&stdout=true"),
		"attach":        connect("namespaces/default/pods/target/attach?stdout=true"),
		"forward ports": connect("namespaces/default/pods/target/portforward?ports=80"),
		"ask a pod":     connect("namespaces/default/pods/target:80/proxy/"),
		"ask a Service": connect("namespaces/default/services/target:80/proxy/"),
		"ask a node":    connect("nodes/target/proxy/runningpods/"),
		"make a token": func(_ string, c client.Client) error {
			return c.SubResource("token").Create(t.Context(), account, &authenticationv1.TokenRequest{})
		},
		"add a container": func(_ string, c client.Client) error {
			changed := pod.DeepCopy()
			changed.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "added", Image: "i", TerminationMessagePolicy: "File", ImagePullPolicy: "Always"},
			}}
			return c.SubResource("ephemeralcontainers").Update(t.Context(), changed, &client.SubResourceUpdateOptions{
				UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}},
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			eventually(t, "the refusal", func(context.Context) (bool, error) {
				err := do(operator, s.operator)
				return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'grapnel-"), nil
			})
			if err := do("an-admin", s.admin); apierrors.IsForbidden(err) {
				t.Errorf("an administrator may not: %v", err)
			}
		})
	}
}

// testDocument runs the commands for those who have just installed Grapnel, and checks whether
// the collector of metrics may have them afterwards.
func (s *suite) testDocument(t *testing.T) {
	create(t, s.admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "monitoring"}})
	for _, heading := range []string{"## See that it works", "## Where backups are stored", "## Metrics", "### ClusterRole grapnel-jobs"} {
		text, _, _ := strings.Cut(section(t, document(t), heading), "\n### ") // of moving the store, see moves_test.go
		for _, command := range commands(text) {
			s.shell(t, command)
		}
	}
	collector := authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:monitoring:prometheus", Groups: []string{"system:serviceaccounts:monitoring"},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
	}
	eventually(t, "the right to read metrics", func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: collector}
		err := s.admin.Create(ctx, review)
		return review.Status.Allowed, err
	})
	if bindings := s.shell(t, "kubectl get validatingadmissionpolicybindings -l app.kubernetes.io/name=grapnel -o name"); len(lines(bindings)) != 8 {
		t.Errorf("the document says that there are eight bindings of policies; there are: %s", bindings)
	}
}

// TestInstallationDoc_TestedCommands counts the commands of the document: those that no test runs are
// indented, because they need a node or an image.
func TestInstallationDoc_TestedCommands(t *testing.T) {
	t.Parallel()
	run := 0
	for _, heading := range []string{
		"### What a component leaves behind", "## See that it works", "## Where backups are stored", "## Metrics", "### ClusterRole grapnel-jobs",
		"## Upgrade", "## Uninstall",
	} {
		run += len(commands(section(t, document(t), heading)))
	}
	if all := len(commands(document(t))); run != all || run < 20 {
		t.Errorf("%d commands are run of the %d in docs/installation.md", run, all)
	}
}
