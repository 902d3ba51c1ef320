// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/text"
	"github.com/grapnel-dev/grapnel/internal/timeline"
)

const (
	// maxProblems is how many problems a page lists.
	maxProblems = 1000
	// maxMessageBytes is the length of a message in a page.
	maxMessageBytes = 4096
)

//go:embed report.html.tmpl
var source string

var pageTemplate = template.Must(template.New("report.html").Parse(source))

// Report is what a page is about.
type Report struct {
	Kind string
	// Run is a *v1alpha1.Backup or *v1alpha1.Restore.
	Run        timeline.Run
	HookRuns   []v1alpha1.HookRun
	Operations []v1alpha1.AsyncOperation
	// Results is nil if the results file was not read; Note says why.
	Results *results.Results
	Note    string
	// Now is when the objects were read, and Version that of the program.
	Now     time.Time
	Version string
}

// page is what the template gets.
type page struct {
	Kind, Name       string
	Phase            v1alpha1.RunPhase
	State            timeline.State
	Message          string
	Facts            []fact
	ValidationErrors []string
	Note             string
	Timeline         template.HTML
	Hooks            []hook
	Operations       []operation
	Objects          *objects
	Problems         []problem
	Errors, Warnings int64
	MoreProblems     int64
	Spec             string
	Created, Version string
}

// fact is a labeled value.
type fact struct{ Label, Value string }

// Write writes the page.
func (r *Report) Write(w io.Writer) error {
	status := r.Run.Run()
	built := timeline.Build(r.Kind, r.Run, r.HookRuns, r.Operations, r.Now)
	svg, err := built.DrawSVG()
	if err != nil {
		return err
	}
	specific, spec, err := describeRun(r.Run)
	if err != nil {
		return err
	}
	p := page{
		Kind: r.Kind, Name: r.Run.GetName(), Phase: built.Phase, State: phaseState(built.Phase),
		Message: cmp.Or(status.Message, status.FailureReason), ValidationErrors: status.ValidationErrors, Note: r.Note,
		Timeline: svg, Spec: spec, Errors: status.Errors, Warnings: status.Warnings,
		Facts: append(r.describeTimes(&built), specific...), Operations: r.describeOperations(),
		Created: formatTime(r.Now), Version: r.Version,
	}
	for i := range r.HookRuns {
		p.Hooks = append(p.Hooks, newHook(&r.HookRuns[i]))
	}
	if r.Results != nil && len(r.Results.Objects) > 0 {
		p.Objects = newObjects(r.Results.Objects)
	}
	p.Problems, p.MoreProblems = r.describeProblems()
	var html strings.Builder
	if err := pageTemplate.Execute(&html, p); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	_, err = io.WriteString(w, text.StripControl(html.String()))
	return err
}

// describeTimes returns when the run started and ended, and how much it worked on.
func (r *Report) describeTimes(t *timeline.Timeline) []fact {
	status := r.Run.Run()
	var facts factList
	facts.addTime("Created", &metav1.Time{Time: r.Run.GetCreationTimestamp().Time})
	facts.addTime("Started", status.StartTimestamp)
	facts.addTime("Ended", status.CompletionTimestamp)
	label := "Took"
	if t.Running {
		label = "Running for"
	}
	facts.addFact(label, timeline.FormatDuration(t.Elapsed()))
	if status.Attempts > 1 {
		facts.addFact("Attempts", fmt.Sprint(status.Attempts))
	}
	if o := status.Operations; o != nil && o.Attempted > 0 {
		facts.addFact("Operations", fmt.Sprintf("%d: %d completed, %d failed, %d canceled", o.Attempted, o.Completed, o.Failed, o.Cancelled))
	}
	return facts
}

// factList adds only facts with a value.
type factList []fact

func (f *factList) addFact(label, value string) {
	if value != "" {
		*f = append(*f, fact{label, value})
	}
}

func (f *factList) addTime(label string, at *metav1.Time) {
	if at != nil {
		f.addFact(label, formatTime(at.Time))
	}
}

func formatTime(at time.Time) string { return at.Format("2006-01-02 15:04:05 MST") }

// describeRun returns what only Backups or only Restores have, and the spec as YAML.
func describeRun(r timeline.Run) ([]fact, string, error) {
	var facts factList
	var spec any
	switch o := r.(type) {
	case *v1alpha1.Backup:
		spec = o.Spec
		if p := o.Status.Progress; p != nil {
			facts.addFact("Objects", fmt.Sprintf("%d of %d", p.ItemsBackedUp, p.TotalItems))
		}
		facts.addFact("Location", cmp.Or(o.Location(), o.Spec.StorageLocation))
		facts.addTime("Expires", o.Status.Expiration)
	case *v1alpha1.Restore:
		spec = o.Spec
		if p := o.Status.Progress; p != nil {
			facts.addFact("Objects", fmt.Sprintf("%d of %d", p.ItemsRestored, p.TotalItems))
		}
		facts.addFact("Backup", cmp.Or(o.Status.BackupName, o.Spec.BackupName))
		facts.addFact("Location", o.Status.StorageLocation)
		if o.Spec.DryRun {
			facts.addFact("Dry run", "nothing was written")
		}
	}
	encoded, err := json.Marshal(spec)
	if err != nil {
		return nil, "", fmt.Errorf("encoding the spec: %w", err)
	}
	content, err := yaml.JSONToYAML([]byte(text.StripControl(string(encoded)))) // does not accept some of them
	if err != nil {
		return nil, "", fmt.Errorf("encoding the spec: %w", err)
	}
	return facts, string(content), nil
}

