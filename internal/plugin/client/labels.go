// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// MaxBackupLabels is how many labels one answer may have for the Backup, and how many
// a Backup gets from its actions.
const MaxBackupLabels = 32

// reservedDomains and their subdomains must not be the prefix of a label that an action
// adds to a Backup: Grapnel, Velero and Kubernetes define their meaning.
var reservedDomains = []string{"grapnel.dev", "velero.io", "kubernetes.io", "k8s.io"}

// BackupLabels are the labels for the Backup from one object.
type BackupLabels struct {
	// Labels for the Backup, valid ones only.
	Labels map[string]string
	// Warnings list the rejected labels, with the reasons.
	Warnings []string
}

// ParseBackupLabels parses the labels for the Backup from the annotation
// item.AnnotationBackupLabels, which ExtractAnnotations removed from an object.
func ParseBackupLabels(annotation string) BackupLabels {
	var labels map[string]string
	if err := json.Unmarshal([]byte(annotation), &labels); err != nil {
		return BackupLabels{Warnings: []string{fmt.Sprintf(
			"the annotation %s is not a JSON object of strings, so the Backup gets no labels from it", item.AnnotationBackupLabels)}}
	}
	if len(labels) > MaxBackupLabels {
		return BackupLabels{Warnings: []string{fmt.Sprintf(
			"%d labels for the Backup exceed the limit of %d, so it gets none of them", len(labels), MaxBackupLabels)}}
	}
	var out BackupLabels
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if reason := labelRefusalReason(key, labels[key]); reason != "" {
			out.Warnings = append(out.Warnings, fmt.Sprintf("the Backup does not get the label %.300q: %s", key, reason))
			continue
		}
		if out.Labels == nil {
			out.Labels = map[string]string{}
		}
		out.Labels[key] = labels[key]
	}
	return out
}

// labelRefusalReason returns why a label must not be added to a Backup.
func labelRefusalReason(key, value string) string {
	if errs := validation.IsQualifiedName(key); len(errs) > 0 {
		return "its key is not a valid label key: " + strings.Join(errs, "; ")
	}
	if errs := validation.IsValidLabelValue(value); len(errs) > 0 {
		return "its value is not a valid label value: " + strings.Join(errs, "; ")
	}
	prefix, _, prefixed := strings.Cut(key, "/")
	for _, domain := range reservedDomains {
		if prefixed && (prefix == domain || strings.HasSuffix(prefix, "."+domain)) {
			return "the prefix " + prefix + " is reserved"
		}
	}
	return ""
}
