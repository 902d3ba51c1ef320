// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package veleromigration

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupimport"
)

// VeleroAPIVersion is that of the objects that are converted.
const VeleroAPIVersion = "velero.io/v1"

// The kinds that are converted, in the order of the result.
const (
	kindSecret   = "Secret"
	kindLocation = "BackupStorageLocation"
	kindSchedule = "Schedule"
	kindBackup   = "Backup"
	kindRestore  = "Restore"
)

// Options are settings of a conversion.
type Options struct {
	// Namespace is that of the converted objects.
	Namespace string
	// IncludeSecrets converts the Secrets of locations, too.
	IncludeSecrets bool
}

// refusal is the error of an object that cannot be converted, while others can.
type refusal struct{ reason string }

// Error implements error.
func (r *refusal) Error() string { return r.reason }

// migration is what the conversions of all objects share.
type migration struct {
	Options
	secrets *secretUses
	// templates has the name of the Backup with each spec, to convert only one of them.
	templates map[string]string
}

// Convert converts objects. The result has a Conversion for each input, in an order in which the converted objects can be
// created. It returns an error if an object of Velero is invalid, or if two objects would get the same name.
func Convert(inputs []Input, options Options) ([]Conversion, error) {
	inputs = slices.Clone(inputs)
	slices.SortStableFunc(inputs, func(a, b Input) int {
		return cmp.Or(cmp.Compare(conversionOrder(a.Object), conversionOrder(b.Object)), strings.Compare(a.Object.GetName(), b.Object.GetName()))
	})
	m := &migration{Options: options, secrets: newSecretUses(inputs), templates: map[string]string{}}
	var secrets, others []Conversion
	for _, input := range inputs {
		if isSecret(input.Object) {
			continue // until the locations are converted, which use it
		}
		conversion, err := m.convertObject(input)
		if err != nil {
			return nil, fmt.Errorf("%s: %s %s: %w", input.Source, input.Object.GetKind(), objectName(input.Object), err)
		}
		others = append(others, conversion)
	}
	for _, input := range inputs {
		if isSecret(input.Object) {
			secrets = append(secrets, m.convertSecret(input))
		}
	}
	conversions := append(secrets, others...)
	return conversions, checkUnique(conversions)
}

// isConverted reports whether objects of this kind are converted.
func isConverted(object *unstructured.Unstructured) bool {
	return conversionOrder(object) < unconvertedOrder
}

// unconvertedOrder is the conversionOrder of objects that are not converted.
const unconvertedOrder = 9

// conversionOrder returns the position of a kind in the result.
func conversionOrder(object *unstructured.Unstructured) int {
	kinds := []string{kindSecret, kindLocation, kindSchedule, kindBackup, kindRestore}
	order := slices.Index(kinds, object.GetKind())
	if isSecret(object) || order > 0 && object.GetAPIVersion() == VeleroAPIVersion {
		return order
	}
	return unconvertedOrder
}

func isSecret(object *unstructured.Unstructured) bool {
	return object.GetKind() == kindSecret && object.GetAPIVersion() == "v1"
}

// objectName returns namespace/name, or name for an object without a namespace.
func objectName(object *unstructured.Unstructured) string {
	if namespace := object.GetNamespace(); namespace != "" {
		return namespace + "/" + object.GetName()
	}
	return object.GetName()
}

// checkUnique returns an error if two converted objects have the same name.
func checkUnique(conversions []Conversion) error {
	sources := map[string]string{}
	for i := range conversions {
		for _, object := range conversions[i].Objects {
			key := object.GetKind() + " " + object.GetName()
			if other, found := sources[key]; found {
				return fmt.Errorf("%s and %s both become %s; convert them apart, or rename one", other, conversions[i].Source, key)
			}
			sources[key] = conversions[i].Source
		}
	}
	return nil
}

// convertObject converts an object that is no Secret.
func (m *migration) convertObject(input Input) (Conversion, error) {
	l := newLedger(input.Object.Object)
	result := Conversion{Input: input}
	object, err := m.convertKind(l, input.Object)
	if refused, ok := errors.AsType[*refusal](err); ok {
		l.decideAll(OutcomeLost, "")
		result.Reason, result.Fields = refused.reason, l.listFields()
		return result, nil
	}
	if err != nil {
		return result, err
	}
	if object == nil { // Grapnel needs no such object
		l.decideAll(OutcomeChanged, "")
		result.Reason = m.explainUnneeded(input.Object)
	} else {
		result.Objects = []*unstructured.Unstructured{object}
	}
	result.Fields = l.listFields()
	return result, nil
}

