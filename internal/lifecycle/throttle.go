// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// How long a run is not reconciled after one of its operations changed. Ten thousand operations
// change a hundred times a second, and summarizing them takes as long as hundreds of calls to
// plugins.
const (
	minDelayAfterProgress     = time.Second
	minDelayAfterUrgentChange = 100 * time.Millisecond
	delayPerOperation         = 500 * time.Microsecond
)

// operationThrottle has what this process knows of the operations and steps of runs. It is safe
// for concurrent use; the zero value is ready to use.
type operationThrottle struct {
	mu   sync.Mutex
	runs map[types.UID]throttledRun
}

// throttledRun is what this process knows of one run.
type throttledRun struct {
	// operations is the number of operations.
	operations int
	// checkedAt is when the operations were last checked.
	checkedAt time.Time
	// cacheSynced means that the cache shows all operations that were started.
	cacheSynced bool
	// firstFailure is when the work that follows the operations first failed.
	firstFailure time.Time
	// stepFailures are the last failures of the steps after the outcome, which are retried.
	stepFailures map[string]string
	// givenUpSteps are the steps that are not retried anymore.
	givenUpSteps map[string]bool
	// firstSeen is when this process first saw the run, and ageAtFirstSeen how old the run was
	// at that time. ageVerified means that the API server confirmed that age.
	firstSeen      time.Time
	ageAtFirstSeen time.Duration
	ageVerified    bool
	// isolatedSince is when the run started to wait for its turn to run alone. refusedStep is
	// the step that waited for too long.
	isolatedSince time.Time
	refusedStep   string
}

// recordCheck records how many operations a run has now.
func (p *operationThrottle) recordCheck(uid types.UID, size int, now time.Time) {
	p.updateRun(uid, func(known *throttledRun) { known.operations, known.checkedAt = size, now })
}

// timeUntilNextCheck returns how long the operations of a run need not be checked. If nothing
// waits for them yet, that is at least a second; otherwise, it is 0 if they are few.
func (p *operationThrottle) timeUntilNextCheck(uid types.UID, awaited bool, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.runs[uid]
	pause := time.Duration(known.operations) * delayPerOperation
	if awaited && pause <= minDelayAfterProgress {
		return 0
	}
	return max(0, max(minDelayAfterProgress, pause)-now.Sub(known.checkedAt))
}

// markCacheSynced records that the cache shows all operations of a run.
func (p *operationThrottle) markCacheSynced(uid types.UID) {
	p.updateRun(uid, func(known *throttledRun) { known.cacheSynced = true })
}

// isCacheSynced reports whether the cache shows all operations of a run.
func (p *operationThrottle) isCacheSynced(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[uid].cacheSynced
}

// recordWorkFailure records that the work that follows the operations has failed, and returns
// how long it has been failing.
func (p *operationThrottle) recordWorkFailure(uid types.UID, now time.Time) (since time.Duration) {
	p.updateRun(uid, func(known *throttledRun) {
		if known.firstFailure.IsZero() {
			known.firstFailure = now
		}
		since = now.Sub(known.firstFailure)
	})
	return since
}

// recordStepFailure records the failure of a step that is retried.
func (p *operationThrottle) recordStepFailure(uid types.UID, step, failure string) {
	p.updateRun(uid, func(known *throttledRun) {
		if known.stepFailures == nil {
			known.stepFailures = map[string]string{}
		}
		known.stepFailures[step] = failure
	})
}

// markStepGivenUp records that a step is not retried anymore, and reports whether that is new.
func (p *operationThrottle) markStepGivenUp(uid types.UID, step string) (news bool) {
	p.updateRun(uid, func(known *throttledRun) {
		if known.givenUpSteps == nil {
			known.givenUpSteps = map[string]bool{}
		}
		news = !known.givenUpSteps[step]
		known.givenUpSteps[step] = true
	})
	return news
}

// lastFailure returns the last failure of a step, or "".
func (p *operationThrottle) lastFailure(uid types.UID, step string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[uid].stepFailures[step]
}

// ageOfRun returns the age of a run, and how much of it is certain: either all of it, or only
// the time since this process first saw the run, which is measured with the monotonic clock.
func (p *operationThrottle) ageOfRun(uid types.UID, start, now time.Time) (age, sure time.Duration) {
	p.updateRun(uid, func(known *throttledRun) {
		if known.firstSeen.IsZero() {
			known.firstSeen, known.ageAtFirstSeen = now, max(now.Sub(start), 0)
		}
		sure = now.Sub(known.firstSeen)
		if age = known.ageAtFirstSeen + sure; known.ageVerified {
			sure = age
		}
	})
	return age, sure
}

// setVerifiedAge records the current age of a run, and whether it is certain.
func (p *operationThrottle) setVerifiedAge(uid types.UID, age time.Duration, sure bool, now time.Time) {
	p.updateRun(uid, func(known *throttledRun) {
		known.ageAtFirstSeen, known.ageVerified = age-now.Sub(known.firstSeen), sure
	})
}

// recordIsolationWait records that a run waits to run alone, and returns how long it has waited.
func (p *operationThrottle) recordIsolationWait(uid types.UID, now time.Time) (since time.Duration) {
	p.updateRun(uid, func(known *throttledRun) {
		if known.isolatedSince.IsZero() {
			known.isolatedSince = now
		}
		since = now.Sub(known.isolatedSince)
	})
	return since
}

// markStepRefused prevents a step of a run from starting.
func (p *operationThrottle) markStepRefused(uid types.UID, step string) {
	p.updateRun(uid, func(known *throttledRun) { known.refusedStep = step })
}

// isStepRefused reports whether a step of a run must not start anymore.
func (p *operationThrottle) isStepRefused(uid types.UID, step string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[uid].refusedStep == step
}

func (p *operationThrottle) updateRun(uid types.UID, change func(*throttledRun)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs == nil {
		p.runs = map[types.UID]throttledRun{}
	}
	known := p.runs[uid]
	change(&known)
	p.runs[uid] = known
}

func (p *operationThrottle) forgetRun(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.runs, uid)
}

// enqueueDelay returns the delay before a run is reconciled after one of its operations has
// changed. A change is urgent if the operation has ended or captured its data.
func (p *operationThrottle) enqueueDelay(uid types.UID, urgent bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	least := minDelayAfterProgress
	if urgent {
		least = minDelayAfterUrgentChange
	}
	return max(least, time.Duration(p.runs[uid].operations)*delayPerOperation)
}
