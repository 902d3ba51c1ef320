// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/podexec"
	"github.com/grapnel-dev/grapnel/internal/text"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// The keys of the progress of commands in pods. A number follows the first one, from 1.
const (
	keyPods    = "pods"
	keyIgnored = "ignored"
	keyFailed  = "failed"
	keyAttempt = "attempt"
)

// The limits of the progress. All later actions of the run get it, so it is within those of package
// sdk/hook.
const (
	maxRecordedPods = 1000
	maxFailureBytes = 500
)

// podState is what is known of the command in a pod.
type podState byte

const (
	// stateStarted: the command may have run.
	stateStarted podState = 1 << iota
	// stateDone: it need not run again.
	stateDone
	// stateFailed: it need not run again in this attempt, which waits for other pods.
	stateFailed
)

// podStates are the states of pods by the digests of their UIDs.
type podStates map[string]podState

// The lengths of a digest and of its entry in an output.
const (
	digestLength = 6
	entryLength  = digestLength + 1
)

// podDigest is short, because there may be hundreds of them. If two pods have the same digest, a
// command may be missing in one; with 1000 pods, that happens once in 100,000 runs.
func podDigest(uid types.UID) string {
	sum := sha256.Sum256([]byte(uid))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:digestLength]
}

// parsePodStates returns the states in some outputs, and whether there are any.
func parsePodStates(outputs map[string]string) (states podStates, known bool) {
	states = podStates{}
	for n := 1; ; n++ {
		entries, more := outputs[keyPods+strconv.Itoa(n)]
		if !more {
			return states, known
		}
		known = true
		for entry := range slices.Chunk([]byte(entries), entryLength) {
			if len(entry) == entryLength {
				states[string(entry[:digestLength])] = podState(entry[digestLength] - '0')
			}
		}
	}
}

// has reports whether a pod has one of some states.
func (s podStates) has(uid types.UID, wanted podState) bool { return s[podDigest(uid)]&wanted != 0 }

// count returns how many pods have one of some states.
func (s podStates) count(wanted podState) (n int) {
	for _, state := range s {
		if state&wanted != 0 {
			n++
		}
	}
	return n
}

// toOutputs returns the states as outputs, at least one.
func (s podStates) toOutputs() map[string]string {
	outputs := map[string]string{keyPods + "1": ""}
	n := 1
	for digests := range slices.Chunk(slices.Sorted(maps.Keys(s)), hook.MaxOutputValueBytes/entryLength) {
		var entries strings.Builder
		for _, digest := range digests {
			entries.WriteString(digest)
			entries.WriteByte('0' + byte(s[digest]))
		}
		outputs[keyPods+strconv.Itoa(n)] = entries.String()
		n++
	}
	return outputs
}

// podHookProgress is what calls of an action have done.
type podHookProgress struct {
	pods podStates
	// ignored describes failures that do not matter to the run, and failed those of this attempt.
	ignored, failed string
}

// parsePodHookProgress returns the progress for a call. What failed in an earlier attempt is repeated.
func parsePodHookProgress(call executor.Call) *podHookProgress {
	pods, _ := parsePodStates(call.Progress)
	progress := &podHookProgress{pods: pods, ignored: call.Progress[keyIgnored], failed: call.Progress[keyFailed]}
	if call.Progress[keyAttempt] != strconv.Itoa(int(call.Attempt)) {
		progress.endAttempt()
	}
	return progress
}

// endAttempt forgets what failed.
func (p *podHookProgress) endAttempt() {
	p.failed = ""
	for digest := range p.pods {
		if p.pods[digest] &^= stateFailed; p.pods[digest] == 0 {
			delete(p.pods, digest)
		}
	}
}

// record records the outcome of a command. After a backup, there may be more pods than are remembered:
// a pod that stays frozen is worse than a command that is repeated.
func (p *podHookProgress) record(pod *corev1.Pod, outcome podexec.PodOutcome) {
	digest, state := podDigest(pod.UID), podState(0)
	if outcome.Started {
		state |= stateStarted
	}
	if outcome.Done {
		state |= stateDone
	}
	if outcome.Failed != "" {
		state |= stateFailed
	}
	if state != 0 && (p.pods[digest] != 0 || len(p.pods) < maxRecordedPods) {
		p.pods[digest] |= state
	}
	p.ignored = appendFailure(p.ignored, pod, outcome.Ignored)
	p.failed = appendFailure(p.failed, pod, outcome.Failed)
}

// appendFailure adds what failed in a pod to a list of failures.
func appendFailure(list string, pod *corev1.Pod, failure string) string {
	if failure == "" {
		return list
	}
	if list != "" {
		list += "; "
	}
	return text.Truncate(list+pod.Namespace+"/"+pod.Name+": "+failure, maxFailureBytes)
}

// toOutputs returns the progress in the form that the status of a HookRun has.
func (p *podHookProgress) toOutputs(attempt int32) map[string]string {
	outputs := p.pods.toOutputs()
	if p.failed != "" {
		outputs[keyFailed], outputs[keyAttempt] = p.failed, strconv.Itoa(int(attempt))
	}
	if p.ignored != "" {
		outputs[keyIgnored] = p.ignored
	}
	return outputs
}
