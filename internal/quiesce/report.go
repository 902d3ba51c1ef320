// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/quiesce/state"
)

// The keys of Result.Outputs.
const (
	// OutputWorkloads names what Quiesce changed, "Deployment/shop/web Job/shop/load".
	OutputWorkloads = "workloads"
	// OutputOmitted is how many of them found no place.
	OutputOmitted = "workloadsOmitted"
	// OutputQuiesced is how many are quiesced, without those that were before.
	OutputQuiesced = "quiesced"
	// OutputAlready is how many were quiesced before.
	OutputAlready = "alreadyQuiesced"
	// OutputLeftOut is how many were left running.
	OutputLeftOut = "leftOut"
)

// maxWorkloads is the size of OutputWorkloads in bytes; an output may have 4096
// (api/v1alpha1), and all of an action 8 KiB (sdk/hook).
const maxWorkloads = 4000

// result returns what the call did, without a message.
func (p *pass) result() Result {
	order := state.Kinds()
	slices.SortStableFunc(p.items, func(a, b Item) int { return compareRefs(order, a.Ref, b.Ref) })
	return Result{Items: p.items}
}

func compareRefs(order []state.Kind, a, b state.Ref) int {
	return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// outputs returns what later actions are told.
func outputs(items []Item) map[string]string {
	var names []string
	size, omitted := 0, 0
	counts := map[Outcome]int{}
	for _, i := range items {
		counts[i.Outcome]++
		if i.Outcome != state.Quiesced {
			continue
		}
		name := formatRef(i.Ref)
		if size += len(name) + 1; size > maxWorkloads {
			omitted++
			continue
		}
		names = append(names, name)
	}
	all := map[string]string{}
	for key, n := range map[string]int{
		OutputOmitted: omitted, OutputQuiesced: counts[state.Quiesced],
		OutputAlready: counts[state.Already] + counts[state.Elsewhere], OutputLeftOut: counts[LeftOut],
	} {
		if n > 0 {
			all[key] = strconv.Itoa(n)
		}
	}
	if len(names) > 0 {
		all[OutputWorkloads] = strings.Join(names, " ")
	}
	return all
}

func formatRef(ref state.Ref) string {
	return string(ref.Kind) + "/" + ref.Namespace + "/" + ref.Name
}

// parseRefs reads OutputWorkloads. What is none of its form is left out: outputs are kept
// where people may change them.
func parseRefs(text string) []state.Ref {
	var refs []state.Ref
	for name := range strings.FieldsSeq(text) {
		parts := strings.Split(name, "/")
		if len(parts) == 3 && slices.Contains(state.Kinds(), state.Kind(parts[0])) && parts[1] != "" && parts[2] != "" {
			refs = append(refs, state.Ref{Kind: state.Kind(parts[0]), Namespace: parts[1], Name: parts[2]})
		}
	}
	return refs
}

// phrases are what a summary says about outcomes, in this order. Those that end in a colon
// are followed by names.
var phrases = []struct {
	outcome Outcome
	text    string
}{
	{state.Quiesced, "%d quiesced"},
	{state.Restored, "%d given back"},
	{state.Released, "%d still held by others"},
	{state.HeldByAction, "%d still held by another action of the run:"},
	{state.Already, "%d quiesced before"},
	{state.Elsewhere, "%d quiesced as they were restored"},
	{LeftOut, "%d left running:"},
	{Protected, "%d namespaces never quiesced"},
	{state.Ended, "%d given back before, as maxQuiesceDuration was over:"},
	{state.Changed, "%d changed meanwhile:"},
	{LeftStopped, "%d left stopped, as the Restore did not come to its end:"},
	{Gone, "%d gone:"},
	{Lost, "%d to be looked at:"},
	{RollingOut, "%d in the middle of a rollout:"},
	{Contended, "%d to be tried again:"},
}

// summary says in one sentence what became of the workloads.
func (p *pass) summary() string {
	var parts []string
	for _, phrase := range phrases {
		n := 0
		for _, i := range p.items {
			if i.Outcome == phrase.outcome {
				n++
			}
		}
		if n == 0 {
			continue
		}
		text := fmt.Sprintf(phrase.text, n)
		if strings.HasSuffix(text, ":") {
			text += " " + p.named(func(o Outcome) bool { return o == phrase.outcome })
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "Nothing was to be done"
	}
	return "Workloads: " + strings.Join(parts, ", ")
}

// warning says which workloads ran although they were held, "" if there is none.
func warning(items []Item) string {
	var texts []string
	for _, i := range items {
		if i.Started {
			texts = append(texts, i.String())
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return executor.OneLine("Workloads did not stay quiesced, and may have changed while they were read: " + some(texts))
}

// named names the workloads of some outcomes and what became of them.
func (p *pass) named(is func(Outcome) bool) string { return named(p.items, is) }

func named(items []Item, is func(Outcome) bool) string {
	var texts []string
	for _, i := range items {
		if is(i.Outcome) {
			texts = append(texts, i.String())
		}
	}
	return some(texts)
}
