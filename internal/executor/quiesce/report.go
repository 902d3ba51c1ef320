// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// The keys of Result.Outputs.
const (
	// OutputWorkloads names what Quiesce changed, "Deployment/shop/web Job/shop/load".
	OutputWorkloads = "workloads"
	// OutputOmitted is the number of workloads that did not fit into OutputWorkloads.
	OutputOmitted = "workloadsOmitted"
	// OutputQuiesced is the number of quiesced workloads, without those that were quiesced before.
	OutputQuiesced = "quiesced"
	// OutputAlreadyQuiesced is the number of workloads that were quiesced before.
	OutputAlreadyQuiesced = "alreadyQuiesced"
	// OutputLeftOut is the number of workloads that were left running.
	OutputLeftOut = "leftOut"
)

// maxWorkloadsBytes is the maximum size of OutputWorkloads in bytes. One output may have 4096 bytes
// (api/v1alpha1), and all outputs of an action 8 KiB (sdk/hook).
const maxWorkloadsBytes = 4000

// newResult returns the result of the call, without a message.
func (p *pass) newResult() Result {
	slices.SortStableFunc(p.items, func(a, b Item) int { return compareRefs(a.Ref, b.Ref) })
	return Result{Items: p.items}
}

// newOutputs returns the outputs for later actions.
func newOutputs(items []Item) map[string]string {
	var names []string
	size, omitted := 0, 0
	counts := map[Outcome]int{}
	for _, i := range items {
		counts[i.Outcome]++
		if i.Outcome != Quiesced {
			continue
		}
		name := formatWorkloadRef(i.Ref)
		if size += len(name) + 1; size > maxWorkloadsBytes {
			omitted++
			continue
		}
		names = append(names, name)
	}
	all := map[string]string{}
	for key, n := range map[string]int{
		OutputOmitted: omitted, OutputQuiesced: counts[Quiesced],
		OutputAlreadyQuiesced: counts[AlreadyQuiesced] + counts[QuiescedByRestore], OutputLeftOut: counts[LeftOut],
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

func formatWorkloadRef(ref Ref) string {
	return string(ref.Kind) + "/" + ref.Namespace + "/" + ref.Name
}

// parseWorkloadRefs parses OutputWorkloads. It skips malformed entries: outputs are stored where
// users may change them.
func parseWorkloadRefs(text string) []Ref {
	var refs []Ref
	for name := range strings.FieldsSeq(text) {
		parts := strings.Split(name, "/")
		if len(parts) == 3 && slices.Contains(workloadKinds, WorkloadKind(parts[0])) && parts[1] != "" && parts[2] != "" {
			refs = append(refs, Ref{Kind: WorkloadKind(parts[0]), Namespace: parts[1], Name: parts[2]})
		}
	}
	return refs
}

// summaryPhrases are the phrases of a summary for each outcome, in order. A phrase that ends in a
// colon is followed by names.
var summaryPhrases = []struct {
	outcome Outcome
	text    string
}{
	{Quiesced, "%d quiesced"},
	{Restored, "%d unquiesced"},
	{StillHeld, "%d still held by others"},
	{HeldByAction, "%d still held by another action of the run:"},
	{AlreadyQuiesced, "%d quiesced before"},
	{QuiescedByRestore, "%d restored in their quiesced form"},
	{LeftOut, "%d left running:"},
	{Protected, "%d namespaces never quiesced"},
	{EndedBefore, "%d unquiesced earlier because maxQuiesceDuration had elapsed:"},
	{ChangedSince, "%d changed in the meantime:"},
	{LeftStopped, "%d left stopped because the Restore did not complete:"},
	{Gone, "%d deleted:"},
	{Lost, "%d need attention:"},
	{RollingOut, "%d in the middle of a rollout:"},
	{Contended, "%d to be retried:"},
}

// summaryMessage summarizes the outcomes in one sentence.
func (p *pass) summaryMessage() string {
	var parts []string
	for _, phrase := range summaryPhrases {
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
			text += " " + describeItems(p.items, phrase.outcome)
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "Nothing to do"
	}
	return "Workloads: " + strings.Join(parts, ", ")
}

// startedWarning names the workloads that ran although they were held; "" if there are none.
func startedWarning(items []Item) string {
	return messageAbout("Workloads did not stay quiesced and may have changed while they were read: ",
		describeItemsFunc(items, func(i Item) bool { return i.RanWhileHeld }))
}

// stoppedMessage names the workloads that nothing will start; "" if there are none.
func stoppedMessage(items []Item) string {
	return messageAbout("Workloads stay quiesced: ", describeItems(items, Lost))
}

func messageAbout(what, names string) string {
	if names == "" {
		return ""
	}
	return executor.OneLine(what + names)
}

// describeItems names the workloads with these outcomes and describes each outcome.
func describeItems(items []Item, outcomes ...Outcome) string {
	return describeItemsFunc(items, func(i Item) bool { return slices.Contains(outcomes, i.Outcome) })
}

func describeItemsFunc(items []Item, match func(Item) bool) string {
	var texts []string
	for _, i := range items {
		if match(i) {
			texts = append(texts, i.String())
		}
	}
	return joinAbbreviated(texts)
}
