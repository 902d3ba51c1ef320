// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"math/rand/v2"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// words are what settings are made of: text as it compresses in real clusters.
const words = "cache timeout database primary replica endpoint region retry limit enabled level " +
	"warning queue worker session cookie domain backend frontend upstream metrics port token"

// text returns n settings, one a line.
func text(r *rand.Rand, n int) string {
	all := strings.Fields(words)
	var out strings.Builder
	for range n {
		a, b := all[r.IntN(len(all))], all[r.IntN(len(all))]
		fmt.Fprintf(&out, "%s.%s=%s-%x\n", a, b, all[r.IntN(len(all))], r.Uint32())
	}
	return out.String()
}

func random(r *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

func configMap(meta metav1.ObjectMeta, r *rand.Rand) client.Object {
	return &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{
		"application.properties": text(r, 10+r.IntN(40)),
		"logging.properties":     text(r, 5),
	}}
}

func secret(meta metav1.ObjectMeta, r *rand.Rand) client.Object {
	return &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{
		"username": []byte(meta.Name), "password": random(r, 24), "tls.key": random(r, 200+r.IntN(1200)),
	}}
}

func service(meta metav1.ObjectMeta, _ *rand.Rand) client.Object {
	return &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Selector: meta.Labels,
		Ports: []corev1.ServicePort{
			{Name: "http", Port: 80, TargetPort: intstr.FromString("http")},
			{Name: "metrics", Port: 9090, TargetPort: intstr.FromInt32(9090)},
		},
	}}
}

func serviceAccount(meta metav1.ObjectMeta, _ *rand.Rand) client.Object {
	return &corev1.ServiceAccount{ObjectMeta: meta}
}

func role(meta metav1.ObjectMeta, _ *rand.Rand) client.Object {
	return &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get", "patch"}},
	}}
}

func roleBinding(meta metav1.ObjectMeta, _ *rand.Rand) client.Object {
	return &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: "default"}},
	}
}

func deployment(meta metav1.ObjectMeta, r *rand.Rand) client.Object {
	replicas := r.Int32N(4)
	return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: meta.Labels},
		Template: template(meta, r),
	}}
}

func cronJob(meta metav1.ObjectMeta, r *rand.Rand) client.Object {
	pod := template(meta, r)
	pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	return &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{
		Schedule:    fmt.Sprintf("%d 3 * * *", r.IntN(60)),
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pod}},
	}}
}

// template returns typical pods: two containers with settings,
// resources and a mounted file.
func template(meta metav1.ObjectMeta, r *rand.Rand) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels},
		Spec: corev1.PodSpec{
			ServiceAccountName: "default",
			Containers: []corev1.Container{
				container("app", r), container("proxy", r),
			},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config-00000"}},
			}}},
		},
	}
}

func container(name string, r *rand.Rand) corev1.Container {
	c := corev1.Container{
		Name:  name,
		Image: fmt.Sprintf("registry.example.com/team/%s:v1.%d.%d", name, r.IntN(30), r.IntN(10)),
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config", ReadOnly: true}},
	}
	if name == "proxy" {
		c.Ports = nil // a port can have its name once in a pod
	}
	for i := range 6 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: strings.TrimSpace(text(r, 1))})
	}
	return c
}
