// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
)

// backupLabels are the labels that actions add to the Backup: the first value of each key.
// It is safe for concurrent use.
type backupLabels struct {
	mu     sync.Mutex
	labels map[string]string
	// warned has the keys with a warning, and an empty key for the limit.
	warned map[string]bool
}

// addLabels adds labels and returns warnings about rejected ones, one for each key.
func (l *backupLabels) addLabels(labels map[string]string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.labels == nil {
		l.labels, l.warned = map[string]string{}, map[string]bool{}
	}
	var warnings []string
	warn := func(about, warning string) {
		if !l.warned[about] {
			l.warned[about] = true
			warnings = append(warnings, warning)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		switch value, taken := l.labels[key]; {
		case taken && value != labels[key]:
			warn(key, fmt.Sprintf("the Backup gets the label %s=%s, which was requested first, and not the value %q", key, value, labels[key]))
		case !taken && len(l.labels) >= pluginclient.MaxBackupLabels:
			warn("", fmt.Sprintf("the Backup gets no label %s: it gets %d labels of item actions already, which is the limit",
				key, pluginclient.MaxBackupLabels))
		case !taken:
			l.labels[key] = labels[key]
		}
	}
	return warnings
}

func (l *backupLabels) copyLabels() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.labels)
}
