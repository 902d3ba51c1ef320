// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package veleromigration

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// maxReportedNames is how many objects with the same reason the report names.
const maxReportedNames = 10

// maxNamesBytes limits the names of fields in a line.
const maxNamesBytes = 400

// WriteReport writes what became of each object and field, and what to do. Names are quoted where they are not checked;
// the caller removes control characters before a terminal.
func WriteReport(w io.Writer, conversions []Conversion) error {
	r := &reportWriter{w: w}
	for i := range conversions {
		if conversions[i].Reason == "" {
			r.writeConversion(&conversions[i])
		}
	}
	r.writeUnconverted(conversions)
	r.writeNextSteps(conversions)
	return r.err
}

// reportWriter writes lines until one fails.
type reportWriter struct {
	w   io.Writer
	err error
}

func (r *reportWriter) printf(format string, args ...any) {
	if r.err == nil {
		_, r.err = fmt.Fprintf(r.w, format, args...)
	}
}

// printLine prints a text of the input as one line, so that it cannot forge others.
func (r *reportWriter) printLine(indent, text string) {
	r.printf("%s%s\n", indent, executor.OneLine(text))
}

// describeObject returns the kind and the name of an object.
func describeObject(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + objectName(object)
}

// writeConversion writes what became of an object: what is lost comes first.
func (r *reportWriter) writeConversion(c *Conversion) {
	var targets []string
	for _, object := range c.Objects {
		targets = append(targets, describeObject(object))
	}
	r.printLine("", fmt.Sprintf("%s (%s)", describeObject(c.Object), c.Source))
	if len(targets) > 0 {
		r.printLine("  ", "becomes "+strings.Join(targets, ", "))
	}
	for _, outcome := range []Outcome{OutcomeLost, OutcomeChanged, OutcomeKept} {
		for _, line := range c.fieldLines(outcome) {
			r.printLine(fmt.Sprintf("  %-8s ", outcome), line)
		}
	}
	r.printf("\n")
}

// fieldLines returns a line for each field with an outcome, or for its parent if that was decided on. Fields with the same
// note share a line.
func (c *Conversion) fieldLines(outcome Outcome) []string {
	var notes []string
	fields, seen := map[string][]string{}, map[string]bool{}
	for i := range c.Fields {
		f := &c.Fields[i]
		if f.Outcome != outcome || seen[f.Rule] {
			continue
		}
		seen[f.Rule] = true
		name := f.Rule
		if target := f.targetOfRule(); target != "" && target != f.Rule {
			name += " -> " + target
		}
		if fields[f.Note] == nil {
			notes = append(notes, f.Note)
		}
		fields[f.Note] = append(fields[f.Note], name)
	}
	var lines []string
	for _, note := range notes {
		for _, line := range joinNames(fields[note]) {
			if note != "" {
				line += ": " + note
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// joinNames joins names to lines of at most maxNamesBytes, or a single name, so that no line is cut off.
func joinNames(names []string) []string {
	var lines []string
	for _, name := range names {
		if last := len(lines) - 1; last >= 0 && len(lines[last])+len(name) < maxNamesBytes {
			lines[last] += ", " + name
			continue
		}
		lines = append(lines, name)
	}
	return lines
}

// targetOfRule returns where the field that was decided on is in the converted object; empty if it is not there.
func (f *Field) targetOfRule() string { return strings.TrimSuffix(f.Target, f.Path[len(f.Rule):]) }

// writeUnconverted writes the objects without a converted one, together where the reason is the same.
func (r *reportWriter) writeUnconverted(conversions []Conversion) {
	var reasons []string
	named := map[string][]string{}
	for i := range conversions {
		c := &conversions[i]
		if c.Reason == "" {
			continue
		}
		reason := c.Reason
		if c.HasLost() {
			reason = string(OutcomeLost) + ": " + reason
		}
		if named[reason] == nil {
			reasons = append(reasons, reason)
		}
		name := describeObject(c.Object)
		if !isConverted(c.Object) {
			name = fmt.Sprintf("%s %.300q", c.Object.GetKind(), objectName(c.Object))
		}
		named[reason] = append(named[reason], name+" ("+c.Source+")")
	}
	if len(reasons) == 0 {
		return
	}
	r.printf("Not converted\n")
	for _, reason := range reasons {
		r.printLine("  ", reason)
		names := named[reason]
		for _, name := range names[:min(len(names), maxReportedNames)] {
			r.printLine("    ", name)
		}
		if more := len(names) - maxReportedNames; more > 0 {
			r.printf("    and %d more\n", more)
		}
	}
	r.printf("\n")
}

// writeNextSteps writes what is true for every migration, and the numbers.
func (r *reportWriter) writeNextSteps(conversions []Conversion) {
	kinds, counts, unconverted := map[string]int{}, map[Outcome]int{}, 0
	for i := range conversions {
		for outcome, n := range conversions[i].Outcomes() {
			counts[outcome] += n
		}
		for _, object := range conversions[i].Objects {
			kinds[object.GetKind()]++
		}
		if conversions[i].Reason != "" {
			unconverted++
		}
	}
	steps := []string{"Stored backups need no conversion: Grapnel imports them from the same bucket and prefix."}
	if kinds[kindSchedule] > 0 {
		steps = append(steps, "Pause the Schedules of Velero before you apply those of Grapnel: both write backups of the same names.")
	}
	if kinds[kindBackup]+kinds[kindRestore] > 0 {
		steps = append(steps, fmt.Sprintf("Applying a Backup or Restore starts it: there are %d Backups and %d Restores.", kinds[kindBackup], kinds[kindRestore]))
	}
	steps = append(steps, "Hooks in annotations of pods (pre.hook.backup.velero.io/command and others) run only with the component velero-hooks: docs/guides/hooks.md.")
	r.printf("What to do: docs/guides/from-velero.md\n")
	for _, step := range steps {
		r.printf("  %s\n", step)
	}
	var parts []string
	for _, kind := range []string{kindSecret, kindLocation, kindSchedule, kindBackup, kindRestore} {
		if kinds[kind] > 0 {
			parts = append(parts, fmt.Sprintf("%d %ss", kinds[kind], kind))
		}
	}
	if len(parts) == 0 {
		parts = []string{"nothing"}
	}
	r.printf("\nConverted: %s. Not converted: %d. Fields: %d kept, %d changed, %d lost.\n",
		strings.Join(parts, ", "), unconverted, counts[OutcomeKept], counts[OutcomeChanged], counts[OutcomeLost])
}
