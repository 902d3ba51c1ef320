// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// parameterClass names the class for all drivers; with a dot and the name of a driver behind
	// it, for that driver.
	parameterClass = "volumeSnapshotClass"
	// parameterGroupClass is the same for VolumeGroupSnapshotClasses.
	parameterGroupClass = "volumeGroupSnapshotClass"
)

const (
	annotationDefaultClass      = "snapshot.storage.kubernetes.io/is-default-class"
	annotationDefaultGroupClass = "groupsnapshot.storage.kubernetes.io/is-default-class"
)

// classLabels returns the labels that select a class for backups: Grapnel's, and Velero's.
func classLabels() []string {
	return []string{"grapnel.dev/volume-snapshot-class", "velero.io/csi-volumesnapshot-class"}
}

// snapshotClass is what the choice of a class depends on, of a VolumeSnapshotClass or
// VolumeGroupSnapshotClass.
type snapshotClass struct {
	name, driver string
	isDefault    bool
	isLabeled    bool
}

func newSnapshotClass(meta *metav1.ObjectMeta, driver, defaultAnnotation string) snapshotClass {
	return snapshotClass{
		name: meta.Name, driver: driver, isDefault: meta.Annotations[defaultAnnotation] == "true",
		isLabeled: slices.ContainsFunc(classLabels(), func(key string) bool { return meta.Labels[key] == "true" }),
	}
}

// observedClasses are the VolumeSnapshotClasses of the cluster. notServed is set if the cluster
// does not serve the API.
type observedClasses struct {
	classes   []snapshotClass
	notServed bool
}

// observeClasses reads the VolumeSnapshotClasses.
func (c *cluster) observeClasses(ctx context.Context) (observedClasses, error) {
	return c.classes.get(func() (observedClasses, error) {
		api, err := c.connect()
		if err != nil {
			return observedClasses{}, err
		}
		list, err := api.snapshots.SnapshotV1().VolumeSnapshotClasses().List(ctx, metav1.ListOptions{})
		switch {
		case isNotServed(err):
			return observedClasses{notServed: true}, nil
		case err != nil:
			return observedClasses{}, fmt.Errorf("listing VolumeSnapshotClasses: %w", err)
		}
		var observed observedClasses
		for i := range list.Items {
			class := &list.Items[i]
			observed.classes = append(observed.classes, newSnapshotClass(&class.ObjectMeta, class.Driver, annotationDefaultClass))
		}
		return observed, nil
	})
}

// getClass returns a VolumeSnapshotClass of a driver, nil if there is none of that name.
func (c *cluster) getClass(ctx context.Context, name, driver string) (*snapshotv1.VolumeSnapshotClass, error) {
	api, err := c.connect()
	if err != nil {
		return nil, err
	}
	class, err := getIfExists(ctx, api.snapshots.SnapshotV1().VolumeSnapshotClasses(), "VolumeSnapshotClass", name)
	if err != nil || class == nil || class.Driver != driver {
		return nil, err
	}
	return class, nil
}

// chooseClass chooses the class for a driver: the one that the parameters of the Backup name,
// or else the labeled one, the default one, or the only one. kind is the kind of the classes and
// parameter the name of the parameter. Without a class, it returns why, and what to do.
func chooseClass(kind, parameter string, classes []snapshotClass, driver string, parameters map[string]string) (class, why string) {
	classes = slices.DeleteFunc(slices.Clone(classes), func(c snapshotClass) bool { return c.driver != driver })
	for _, key := range []string{parameter + "." + driver, parameter} {
		name := parameters[key]
		switch {
		case name == "":
			continue
		case slices.ContainsFunc(classes, func(c snapshotClass) bool { return c.name == name }):
			return name, ""
		}
		return "", fmt.Sprintf("the parameter %s names %s %q, which does not exist or is not of the CSI driver %s: "+
			"correct spec.parameters of the Backup", key, kind, truncate(name), driver)
	}
	if len(classes) == 0 {
		return "", fmt.Sprintf("there is no %s of the CSI driver %s: create one if the driver can take snapshots, "+
			"or protect its volumes by other means", kind, driver)
	}
	for _, isPreferred := range []func(snapshotClass) bool{
		func(c snapshotClass) bool { return c.isLabeled },
		func(c snapshotClass) bool { return c.isDefault },
		func(snapshotClass) bool { return true },
	} {
		var preferred []string
		for _, c := range classes {
			if isPreferred(c) {
				preferred = append(preferred, c.name)
			}
		}
		switch len(preferred) {
		case 0:
			continue
		case 1:
			return preferred[0], ""
		}
		slices.Sort(preferred)
		return "", fmt.Sprintf("several %ses of the CSI driver %s could be used (%s): set the label %s: \"true\" on one of them, "+
			"or the parameter %s.%s of the Backup", kind, driver, joinSome(preferred), classLabels()[0], parameter, driver)
	}
	return "", ""
}

// joinSome joins names, but not too many.
func joinSome(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}

// truncate bounds text that comes from users, for messages.
func truncate(text string) string {
	const most = 300
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
