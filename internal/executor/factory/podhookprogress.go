// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/executor/podexec"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// The keys of the progress of commands in pods.
const (
	keyStarted = "started"
	keyDone    = "done"
	keyIgnored = "ignored"
)

// The limits of the progress, within those of package sdk/hook. More pods than that are not
// remembered: their commands may be repeated.
const (
	maxRecordedPods = 400
	maxIgnoredBytes = 700
)

// moreEntry is the entry of a set that does not have all pods.
const moreEntry = "more"

// podSet is a set of pods in the form that outputs of actions have.
type podSet struct {
	// digests are those of the UIDs.
	digests map[string]bool
	// incomplete means that other pods may be in the set, too.
	incomplete bool
}

// parsePodSet returns the set in some outputs. One that is missing may contain any pod.
func parsePodSet(outputs map[string]string, key string) podSet {
	value, known := outputs[key]
	set := podSet{digests: map[string]bool{}, incomplete: !known}
	for entry := range strings.SplitSeq(value, ",") {
		switch entry {
		case "":
		case moreEntry:
			set.incomplete = true
		default:
			set.digests[entry] = true
		}
	}
	return set
}

// podDigest is short, because there may be hundreds of them. If two pods have the same digest, a
// command may be missing in one; with 400 pods, that happens once in 50,000 runs.
func podDigest(uid types.UID) string {
	sum := sha256.Sum256([]byte(uid))
	return hex.EncodeToString(sum[:4])
}

func (s podSet) contains(uid types.UID) bool   { return s.digests[podDigest(uid)] }
func (s podSet) mayContain(uid types.UID) bool { return s.incomplete || s.contains(uid) }

func (s podSet) clone() podSet { return podSet{maps.Clone(s.digests), s.incomplete} }

// String returns the set as an output.
func (s podSet) String() string {
	entries := slices.Sorted(maps.Keys(s.digests))
	if s.incomplete || len(entries) > maxRecordedPods {
		entries = append(entries[:min(len(entries), maxRecordedPods)], moreEntry)
	}
	return strings.Join(entries, ",")
}

// podHookProgress is what calls of an action have done.
type podHookProgress struct {
	// started are the pods in which a command may have run, and done those in which it need not run
	// again.
	started, done podSet
	// ignored describes failures that do not matter to the run.
	ignored string
}

func parsePodHookProgress(outputs map[string]string) *podHookProgress {
	if outputs == nil {
		outputs = map[string]string{keyStarted: "", keyDone: ""}
	}
	return &podHookProgress{started: parsePodSet(outputs, keyStarted), done: parsePodSet(outputs, keyDone), ignored: outputs[keyIgnored]}
}

// record records the outcome of a command.
func (p *podHookProgress) record(pod *corev1.Pod, outcome podexec.PodOutcome) {
	if outcome.Started {
		p.started.digests[podDigest(pod.UID)] = true
	}
	if outcome.Done {
		p.done.digests[podDigest(pod.UID)] = true
	}
	if outcome.Ignored == "" {
		return
	}
	if p.ignored != "" {
		p.ignored += "; "
	}
	p.ignored = text.Truncate(p.ignored+pod.Namespace+"/"+pod.Name+": "+outcome.Ignored, maxIgnoredBytes)
}

// toOutputs returns the progress in the form that the status of a HookRun has.
func (p *podHookProgress) toOutputs() map[string]string {
	outputs := map[string]string{keyStarted: p.started.String(), keyDone: p.done.String()}
	if p.ignored != "" {
		outputs[keyIgnored] = p.ignored
	}
	return outputs
}
