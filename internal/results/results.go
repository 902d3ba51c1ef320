// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// MaxMessages is how many warnings, and how many errors, a Collector keeps. It counts
// further ones, and adds one last message with their number.
const MaxMessages = 20_000

// Results are the warnings and errors of one run. Its JSON is the content of
// the results file.
type Results struct {
	// Warnings do not change the outcome of a run.
	Warnings Messages `json:"warnings"`
	// Errors make a run PartiallyFailed.
	Errors Messages `json:"errors"`

	// WarningCount and ErrorCount include dropped messages.
	WarningCount int `json:"-"`
	// ErrorCount is like WarningCount.
	ErrorCount int `json:"-"`
}

// Messages are sorted by scope. The names are Velero's.
type Messages struct {
	// Velero has messages about the run as a whole or a whole kind.
	Velero []string `json:"velero,omitempty"`
	// Cluster has messages about cluster-scoped objects.
	Cluster []string `json:"cluster,omitempty"`
	// Namespaces has messages about objects in namespaces, by namespace.
	Namespaces map[string][]string `json:"namespaces,omitempty"`
}

// First returns at most the first most messages. Those about objects in a namespace include
// its name.
func (m Messages) First(most int) []string {
	first := slices.Concat(m.Velero, m.Cluster)
	for _, namespace := range slices.Sorted(maps.Keys(m.Namespaces)) {
		for _, message := range m.Namespaces[namespace] {
			if len(first) >= most {
				break
			}
			first = append(first, namespace+": "+message)
		}
	}
	return first[:min(most, len(first))]
}

// Scope is what a message is about. The zero Scope is the run.
type Scope struct {
	namespace string
	cluster   bool
}

// RunScope is the scope of messages about the run as a whole or a whole kind.
func RunScope() Scope { return Scope{} }

// ObjectScope is the scope of messages about an object in namespace, or about a
// cluster-scoped one if namespace is empty.
func ObjectScope(namespace string) Scope {
	return Scope{namespace: namespace, cluster: namespace == ""}
}

// Collector collects warnings and errors. It is safe for concurrent use; the zero Collector
// is ready to use.
type Collector struct {
	mu       sync.Mutex
	warnings boundedMessages
	errors   boundedMessages
}

// boundedMessages are the messages of one severity.
type boundedMessages struct {
	messages Messages
	count    int
}

// Warn adds a warning.
func (c *Collector) Warn(scope Scope, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warnings.addMessage(scope, message)
}

// Error adds an error.
func (c *Collector) Error(scope Scope, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errors.addMessage(scope, err.Error())
}

func (k *boundedMessages) addMessage(scope Scope, message string) {
	k.count++
	if k.count > MaxMessages {
		return
	}
	switch {
	case scope.namespace != "":
		if k.messages.Namespaces == nil {
			k.messages.Namespaces = map[string][]string{}
		}
		k.messages.Namespaces[scope.namespace] = append(k.messages.Namespaces[scope.namespace], message)
	case scope.cluster:
		k.messages.Cluster = append(k.messages.Cluster, message)
	default:
		k.messages.Velero = append(k.messages.Velero, message)
	}
}

// Results returns a sorted copy of the messages so far.
func (c *Collector) Results() Results {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Results{
		Warnings:     c.warnings.sortedMessages(),
		Errors:       c.errors.sortedMessages(),
		WarningCount: c.warnings.count,
		ErrorCount:   c.errors.count,
	}
}

// sortedMessages makes the result independent of the scheduling of the goroutines of a run.
func (k *boundedMessages) sortedMessages() Messages {
	out := Messages{
		Velero:  slices.Sorted(slices.Values(k.messages.Velero)),
		Cluster: slices.Sorted(slices.Values(k.messages.Cluster)),
	}
	if len(k.messages.Namespaces) > 0 {
		out.Namespaces = make(map[string][]string, len(k.messages.Namespaces))
	}
	for ns, messages := range k.messages.Namespaces {
		out.Namespaces[ns] = slices.Sorted(slices.Values(messages))
	}
	if more := k.count - MaxMessages; more > 0 {
		out.Velero = append(out.Velero, fmt.Sprintf("%d more messages were dropped", more))
	}
	return out
}
