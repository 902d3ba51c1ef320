// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// servedResource is a resource that the API server serves.
type servedResource struct {
	schema.GroupVersionResource

	verbs metav1.Verbs
}

// listServed returns all resources that are served, without sub-resources.
func listServed(s *Snapshot) []servedResource {
	var all []servedResource
	for _, list := range s.Served {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // no group has such a name
		}
		for i := range list.APIResources {
			if r := &list.APIResources[i]; !strings.Contains(r.Name, "/") {
				all = append(all, servedResource{gv.WithResource(r.Name), r.Verbs})
			}
		}
	}
	return all
}

// checkDefinitions checks that the API server serves all kinds. Everyone who is logged in may see that.
func checkDefinitions(s *Snapshot, r *report) {
	ours := map[string]servedResource{}
	other := map[string]string{}
	for _, served := range listServed(s) {
		switch served.GroupVersion() {
		case v1alpha1.GroupVersion:
			ours[served.Resource] = served
		case schema.GroupVersion{Group: v1alpha1.GroupVersion.Group, Version: served.Version}:
			other[served.Resource] = served.Version
		}
	}
	if len(ours)+len(other) == 0 && s.Failed[v1alpha1.GroupVersion] == nil {
		r.addFinding(Error, "install it, or choose another context with --context", "the cluster has no Grapnel")
		return
	}
	for _, resource := range KnownResources() {
		name := resource.Name + "." + v1alpha1.GroupVersion.Group
		served, isServed := ours[resource.Name]
		switch {
		case isServed && !slices.Contains(served.verbs, "create"):
			// The API server offers no other verbs for a CRD that is terminating.
			r.addFinding(Error, seeOperatorGone, "CRD %s is being deleted, and all its objects with it", name)
		case !isServed && other[resource.Name] != "":
			r.addFinding(Error, "use a command line of the operator's version", "CRD %s is served as %s, not as %s",
				name, other[resource.Name], v1alpha1.GroupVersion.Version)
		case !isServed:
			r.addFinding(Error, "apply the CRDs of the operator's version (config/crd)", "CRD %s is missing", name)
		}
	}
	r.summary = fmt.Sprintf("all %d kinds are served as %s", len(KnownResources()), v1alpha1.GroupVersion)
}

// checkGroups checks that the API server knows what all API groups serve.
func checkGroups(s *Snapshot, r *report) {
	for _, gv := range slices.SortedFunc(maps.Keys(s.Failed), func(a, b schema.GroupVersion) int { return cmp.Compare(a.String(), b.String()) }) {
		r.addFinding(Warning, "fix or delete its APIService; until then, backups that include it are PartiallyFailed", "API %s does not answer: %v", gv, s.Failed[gv])
	}
	r.summary = "all API groups answer"
}

// checkNames checks whether other products have resources of the same names.
func checkNames(s *Snapshot, r *report) {
	shared := map[string][]string{}
	for _, served := range listServed(s) {
		isOurs := func(resource Resource) bool { return resource.Name == served.Resource }
		if served.Group != v1alpha1.GroupVersion.Group && slices.ContainsFunc(KnownResources(), isOurs) {
			shared[served.Group] = append(shared[served.Group], served.Resource)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(shared)) {
		resources := slices.Compact(slices.Sorted(slices.Values(shared[group])))
		r.addFinding(Note, "write "+resources[0]+"."+v1alpha1.GroupVersion.Group+", or use kubectl grapnel",
			"the API group %s has %s, too, which kubectl get may show instead", group, strings.Join(resources, ", "))
	}
	r.summary = "no other API group has resources of the same names"
}

// maxClockSkew is the difference of clocks from which on times that the command line shows are misleading.
const maxClockSkew = 30 * time.Second

// checkClock compares the clock of this machine with that of the API server.
func checkClock(s *Snapshot, r *report) {
	if err := s.ServerTime.Err; err != nil {
		r.addFinding(Note, "", "not checked: %v", err)
		return
	}
	if skew := s.ClockSkew.Round(time.Second); skew.Abs() > maxClockSkew {
		direction := "ahead of"
		if skew < 0 {
			direction = "behind"
		}
		r.addFinding(Note, "set the clock that is wrong; see docs/guides/troubleshoot.md#when-a-clock-is-wrong",
			"the clock of this machine is %s %s that of the API server", skew.Abs(), direction)
	}
	r.summary = "this machine and the API server agree on the time"
}

// checkOperator checks that the operator's pods are available.
func checkOperator(s *Snapshot, r *report) {
	if r.addUnread(s.Deployments.Err, "list deployments") {
		return
	}
	if len(s.Deployments.Value.Items) == 0 {
		r.addFinding(Error, "install it, or set --namespace to that of the operator", "namespace %s has no Deployment of the operator", s.Namespace)
	}
	var healthy []string
	for i := range s.Deployments.Value.Items {
		d := &s.Deployments.Value.Items[i]
		wanted := int32(1)
		if d.Spec.Replicas != nil {
			wanted = *d.Spec.Replicas
		}
		available := d.Status.AvailableReplicas
		switch state := fmt.Sprintf("Deployment %s: %d of %d replicas are available", d.Name, available, wanted); {
		case wanted == 0:
			r.addFinding(Error, "scale it to 1", "Deployment %s is scaled to 0: nothing runs", d.Name)
		case available == 0:
			r.addFinding(Error, "check its pods; "+seeInstallation, "%s%s", state, deploymentProblem(d))
		case available < wanted:
			r.addFinding(Warning, "check its pods; "+seeInstallation, "%s%s", state, deploymentProblem(d))
		default:
			healthy = append(healthy, state)
		}
	}
	r.summary = strings.Join(healthy, ", ")
}

// deploymentProblem returns why a Deployment has no pods, if it says so.
func deploymentProblem(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		isProblem := c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue ||
			c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse
		if isProblem {
			return ": " + c.Message
		}
	}
	return ""
}

