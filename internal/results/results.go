// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package results

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// MaxProblems is how many warnings, and how many errors, a Collector keeps. It counts
// further ones, and adds one last problem with their number.
const MaxProblems = 20_000

// Subject is what a problem is about: an object, a kind, or, if it is zero, the run.
type Subject struct {
	// Resource is "configmaps" or "deployments.apps"; empty for the run.
	Resource string `json:"resource,omitempty"`
	// Namespace is that of the object, or the one in which objects of a kind are concerned.
	Namespace string `json:"namespace,omitempty"`
	// Name is that of the object; empty for a kind.
	Name string `json:"name,omitempty"`
}

// About returns the Subject of an object, or of a kind if name is empty.
func About(resource schema.GroupResource, namespace, name string) Subject {
	return Subject{Resource: resource.String(), Namespace: namespace, Name: name}
}

// Problem is one warning or error of a run.
type Problem struct {
	Subject
	// Reason is one of the reasons in this package, or that of the API server for the rejection
	// of a request.
	Reason string `json:"reason"`
	// Message is for users. It names what the problem is about.
	Message string `json:"message"`
}

// scope is where the client of Velero shows a problem.
type scope int

const (
	runScope scope = iota
	clusterScope
	namespaceScope
)

func (s *Subject) scope() scope {
	switch {
	case s.Namespace != "":
		return namespaceScope
	case s.Name != "":
		return clusterScope
	}
	return runScope
}

// compareProblems sorts by scope, namespace and message.
func compareProblems(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.scope(), b.scope()), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Message, b.Message),
		cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Reason, b.Reason))
}

// Results are the warnings and errors of one run. Its JSON is the content of the results file.
type Results struct {
	// Warnings do not change the outcome of a run.
	Warnings Problems `json:"warnings"`
	// Errors make a run PartiallyFailed.
	Errors Problems `json:"errors"`
	// Objects summarizes the objects by their resource.
	Objects ResourceSummaries `json:"objects,omitempty"`

	// WarningCount and ErrorCount include problems that were not kept.
	WarningCount int `json:"-"`
	// ErrorCount is like WarningCount.
	ErrorCount int `json:"-"`
}

// Problems are the warnings or the errors of a run. Their JSON has the messages in the format of
// Velero, whose client shows them, and the problems.
type Problems []Problem

// problemsJSON is the JSON of Problems. The first three names are Velero's.
type problemsJSON struct {
	// Velero has the messages about the run as a whole or a whole kind.
	Velero []string `json:"velero,omitempty"`
	// Cluster has those about cluster-scoped objects.
	Cluster []string `json:"cluster,omitempty"`
	// Namespaces has those about objects in namespaces, by namespace.
	Namespaces map[string][]string `json:"namespaces,omitempty"`
	// Problems are all of them. Velero's client ignores the field.
	Problems []Problem `json:"problems,omitempty"`
}

// MarshalJSON returns the part of a results file with these problems.
func (p Problems) MarshalJSON() ([]byte, error) {
	return json.Marshal(problemsJSON{Velero: p.OfRun(), Cluster: p.OfCluster(), Namespaces: p.byNamespace(), Problems: p})
}

// UnmarshalJSON reads what MarshalJSON wrote. In a file of Velero, problems have only a namespace
// and a message.
func (p *Problems) UnmarshalJSON(data []byte) error {
	var stored problemsJSON
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	*p = stored.Problems
	if *p != nil {
		return nil
	}
	for _, message := range slices.Concat(stored.Velero, stored.Cluster) {
		*p = append(*p, Problem{Message: message})
	}
	for _, namespace := range slices.Sorted(maps.Keys(stored.Namespaces)) {
		for _, message := range stored.Namespaces[namespace] {
			*p = append(*p, Problem{Subject: Subject{Namespace: namespace}, Message: message})
		}
	}
	return nil
}

// OfRun returns the messages about the run as a whole or a whole kind.
func (p Problems) OfRun() []string { return p.messages(runScope) }

// OfCluster returns the messages about cluster-scoped objects.
func (p Problems) OfCluster() []string { return p.messages(clusterScope) }

// OfNamespace returns the messages about objects in a namespace.
func (p Problems) OfNamespace(namespace string) []string { return p.byNamespace()[namespace] }

func (p Problems) messages(of scope) []string {
	var messages []string
	for i := range p {
		if p[i].scope() == of {
			messages = append(messages, p[i].Message)
		}
	}
	return messages
}

func (p Problems) byNamespace() map[string][]string {
	var messages map[string][]string
	for i := range p {
		if namespace := p[i].Namespace; namespace != "" {
			if messages == nil {
				messages = map[string][]string{}
			}
			messages[namespace] = append(messages[namespace], p[i].Message)
		}
	}
	return messages
}

// AddNew adds the problems that are not there yet, and returns how many these are.
func (p *Problems) AddNew(more ...Problem) (added int) {
	known := make(map[Problem]bool, len(*p)+len(more))
	for _, problem := range *p {
		known[problem] = true
	}
	for _, problem := range more {
		if !known[problem] {
			known[problem] = true
			*p = append(*p, problem)
			added++
		}
	}
	return added
}

// Collector collects warnings and errors. It is safe for concurrent use; the zero Collector
// is ready to use.
type Collector struct {
	mu       sync.Mutex
	warnings boundedProblems
	errors   boundedProblems
}

// boundedProblems are the problems of one severity.
type boundedProblems struct {
	problems Problems
	count    int
}

// Warn adds a warning.
func (c *Collector) Warn(about Subject, reason, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warnings.add(Problem{Subject: about, Reason: reason, Message: message})
}

// Error adds an error.
func (c *Collector) Error(about Subject, reason string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errors.add(Problem{Subject: about, Reason: reason, Message: err.Error()})
}

func (b *boundedProblems) add(problem Problem) {
	if b.count++; b.count <= MaxProblems {
		b.problems = append(b.problems, problem)
	}
}

// Results returns a sorted copy of the problems so far.
func (c *Collector) Results() Results {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Results{
		Warnings:     c.warnings.sortedProblems(),
		Errors:       c.errors.sortedProblems(),
		WarningCount: c.warnings.count,
		ErrorCount:   c.errors.count,
	}
}

// sortedProblems makes the result independent of the scheduling of the goroutines of a run.
func (b *boundedProblems) sortedProblems() Problems {
	sorted := slices.SortedFunc(slices.Values(b.problems), compareProblems)
	if more := b.count - MaxProblems; more > 0 {
		sorted = append(sorted, Problem{Reason: ReasonProblemsDropped, Message: fmt.Sprintf("%d more messages were dropped", more)})
	}
	return sorted
}
