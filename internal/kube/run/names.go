// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// The lengths of names: 52 characters leave room for what is made of a HookRun.
const (
	maxRunName = 52
	maxLabel   = 63
	hashLength = 10
)

// runName returns a name that is always the same for an action of a run, so
// that creating twice is harmless.
func (k Kind) runName(o metav1.Object, point v1alpha1.HookPoint, action string) string {
	_, name, _ := strings.Cut("/"+action, "/")
	name = name[strings.LastIndex(name, "/")+1:]
	head := strings.ToLower(o.GetName() + "-" + strings.TrimSuffix(string(point), k.Name) + "-" + name)
	return shorten(head, maxRunName-hashLength-1) + "-" + hash(string(o.GetUID()), string(point), action)
}

// LabelValue returns a name as the value of a label, which is shorter.
func LabelValue(name string) string {
	if len(name) <= maxLabel {
		return name
	}
	return shorten(name, maxLabel-hashLength-1) + "-" + hash(name)
}

// shorten keeps the start of a name such that something can follow it.
func shorten(name string, limit int) string {
	clean := strings.Map(func(c rune) rune {
		if (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') {
			return c
		}
		return '-'
	}, name)
	return strings.TrimRight(clean[:min(len(clean), limit)], "-")
}

func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])[:hashLength]
}
