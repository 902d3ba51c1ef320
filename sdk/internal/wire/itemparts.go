// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/grapnel-dev/grapnel/sdk/item"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
)

// SelectorTo returns the message for a selector.
func SelectorTo(in item.Selector) *itempb.AppliesToResponse {
	return &itempb.AppliesToResponse{Selector: &itempb.ResourceSelector{
		IncludedNamespaces: in.IncludedNamespaces, ExcludedNamespaces: in.ExcludedNamespaces,
		IncludedResources: in.IncludedResources, ExcludedResources: in.ExcludedResources,
		Selector: in.LabelSelector,
	}}
}

// SelectorFrom is the reverse of SelectorTo.
func SelectorFrom(in *itempb.AppliesToResponse) item.Selector {
	selector := in.GetSelector()
	return item.Selector{
		IncludedNamespaces: selector.GetIncludedNamespaces(), ExcludedNamespaces: selector.GetExcludedNamespaces(),
		IncludedResources: selector.GetIncludedResources(), ExcludedResources: selector.GetExcludedResources(),
		LabelSelector: selector.GetSelector(),
	}
}

// RefsTo returns the messages for names of objects. The error says which list is too long.
func RefsTo(which string, in []item.Ref) ([]*itempb.ResourceIdentifier, error) {
	if len(in) > item.MaxRefs {
		return nil, fmt.Errorf("the action returned %d %s items, at most %d are allowed", len(in), which, item.MaxRefs)
	}
	var out []*itempb.ResourceIdentifier
	for _, ref := range in {
		out = append(out, &itempb.ResourceIdentifier{
			Group: ref.Group, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name,
		})
	}
	return out, nil
}

// RefsFrom is the reverse of RefsTo.
func RefsFrom(in []*itempb.ResourceIdentifier) []item.Ref {
	var out []item.Ref
	for _, ref := range in {
		out = append(out, item.Ref{
			Group: ref.GetGroup(), Resource: ref.GetResource(), Namespace: ref.GetNamespace(), Name: ref.GetName(),
		})
	}
	return out
}

// TimeTo returns the message for a duration, nil for none. what is the purpose of the time
// in errors: "to wait for additional items".
func TimeTo(what string, d time.Duration) (*durationpb.Duration, error) {
	switch {
	case d < 0:
		return nil, fmt.Errorf("the action returned %s as the time %s, which is negative: use zero for the default", d, what)
	case d == 0:
		return nil, nil
	default:
		return durationpb.New(d), nil
	}
}

// cancelledErrorText is the error of a canceled operation for hosts that do not know
// canceled operations.
const cancelledErrorText = "cancelled"

// ProgressTo returns the message for a progress, which must not be nil. It does not contain
// whether the operation was canceled.
func ProgressTo(in *item.Progress) (*itempb.OperationProgress, error) {
	if in == nil {
		return nil, errors.New("the action returned no progress and no error")
	}
	return &itempb.OperationProgress{
		Completed: in.Completed, Err: in.Err, NCompleted: in.NCompleted, NTotal: in.NTotal,
		OperationUnits: in.OperationUnits, Description: in.Description,
		Started: timeTo(in.Started), Updated: timeTo(in.Updated),
	}, nil
}

// VeleroProgressTo is ProgressTo for messages without a field for cancellation: a canceled
// operation is sent as failed.
func VeleroProgressTo(in *item.Progress) (*itempb.OperationProgress, error) {
	out, err := ProgressTo(in)
	if err == nil && in.Completed && in.Cancelled && in.Err == "" {
		out.Err = cancelledErrorText
	}
	return out, err
}

// ProgressFrom is the reverse of ProgressTo.
func ProgressFrom(in *itempb.OperationProgress) *item.Progress {
	return &item.Progress{
		Completed: in.GetCompleted(), Err: in.GetErr(), NCompleted: in.GetNCompleted(), NTotal: in.GetNTotal(),
		OperationUnits: in.GetOperationUnits(), Description: in.GetDescription(),
		Started: timeFrom(in.GetStarted()), Updated: timeFrom(in.GetUpdated()),
	}
}

func timeTo(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func timeFrom(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
