// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/names"
	"github.com/grapnel-dev/grapnel/internal/operation"
)

// OperationDefaults configures how operations are watched. They apply where neither the run nor
// the Plugin sets a value.
type OperationDefaults struct {
	// Timeout is how long an operation may take; 4 hours by default, as in Velero.
	Timeout time.Duration
	// PollInterval is the time between two requests for the progress of an operation; 10
	// seconds by default, as in Velero.
	PollInterval time.Duration
	// CancelTimeout is how long an operation has to end after its Cancel. After that, the Cancel
	// counts as unconfirmed; 5 minutes by default.
	CancelTimeout time.Duration
}

// WithDefaults returns the settings with zero values replaced by defaults.
func (o OperationDefaults) WithDefaults() OperationDefaults {
	return OperationDefaults{
		Timeout: cmp.Or(o.Timeout, 4*time.Hour), PollInterval: cmp.Or(o.PollInterval, 10*time.Second),
		CancelTimeout: cmp.Or(o.CancelTimeout, operation.DefaultConfirmTimeout),
	}
}

// Validate returns an error that names the flag of the first invalid setting.
func (o OperationDefaults) Validate() error {
	switch {
	case o.Timeout <= 0:
		return fmt.Errorf("--default-item-operation-timeout is %s: it must be longer than zero", o.Timeout)
	case o.PollInterval < minPollInterval || o.PollInterval > maxPollInterval:
		return fmt.Errorf("--item-operation-poll-interval is %s: it must be between %s and %s", o.PollInterval, minPollInterval, maxPollInterval)
	case o.Timeout > maxDuration:
		return fmt.Errorf("--default-item-operation-timeout is %s: it must be %s at most", o.Timeout, maxDuration)
	case o.CancelTimeout < time.Second:
		return fmt.Errorf("--item-operation-cancel-timeout is %s: it must be at least 1s", o.CancelTimeout)
	}
	return nil
}

// The bounds of the poll interval that an action may request.
const (
	minPollInterval = 100 * time.Millisecond
	maxPollInterval = 24 * time.Hour
)

// recordRetryInterval is the time between two attempts to record an operation.
const recordRetryInterval = 500 * time.Millisecond

// NewOperationRecorder returns a function that creates the AsyncOperation of an operation that
// an action started. It belongs to the attempt that starts in this pass. The function retries
// transient errors until ctx ends. It is safe for concurrent use, and idempotent for the same
// operation.
func (d *Driver[T]) NewOperationRecorder(s *Scope[T]) func(context.Context, itemaction.Operation) error {
	owner := deepCopyOf(s.Object)
	return func(ctx context.Context, started itemaction.Operation) error {
		operation := d.newAsyncOperation(owner, started)
		if err := controllerutil.SetControllerReference(owner, operation, d.Client.Scheme()); err != nil {
			return fmt.Errorf("setting the owner of AsyncOperation %s: %w", operation.Name, err)
		}
		var last error
		err := wait.PollUntilContextCancel(ctx, recordRetryInterval, true, func(ctx context.Context) (bool, error) {
			last = d.Client.Create(ctx, operation.DeepCopy())
			switch {
			case last == nil, apierrors.IsAlreadyExists(last): // the name is derived from this operation
				return true, nil
			case apierrors.IsInvalid(last), apierrors.IsForbidden(last), apierrors.IsNotFound(last), apierrors.IsBadRequest(last):
				return false, last
			}
			return false, nil
		})
		if err != nil {
			return fmt.Errorf("creating AsyncOperation %s: %w", operation.Name, last)
		}
		return nil
	}
}

// newAsyncOperation returns the AsyncOperation of an operation that an action started.
func (d *Driver[T]) newAsyncOperation(o T, started itemaction.Operation) *v1alpha1.AsyncOperation {
	attempt := max(o.Run().Attempts, 1)
	item := v1alpha1.OperationItem{
		Group: started.Resource.Group, Version: started.Resource.Version, Resource: started.Resource.Resource,
		Namespace: started.Namespace, Name: started.Name,
	}
	var postItems []v1alpha1.OperationItem
	for _, related := range started.PostItems {
		postItems = append(postItems, v1alpha1.OperationItem{
			Group: related.Resource.Group, Resource: related.Resource.Resource, Namespace: related.Namespace, Name: related.Name,
		})
	}
	spec := v1alpha1.AsyncOperationSpec{
		ParentRef:  v1alpha1.ParentReference{Kind: d.Kind.Name, Name: o.GetName(), UID: string(o.GetUID())},
		Kind:       v1alpha1.ActionKind(started.Kind),
		ActionName: started.Action, PluginRef: v1alpha1.PluginReference{Name: started.Plugin},
		OperationID: started.ID, Item: item, PostOperationItems: postItems, Attempt: attempt,
		DesiredState: v1alpha1.DesiredStateRun,
	}
	d.applyOperationPolicy(&spec, o, started)
	return &v1alpha1.AsyncOperation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.GetNamespace(),
			Name: names.ChildName(o.GetName()+"-"+item.Name, maxChildNameLength, string(o.GetUID()), fmt.Sprint(attempt), started.Kind, started.Action,
				item.Group, item.Version, item.Resource, item.Namespace, item.Name, started.ID),
			Labels: map[string]string{
				d.Kind.NameLabel:        names.LabelValue(o.GetName()),
				v1alpha1.LabelParentUID: string(o.GetUID()),
			},
			Finalizers: []string{v1alpha1.FinalizerAsyncOperation},
		},
		Spec: spec,
	}
}

