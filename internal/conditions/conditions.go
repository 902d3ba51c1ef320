// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/text"
)

// Object is any kind with conditions.
type Object interface {
	metav1.Object
	GetConditions() []metav1.Condition
	SetConditions([]metav1.Condition)
	// ObservedGeneration returns a pointer to status.observedGeneration.
	ObservedGeneration() *int64
}

// The condition types of kstatus. The API repeats them for its readers; this
// package works for any kind and depends on none.
const (
	conditionReady       = "Ready"
	conditionReconciling = "Reconciling"
	conditionStalled     = "Stalled"
)

// maxMessageBytes is the limit of the API for the message of a condition.
const maxMessageBytes = 32768

// Set sets one condition for the object's current generation. A message that is
// longer than the API allows is truncated.
func Set(obj Object, conditionType string, status metav1.ConditionStatus, reason, message string) {
	list := obj.GetConditions()
	meta.SetStatusCondition(&list, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: text.Truncate(message, maxMessageBytes),
		ObservedGeneration: obj.GetGeneration(),
	})
	obj.SetConditions(list)
}

// Get returns a condition, or nil.
func Get(obj Object, conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(obj.GetConditions(), conditionType)
}

// IsTrue reports whether a condition is True, for any generation.
func IsTrue(obj Object, conditionType string) bool {
	return meta.IsStatusConditionTrue(obj.GetConditions(), conditionType)
}

// State is the state of an object, in kstatus terms.
type State int

// The states of an object.
const (
	// InProgress: the operator works on the object, or waits for something.
	InProgress State = iota
	// Current: done, and all is well.
	Current
	// Stalled: the object makes no progress by itself.
	Stalled
	// StalledRetrying: the object is overdue, but still retried.
	StalledRetrying
)

// ObserveGeneration records that the status, with all of its conditions, is about the object's current
// generation.
func ObserveGeneration(obj Object) {
	*obj.ObservedGeneration() = obj.GetGeneration()
	list := obj.GetConditions()
	for i := range list {
		list[i].ObservedGeneration = obj.GetGeneration()
	}
}

// SetSummary sets Ready, Reconciling and Stalled for a state, and the observed generation of the status.
func SetSummary(obj Object, state State, reason, message string) {
	status := func(is bool) metav1.ConditionStatus {
		if is {
			return metav1.ConditionTrue
		}
		return metav1.ConditionFalse
	}
	*obj.ObservedGeneration() = obj.GetGeneration()
	Set(obj, conditionReady, status(state == Current), reason, message)
	Set(obj, conditionReconciling, status(state == InProgress), reason, message)
	Set(obj, conditionStalled, status(state == Stalled || state == StalledRetrying), reason, message)
}