// convertKind converts an object of any kind; it returns nil if Grapnel needs no such object.
func (m *migration) convertKind(l *ledger, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if !isConverted(object) {
		return nil, &refusal{explainKind(object)}
	}
	var typed any
	var err error
	switch object.GetKind() {
	case kindLocation:
		typed, err = &v1alpha1.BackupStorageLocation{}, m.convertLocation(l, object)
	case kindSchedule:
		typed, err = &v1alpha1.Schedule{}, m.convertSchedule(l)
	case kindBackup:
		if m.explainUnneeded(object) != "" {
			return nil, nil
		}
		typed, err = &v1alpha1.Backup{}, m.convertBackup(l, object)
	default:
		typed, err = &v1alpha1.Restore{}, m.convertRestore(l)
	}
	if err != nil {
		return nil, err
	}
	return m.newObject(l, object, typed)
}

// newObject returns the converted object, without the fields that its type does not have.
func (m *migration) newObject(l *ledger, object *unstructured.Unstructured, typed any) (*unstructured.Unstructured, error) {
	if err := m.convertMetadata(l, object.GetKind()); err != nil {
		return nil, err
	}
	l.decideField("status", OutcomeChanged, "the converted object has its own status")
	encoded, err := json.Marshal(l.target)
	if err != nil {
		return nil, err
	}
	if err := json.NewDecoder(bytes.NewReader(encoded)).Decode(typed); err != nil {
		return nil, fmt.Errorf("it is not valid: %w", err)
	}
	known, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, err
	}
	l.loseUnknown(known)
	return &unstructured.Unstructured{Object: l.target}, nil
}

// convertMetadata converts what all objects have.
func (m *migration) convertMetadata(l *ledger, kind string) error {
	if err := l.changeField("apiVersion", "apiVersion", v1alpha1.GroupVersion.String(), "it is an object of Grapnel"); err != nil {
		return err
	}
	if err := l.keepField("kind", "kind"); err != nil {
		return err
	}
	if _, isRenamed := l.decided["metadata.name"]; !isRenamed {
		if err := l.keepField("metadata.name", "metadata.name"); err != nil {
			return err
		}
	}
	const namespace = "metadata.namespace"
	if l.fieldText(namespace) == m.Namespace {
		if err := l.keepField(namespace, namespace); err != nil {
			return err
		}
	} else if err := l.changeField(namespace, namespace, m.Namespace, "it is in the namespace of Grapnel's operator"); err != nil {
		return err
	}
	for _, field := range []string{"labels", "annotations"} {
		if err := l.keepMetadata("metadata."+field, "metadata."+field); err != nil {
			return err
		}
		if kind == kindSchedule {
			if err := l.copyToTemplate(field); err != nil {
				return err
			}
		}
	}
	l.loseField("metadata.ownerReferences", "the owner is an object beside Velero's; set it again if it is to own the converted one")
	for _, field := range []string{
		"generateName", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
		"managedFields", "selfLink", "finalizers",
	} {
		l.decideField("metadata."+field, OutcomeChanged, "the API server or the operator sets it")
	}
	return nil
}

// keepMetadata copies labels or annotations, but those that only have a meaning for the object of Velero.
func (l *ledger) keepMetadata(from, to string) error {
	all, _ := l.fieldValue(from).(map[string]any)
	kept := map[string]any{}
	for key, value := range all {
		if !backupimport.IsAllowedKey(key) {
			l.decideField(joinPath(from, key), OutcomeChanged, "Velero, Grapnel or a GitOps tool finds its own objects by it")
			continue
		}
		kept[key] = value
	}
	if len(kept) == 0 {
		l.decideField(from, OutcomeKept, "")
		return nil
	}
	return l.keepAs(from, to, kept)
}

// copyToTemplate gives the Backups of a Schedule its labels or annotations, as Velero does.
func (l *ledger) copyToTemplate(field string) error {
	kept, found, _ := unstructured.NestedMap(l.target, "metadata", field)
	target := "spec.template.metadata." + field
	if _, isSet, _ := unstructured.NestedFieldNoCopy(l.target, strings.Split(target, ".")...); !found || isSet {
		return nil
	}
	l.addFieldNote(target, "the Backups of a Schedule have its "+field+", as in Velero")
	return l.setField(target, kept)
}

// explainKind says what to do with an object of a kind that Grapnel does not have.
func explainKind(object *unstructured.Unstructured) string {
	group, _, _ := strings.Cut(object.GetAPIVersion(), "/")
	switch {
	case group != "velero.io":
		return "it is not an object of Velero; if it is still needed, it stays as it is"
	case object.GetKind() == "VolumeSnapshotLocation":
		return "Grapnel has no such locations; " + volumeNote
	}
	return "Grapnel has no such object; Velero creates it for its own work"
}