// OperatorImage returns the image of the operator; empty if a Deployment has none.
func OperatorImage(d *appsv1.Deployment) string {
	containers := d.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return ""
	}
	const operator = "manager"
	named := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == operator })
	return containers[max(named, 0)].Image
}

// imageVersion returns the version in the tag of an image; empty if the tag is none.
func imageVersion(image string) string {
	image, _, _ = strings.Cut(image, "@")
	tag := image[strings.LastIndex(image, "/")+1:]
	_, tag, _ = strings.Cut(tag, ":")
	return tag
}

// checkVersion compares the version of the operator, which is the tag of its image, with that of the command line.
func checkVersion(s *Snapshot, r *report) {
	if r.addUnread(s.Deployments.Err, "list deployments") {
		return
	}
	r.summary = "not checked: there is no Deployment of the operator"
	for i := range s.Deployments.Value.Items {
		image := OperatorImage(&s.Deployments.Value.Items[i])
		operator, operatorErr := version.ParseGeneric(imageVersion(image))
		ours, err := version.ParseGeneric(s.ClientVersion)
		switch {
		case operatorErr != nil || err != nil:
			r.addFinding(Note, "", "not compared: the image of the operator is %s, the command line is %s", image, s.ClientVersion)
		case operator.Major() != ours.Major() || operator.Minor() != ours.Minor():
			r.addFinding(Warning, "use a command line of the operator's version", "the operator is %s, the command line is %s", imageVersion(image), s.ClientVersion)
		default:
			r.summary = fmt.Sprintf("the operator is %s, the command line is %s", imageVersion(image), s.ClientVersion)
		}
	}
}

// checkLeader checks that an operator is active.
func checkLeader(s *Snapshot, r *report) {
	l := &s.Lease.Value
	switch {
	case apierrors.IsNotFound(s.Lease.Err):
		r.addFinding(Warning, "check the operator's pods and that it has --leader-elect; "+seeInstallation, "namespace %s has no lease of an operator", s.Namespace)
		return
	case r.addUnread(s.Lease.Err, "get leases"):
		return
	case l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil:
		r.addFinding(Error, "check the operator's pods; "+seeInstallation, "no operator is active: lease %s has no holder", l.Name)
		return
	}
	// Between two renewals of a healthy leader is less than the duration.
	renewed := s.timeSince(l.Spec.RenewTime.Time)
	if renewed > time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second {
		r.addFinding(Error, "check the operator's pods; "+seeInstallation,
			"no operator is active: %s renewed lease %s %s ago", *l.Spec.HolderIdentity, l.Name, renewed)
	}
	r.summary = *l.Spec.HolderIdentity + " is active"
}

// checkPolicies checks that all ValidatingAdmissionPolicies are there, and enforced.
func checkPolicies(s *Snapshot, r *report) {
	if r.addUnread(s.Policies.Err, "list validatingadmissionpolicies") || r.addUnread(s.Bindings.Err, "list validatingadmissionpolicybindings") {
		return
	}
	const action = "apply the operator's config/policy; see docs/security.md#what-the-policies-do"
	for _, name := range PolicyNames() {
		policy := slices.IndexFunc(s.Policies.Value.Items, func(p admissionv1.ValidatingAdmissionPolicy) bool { return p.Name == name })
		binding := slices.IndexFunc(s.Bindings.Value.Items, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool { return b.Spec.PolicyName == name })
		switch {
		case policy < 0:
			r.addFinding(Warning, action, "ValidatingAdmissionPolicy %s is missing", name)
			continue
		case binding < 0:
			r.addFinding(Warning, action, "ValidatingAdmissionPolicy %s has no binding", name)
		case !slices.Contains(s.Bindings.Value.Items[binding].Spec.ValidationActions, admissionv1.Deny) && name != "grapnel-no-exec":
			// config/components/pod-exec lets that policy only audit.
			r.addFinding(Warning, action, "ValidatingAdmissionPolicyBinding %s denies nothing", s.Bindings.Value.Items[binding].Name)
		}
		if checked := s.Policies.Value.Items[policy].Status.TypeChecking; checked != nil && len(checked.ExpressionWarnings) > 0 {
			r.addFinding(Warning, action, "ValidatingAdmissionPolicy %s: %s", name, checked.ExpressionWarnings[0].Warning)
		}
	}
	r.summary = fmt.Sprintf("all %d policies are enforced", len(PolicyNames()))
}

// checkDownloads checks that there is the Service through which files come.
func checkDownloads(s *Snapshot, r *report) {
	if apierrors.IsNotFound(s.Downloads.Err) {
		r.addFinding(Warning, "apply the operator's config/manager; see docs/spec/downloadrequest.md",
			"the Service of downloads is missing: kubectl grapnel logs, results, ls, find, cat, download, plan restore and diff do not work")
		return
	}
	if r.addUnread(s.Downloads.Err, "get services") {
		return
	}
	r.summary = "Service " + s.Downloads.Value.Name + " exists"
}
