// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// waitForControllers waits until the controllers of Kubernetes are through, so that
// nothing depends on how fast they are. It returns the number of pods.
func (d *demo) waitForControllers(ctx context.Context, namespaces []string) (int32, error) {
	var pods int32
	var missing string
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (done bool, err error) {
		pods = 0
		for _, name := range namespaces {
			var made int32
			if made, missing, err = d.missingIn(ctx, name); err != nil || missing != "" {
				return false, err
			}
			pods += made
		}
		return true, nil
	})
	if err != nil {
		return 0, fmt.Errorf("waiting for the controllers of Kubernetes (%s): %w", missing, err)
	}
	return pods, nil
}

// missingIn returns what a namespace does not have yet, and its number of pods.
func (d *demo) missingIn(ctx context.Context, name string) (pods int32, missing string, err error) {
	var deployments appsv1.DeploymentList
	if err := d.client.List(ctx, &deployments, client.InNamespace(name)); err != nil {
		return 0, "", err
	}
	for _, deployment := range deployments.Items {
		pods += deployment.Status.Replicas
		if deployment.Status.Replicas != *deployment.Spec.Replicas {
			return 0, fmt.Sprintf("%s has not all pods of %s", name, deployment.Name), nil
		}
	}
	var services corev1.ServiceList
	if err := d.client.List(ctx, &services, client.InNamespace(name)); err != nil {
		return 0, "", err
	}
	for kind, wanted := range map[schema.GroupVersionKind]int{
		corev1.SchemeGroupVersion.WithKind("EndpointsList"):          len(services.Items),
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSliceList"): len(services.Items),
		// The account "default" and the ConfigMap with the certificate.
		corev1.SchemeGroupVersion.WithKind("ServiceAccountList"): 1,
		corev1.SchemeGroupVersion.WithKind("ConfigMapList"):      1,
	} {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(kind)
		if err := d.client.List(ctx, &list, client.InNamespace(name)); err != nil {
			return 0, "", err
		}
		made := slices.DeleteFunc(list.Items, func(object metav1.PartialObjectMetadata) bool { return !isMadeByController(kind.Kind, object.Name) })
		if len(made) < wanted {
			return 0, fmt.Sprintf("%s has a %s of %d, want %d", name, kind.Kind, len(made), wanted), nil
		}
	}
	return pods, "", nil
}

// isMadeByController reports whether a controller makes an object of that name.
func isMadeByController(list, name string) bool {
	switch list {
	case "ServiceAccountList":
		return name == "default"
	case "ConfigMapList":
		return name == "kube-root-ca.crt"
	}
	return true
}
