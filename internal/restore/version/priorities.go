// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/grapnel-dev/grapnel/internal/text"
)

// maxShownTextBytes is how many bytes of an invalid text a message shows at most.
const maxShownTextBytes = 100

// Priorities are the versions that a user prefers, the most preferred first, by
// "<resource>.<group>", or "<resource>" in the core group.
type Priorities map[string][]string

// LineError is an error in one line of priorities.
type LineError struct {
	// Line is its number, counted from 1.
	Line int
	// Text of the line, without spaces around it.
	Text string
	// Problem is what is wrong.
	Problem string
}

// Error implements error.
func (e *LineError) Error() string {
	return fmt.Sprintf("line %d, %q: %s", e.Line, text.Truncate(e.Text, maxShownTextBytes), e.Problem)
}

// ParsePriorities parses the value of the key restoreResourcesVersionPriority of the
// ConfigMap enableapigroupversions. Its lines have the form
//
//	<resource>.<group>=v2,v1beta1
//
// with spaces and tabs anywhere between the words, and may end in "\r\n". Empty lines and
// everything after a "#" are ignored.
//
// Every invalid line is skipped and reported as a *LineError. A second line for the same
// resource is also reported, but the last line takes precedence, as in Velero. The returned
// priorities are usable despite the errors.
func ParsePriorities(text string) (Priorities, []error) {
	priorities := Priorities{}
	var errs []error
	lines := map[string]int{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		used, _, _ := strings.Cut(line, "#")
		if used = strings.TrimSpace(used); used == "" {
			continue
		}
		resource, versions, problem := parseLine(used)
		if problem != "" {
			errs = append(errs, &LineError{Line: number, Text: line, Problem: problem})
			continue
		}
		if earlier, taken := lines[resource]; taken {
			errs = append(errs, &LineError{Line: number, Text: line, Problem: fmt.Sprintf(
				"line %d is about the same resource; remove one of them", earlier)})
		}
		lines[resource], priorities[resource] = number, versions
	}
	return priorities, errs
}

// parseLine returns a problem, or the content of the line.
func parseLine(line string) (resource string, versions []string, problem string) {
	resource, list, ok := strings.Cut(line, "=")
	resource = strings.TrimSpace(resource)
	switch {
	case !ok:
		return "", nil, `there is no "=" in it; expected <resource>.<group>=<version>,<version>`
	case resource == "":
		return "", nil, `there is no resource before the "="`
	case len(validation.IsDNS1123Subdomain(resource)) > 0:
		return "", nil, fmt.Sprintf("%q is not a resource; expected <resource>.<group> or, in the core group, <resource>", text.Truncate(resource, maxShownTextBytes))
	}
	for v := range strings.SplitSeq(list, ",") {
		v = strings.TrimSpace(v)
		switch {
		case v == "":
			return "", nil, "a version is missing"
		case len(validation.IsDNS1035Label(v)) > 0:
			return "", nil, fmt.Sprintf("%q is not a version", text.Truncate(v, maxShownTextBytes))
		}
		versions = append(versions, v)
	}
	return resource, versions, ""
}