// applyOperationPolicy sets how an operation is watched. The run takes precedence over the
// Plugin, and the Plugin over the defaults.
func (d *Driver[T]) applyOperationPolicy(spec *v1alpha1.AsyncOperationSpec, o T, started itemaction.Operation) {
	spec.Timeout.Duration, spec.PollInterval.Duration = d.Operations.Timeout, d.Operations.PollInterval
	for _, planned := range o.Run().ItemActions {
		policy := planned.Operation
		if policy == nil || planned.Name != started.Action || planned.Kind != spec.Kind {
			continue
		}
		if policy.Timeout != nil {
			spec.Timeout = *policy.Timeout
		}
		if policy.PollInterval != nil {
			spec.PollInterval = *policy.PollInterval
		}
		spec.StallTimeout = policy.StallTimeout
	}
	if timeout := o.OperationTimeout(); timeout > 0 {
		spec.Timeout.Duration = timeout
	}
	if started.PollInterval > 0 {
		spec.PollInterval.Duration = min(max(started.PollInterval, minPollInterval), maxPollInterval)
	}
	spec.Timeout.Duration, spec.PollInterval.Duration = clampDuration(spec.Timeout.Duration), clampDuration(spec.PollInterval.Duration)
}

// listOperations returns the AsyncOperations of a run. It separates those of an earlier attempt
// that was repeated. The caller must not change them.
func (d *Driver[T]) listOperations(ctx context.Context, o T) (current, repeated []v1alpha1.AsyncOperation, err error) {
	var list v1alpha1.AsyncOperationList
	err = d.Client.List(ctx, &list, client.UnsafeDisableDeepCopy, client.InNamespace(o.GetNamespace()),
		client.MatchingLabels{v1alpha1.LabelParentUID: string(o.GetUID())})
	if err != nil {
		return nil, nil, fmt.Errorf("listing the AsyncOperations: %w", err)
	}
	current, repeated = d.Kind.splitByAttempt(list.Items, o.Run().Attempts)
	return current, repeated, nil
}

// splitByAttempt separates the operations that count from those that a later attempt repeated.
// An archive is recreated as a whole. A restore continues, and calls actions only for objects
// that are not restored yet. The function reuses the slice.
func (k KindTraits) splitByAttempt(all []v1alpha1.AsyncOperation, attempt int32) (current, repeated []v1alpha1.AsyncOperation) {
	// The cache may show an older version of the Backup, from before its last attempt.
	counts := func(o *v1alpha1.AsyncOperation) bool { return o.Spec.Attempt >= attempt }
	if k.Name == RestoreKind.Name {
		newest := latestAttempts(all)
		counts = func(o *v1alpha1.AsyncOperation) bool { return o.Spec.Attempt == newest[operationKeyFor(o)] }
	}
	current = all[:0] // there may be ten thousand, of a kilobyte each
	for i := range all {
		if counts(&all[i]) {
			current = append(current, all[i])
		} else {
			repeated = append(repeated, all[i])
		}
	}
	return current, repeated
}

// operationKey identifies the work that one action started for one object.
type operationKey struct {
	kind   v1alpha1.ActionKind
	action string
	item   v1alpha1.OperationItem
}

func operationKeyFor(o *v1alpha1.AsyncOperation) operationKey {
	return operationKey{o.Spec.Kind, o.Spec.ActionName, o.Spec.Item}
}

// latestAttempts returns the last attempt in which each piece of work was started.
func latestAttempts(all []v1alpha1.AsyncOperation) map[operationKey]int32 {
	newest := map[operationKey]int32{}
	for i := range all {
		newest[operationKeyFor(&all[i])] = max(newest[operationKeyFor(&all[i])], all[i].Spec.Attempt)
	}
	return newest
}