// phaseState returns the state that determines the color of a phase.
func phaseState(phase v1alpha1.RunPhase) timeline.State {
	switch phase {
	case v1alpha1.RunPhaseCompleted:
		return timeline.StateSucceeded
	case v1alpha1.RunPhaseFailed, v1alpha1.RunPhaseFailedValidation, v1alpha1.RunPhaseFailedPreBackupActions,
		v1alpha1.RunPhaseFailedPreRestoreActions:
		return timeline.StateFailed
	case v1alpha1.RunPhaseCancelled:
		return timeline.StateStopped
	case v1alpha1.RunPhasePartiallyFailed, v1alpha1.RunPhaseNew, v1alpha1.RunPhaseInProgress, v1alpha1.RunPhaseWaitingForPluginOperations,
		v1alpha1.RunPhaseWaitingForPluginOperationsPartiallyFailed, v1alpha1.RunPhaseFinalizing, v1alpha1.RunPhaseFinalizingPartiallyFailed:
	}
	return timeline.StateRunning
}

// hook is a HookRun in a page.
type hook struct {
	Point, Action, Plugin, Phase, Message string
	State                                 timeline.State
	Attempts                              []attempt
	Outputs                               []fact
}

// attempt is an attempt of a hook in a page.
type attempt struct {
	Number                       int32
	Began, Took, Result, Message string
	State                        timeline.State
}

func newHook(h *v1alpha1.HookRun) hook {
	shown := hook{
		Point: string(h.Spec.Hook), Action: h.Spec.ActionName, Plugin: h.Spec.PluginRef.Name,
		Phase: cmp.Or(string(h.Status.Phase), "not called"), Message: h.Status.Message, State: timeline.HookState(h.Status.Phase),
	}
	for i := range h.Status.Attempts {
		a := &h.Status.Attempts[i]
		state, result := timeline.AttemptState(a)
		added := attempt{Number: a.Number, Began: a.StartTimestamp.Format(time.TimeOnly), Result: result, Message: a.Message, State: state}
		if end := a.CompletionTimestamp; end != nil {
			added.Took = timeline.FormatDuration(end.Sub(a.StartTimestamp.Time))
		}
		shown.Attempts = append(shown.Attempts, added)
	}
	for _, name := range slices.Sorted(maps.Keys(h.Status.Outputs)) {
		shown.Outputs = append(shown.Outputs, fact{name, string(h.Status.Outputs[name])})
	}
	return shown
}

// operation is an operation, or are several, in a page.
type operation struct {
	Label, Phase, Took, Progress, Message string
	State                                 timeline.State
}

func (r *Report) describeOperations() []operation {
	var shown []operation
	for _, group := range timeline.GroupOperations(r.Operations) {
		o := operation{Label: group.Label(), Phase: string(group.Phase), State: group.State()}
		if start, end := group.Times(); end != nil {
			o.Took = timeline.FormatDuration(max(end.Sub(start), 0))
		}
		if len(group.Operations) == 1 {
			status := &group.Operations[0].Status
			o.Message = status.Message
			if status.Progress != nil {
				o.Progress = status.Progress.Summary
			}
		}
		shown = append(shown, o)
	}
	return shown
}

// problem is a problem in a page.
type problem struct {
	Severity                 v1alpha1.ProblemSeverity
	Reason, Subject, Message string
}

// describeProblems returns the errors and then the warnings, those of the results file if it was read, and how many more
// there are.
func (r *Report) describeProblems() (shown []problem, more int64) {
	status := r.Run.Run()
	if r.Results == nil {
		for _, p := range status.Problems {
			shown = append(shown, newProblem(p.Severity, results.Problem{
				Subject: results.Subject{Resource: p.Resource, Namespace: p.Namespace, Name: p.Name}, Reason: p.Reason, Message: p.Message,
			}))
		}
		return shown, max(status.Errors+status.Warnings-int64(len(shown)), 0)
	}
	for _, p := range r.Results.Errors[:min(len(r.Results.Errors), maxProblems)] {
		shown = append(shown, newProblem(v1alpha1.ProblemSeverityError, p))
	}
	for _, p := range r.Results.Warnings[:min(len(r.Results.Warnings), maxProblems-len(shown))] {
		shown = append(shown, newProblem(v1alpha1.ProblemSeverityWarning, p))
	}
	total := max(int64(len(r.Results.Errors)+len(r.Results.Warnings)), status.Errors+status.Warnings)
	return shown, total - int64(len(shown))
}

// newProblem returns a problem of a page, with its subject unless the message names it.
func newProblem(severity v1alpha1.ProblemSeverity, p results.Problem) problem {
	subject := strings.Trim(p.Namespace+"/"+p.Name, "/")
	if strings.Contains(p.Message, subject) && strings.Contains(p.Message, p.Resource) {
		subject = ""
	} else {
		subject = strings.TrimSpace(p.Resource + " " + subject)
	}
	return problem{Severity: severity, Reason: p.Reason, Subject: subject, Message: text.Truncate(p.Message, maxMessageBytes)}
}
