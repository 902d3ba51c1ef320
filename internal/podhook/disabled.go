// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podhook

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// maxNamedPods is how many pods a warning names.
const maxNamedPods = 100

// DisabledPods are the pods of a run whose hooks it does not run. It is safe for concurrent use; the
// zero value is ready to use.
type DisabledPods struct {
	mu    sync.Mutex
	names []string
}

// Add adds a pod.
func (d *DisabledPods) Add(namespace, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = append(d.names, namespace+"/"+name)
}

// Warning returns what to tell users about the pods; "" if there are none. The names come last: a
// status has only the beginning of a long message.
func (d *DisabledPods) Warning() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.names) == 0 {
		return ""
	}
	pods, names, more := "1 pod", slices.Sorted(slices.Values(d.names)), ""
	if len(names) > 1 {
		pods = fmt.Sprintf("%d pods", len(names))
	}
	if n := len(names) - maxNamedPods; n > 0 {
		names, more = names[:maxNamedPods], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("the Velero hooks of %s did not run: no Plugin of this run has builtin.veleroHooks; "+
		"an administrator can install config/components/velero-hooks: %s%s", pods, strings.Join(names, ", "), more)
}
