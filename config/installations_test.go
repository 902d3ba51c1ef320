// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
)

// startPlane starts a control plane, which serves the kinds of the Prometheus Operator, until the test ends.
func startPlane(t *testing.T, options controlplane.Options) *suite {
	t.Helper()
	options.CRDPaths = append(options.CRDPaths, "testdata/monitoring")
	plane, err := controlplane.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := &suite{plane: plane}
	s.admin = s.as(t, "an-admin", "system:masters")
	return s
}

// kubectl runs it as an administrator and returns what it says.
func (s *suite) kubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.plane.KubectlPath(), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.plane.KubeconfigPath())
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// apply applies an installation but for the kinds, which are the same in all of them and take
// the longest, and wants nothing to be said against it.
func (s *suite) apply(t *testing.T, i installation) {
	t.Helper()
	documents := strings.Split(i.manifests(t), "\n---\n")
	documents = slices.DeleteFunc(documents, func(document string) bool { return strings.Contains(document, "\nkind: CustomResourceDefinition\n") })
	said := s.kubectl(t, strings.Join(documents, "\n---\n"), "apply", "--validate=strict", "-f", "-")
	if strings.Contains(said, "Warning") {
		t.Error(said)
	}
}

// TestInstallations applies every installation to a real API server, one over the other, as
// a user does who changes the installation, and asks it whether the pods may run.
func TestInstallations(t *testing.T) {
	s := startPlane(t, controlplane.Options{})
	s.kubectl(t, "", "apply", "--validate=strict", "-k", "crd")
	mounted, err := s.plane.IsAtLeast("1.35")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(installations)) {
		i := installations[name]
		t.Run(name, func(t *testing.T) {
			if !mounted && slices.Contains(i.components, "plugins-image-volume") {
				t.Skip("the API server does not know image volumes, or only with a feature gate")
			}
			s.apply(t, i)
			for _, deployment := range ofKind[appsv1.Deployment](t, i.render(t), "Deployment") {
				s.wantPod(t, deployment.Spec.Template)
			}
		})
	}
	t.Run("commands in pods", s.testCommands)
	t.Run("for backups only", s.testBackupsOnly)
}

// wantPod asks for the pod of a template, which the namespace has to admit, and for one that
// shows that it does not admit everything.
func (s *suite) wantPod(t *testing.T, template corev1.PodTemplateSpec) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name = namespace, "of-the-template"
	if err := s.admin.Create(t.Context(), pod.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("the pod is refused: %v", err)
	}
	pod.Spec.SecurityContext.SeccompProfile = nil
	err := s.admin.Create(t.Context(), pod, client.DryRunAll)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
		t.Errorf("a pod without seccomp is admitted: %v", err)
	}
}

// testCommands has the operator run a command in a pod, with and without the component.
func (s *suite) testCommands(t *testing.T) {
	exec := s.connector(t, operator, "/api/v1/namespaces/default/pods/database/exec?command=ls&container=c&stdout=true")
	create(t, s.admin, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "database"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "database"}}},
	})
	for range 2 { // and back again
		s.apply(t, installations["default"])
		eventually(t, "the refusal of commands", func(ctx context.Context) (bool, error) {
			err := exec(ctx)
			return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "config/components/pod-exec"), nil
		})
		s.apply(t, installations["commands in pods"])
		eventually(t, "the permission of commands", func(ctx context.Context) (bool, error) {
			err := exec(ctx)
			return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not have a host assigned"), nil
		})
	}
}

// connector returns what connects to an address of the API server, as a user.
func (s *suite) connector(t *testing.T, user, path string) func(context.Context) error {
	t.Helper()
	var groups []string
	if user != operator {
		groups = []string{"system:masters"}
	}
	config, err := s.plane.AddUser(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context) error { return c.Post().RequestURI(path).Do(ctx).Error() }
}

// testBackupsOnly asks what an operator may do that must not restore.
func (s *suite) testBackupsOnly(t *testing.T) {
	for _, command := range commands(section(t, document(t), "### What a component leaves behind")) {
		s.shell(t, command)
	}
	s.apply(t, installations["for backups only"])
	for _, subject := range []struct {
		verb, group, resource, namespace string
		allow                            bool
	}{
		{verb: "list", resource: "secrets", allow: true},
		{verb: "get", group: "example.io", resource: "anything", allow: true},
		{verb: "create", group: "batch", resource: "jobs", namespace: namespace, allow: true},
		{verb: "update", group: "grapnel.dev", resource: "restores/status", namespace: namespace, allow: true},
		{verb: "create", group: "batch", resource: "jobs", namespace: "default"},
		{verb: "create", resource: "configmaps", namespace: namespace, allow: true},
		{verb: "create", resource: "configmaps", namespace: "default"},
		{verb: "create", resource: "secrets", namespace: "default"},
		{verb: "patch", group: "apps", resource: "deployments", namespace: "default"},
		{verb: "delete", resource: "pods", namespace: "default"},
		{verb: "create", resource: "pods/exec", namespace: "default"},
		{verb: "create", resource: "serviceaccounts/token", namespace: "default"},
		{verb: "bind", group: "rbac.authorization.k8s.io", resource: "clusterroles"},
	} {
		s.wantAccess(t, subject.allow, reviewOf(subject.verb, subject.group, subject.resource, subject.namespace))
	}
}

func reviewOf(verb, group, resource, namespace string) authorizationv1.SubjectAccessReviewSpec {
	resource, below, _ := strings.Cut(resource, "/")
	return authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: verb, Group: group, Resource: resource, Subresource: below, Namespace: namespace,
	}}
}

// wantAccess asks the API server whether the operator may do something. It learns of roles
// from a watch, and so has to be asked again.
func (s *suite) wantAccess(t *testing.T, allow bool, spec authorizationv1.SubjectAccessReviewSpec) {
	t.Helper()
	spec.User = operator
	spec.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
	eventually(t, spec.String(), func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: spec}
		err := s.admin.Create(ctx, review)
		return review.Status.Allowed == allow, err
	})
}

// TestDocs_Kustomizations builds those that users copy.
func TestDocs_Kustomizations(t *testing.T) {
	t.Parallel()
	var found []string
	for _, path := range []string{"../docs/installation.md", "../docs/guides/operate.md", "../docs/guides/volumes.md"} {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		here := blocks(string(content), "kustomization")
		if len(here) == 0 {
			t.Errorf("%s has no kustomization", path)
		}
		found = append(found, here...)
	}
	for _, text := range found {
		manifests, err := kustomize(t, writeKustomization(t, text))
		if err != nil {
			t.Error(err)
		}
		for _, flag := range regexp.MustCompile(`--[a-z-]+=\w+`).FindAllString(text, -1) {
			if !strings.Contains(manifests, "- "+flag+"\n") {
				t.Errorf("the operator does not get %s", flag)
			}
		}
		if strings.Contains(text, "200Gi") != strings.Contains(manifests, "storage: 200Gi") {
			t.Error("the claim is not patched")
		}
		if strings.Contains(manifests, "image: grapnel-plugin") {
			t.Error("the image of the plugin is not set")
		}
	}
}

// TestComponents_UsageComments checks for the lines that users copy.
func TestComponents_UsageComments(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("components/*/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(file))
		if !strings.Contains(string(content), "#\tcomponents:\n") || !strings.Contains(string(content), "../components/"+name) {
			t.Errorf("%s does not say how it is used", file)
		}
		if !strings.Contains(document(t), "| `"+name+"` | ") {
			t.Errorf("docs/installation.md does not name the component %s", name)
		}
	}
}
