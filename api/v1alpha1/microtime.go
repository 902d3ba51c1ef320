// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MicroTime is a time with microseconds. Unlike metav1.MicroTime, it also accepts times in whole
// seconds, which earlier versions of the operator stored.
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:Format=date-time
type MicroTime struct {
	metav1.MicroTime `json:"-"`
}

// NewMicroTime returns a time without what is not stored.
func NewMicroTime(t time.Time) MicroTime {
	return MicroTime{metav1.NewMicroTime(t.Round(0).Truncate(time.Microsecond))}
}

// DeepCopyInto copies the time.
func (t *MicroTime) DeepCopyInto(out *MicroTime) { *out = *t }

// UnmarshalJSON reads a time in the format of RFC 3339.
func (t *MicroTime) UnmarshalJSON(data []byte) error {
	var stored *time.Time
	if err := json.Unmarshal(data, &stored); err != nil {
		return fmt.Errorf("reading a time: %w", err)
	}
	if t.Time = (time.Time{}); stored != nil {
		t.Time = stored.Local()
	}
	return nil
}
