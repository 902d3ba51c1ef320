// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/job"
)

// newJobExecutor returns the executor of an action that runs as a Job.
func (b *Builder) newJobExecutor(a action) (executor.Executor, error) {
	from := a.plugin.Spec.Executor.Job
	options := job.Options{
		Client: b.Client, Logs: b.Logs, Redactor: b.Redactor, Plugin: a.plugin.Name,
		Namespace: cmp.Or(from.Namespace, b.Namespace), ServiceAccountName: from.ServiceAccountName,
		Image: from.Image, PullPolicy: corev1.PullPolicy(from.ImagePullPolicy), Command: a.commandOrDefault(from.Command),
		NodeSelector: map[string]string{}, RunAsUser: from.RunAsUser,
	}
	for key, value := range from.NodeSelector {
		options.NodeSelector[key] = string(value)
	}
	for _, secret := range from.ImagePullSecrets {
		options.PullSecrets = append(options.PullSecrets, corev1.LocalObjectReference{Name: secret.Name})
	}
	for _, v := range from.Env {
		variable := corev1.EnvVar{Name: v.Name, Value: v.Value}
		if ref := v.SecretKeyRef; ref != nil {
			variable.ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: ref.Name}, Key: ref.Key,
			}}
		}
		options.Env = append(options.Env, variable)
	}
	if from.Resources != nil {
		options.Resources.Limits = toResourceList(from.Resources.Limits)
		options.Resources.Requests = toResourceList(from.Resources.Requests)
	}
	if from.StartTimeout != nil {
		options.StartTimeout = from.StartTimeout.Duration
	}
	return job.New(options)
}

func toResourceList(from map[string]resource.Quantity) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, quantity := range from {
		list[corev1.ResourceName(name)] = quantity
	}
	return list
}
