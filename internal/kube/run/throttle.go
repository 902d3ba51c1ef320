// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// How long a run is let alone after one of its operations changed. Ten thousand of them
// change a hundred times a second, and adding them up takes as long as hundreds of
// questions to plugins.
const (
	minDelayAfterProgress = time.Second
	minDelayAfterFinish   = 100 * time.Millisecond
	delayPerOperation     = 500 * time.Microsecond
)

// operationThrottle remembers what operations runs have. It is safe for concurrent use; the zero one is
// ready.
type operationThrottle struct {
	mu   sync.Mutex
	runs map[types.UID]throttledRun
}

// throttledRun is what is known of the operations of one run.
type throttledRun struct {
	// operations is how many there are.
	operations int
	// checkedAt is when they were looked at last.
	checkedAt time.Time
	// cacheSynced says that the cache shows all that were started.
	cacheSynced bool
	// firstFailure is when what follows the operations failed for the first time.
	firstFailure time.Time
	// stepFailures are what the steps after the outcome failed with last, which are carried out
	// again.
	stepFailures map[string]string
	// givenUpSteps are those of these steps that are not carried out again.
	givenUpSteps map[string]bool
	// firstSeen is when this process saw the run for the first time, age how old it was then, and
	// sure says that the API server says so, too.
	firstSeen      time.Time
	ageAtFirstSeen time.Duration
	ageVerified    bool
	// isolatedSince is since when the run waits for its turn to be tried alone, and refused the step
	// that waited for too long.
	isolatedSince time.Time
	refusedStep   string
}

// recordCheck takes note of how many operations a run has now.
func (p *operationThrottle) recordCheck(uid types.UID, size int, now time.Time) {
	p.updateRun(uid, func(known *throttledRun) { known.operations, known.checkedAt = size, now })
}

// timeUntilNextCheck returns how long the operations of a run need not be looked at; 0 if they are few.
func (p *operationThrottle) timeUntilNextCheck(uid types.UID, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.runs[uid]
	pause := time.Duration(known.operations) * delayPerOperation
	if pause <= minDelayAfterProgress {
		return 0
	}
	return max(0, pause-now.Sub(known.checkedAt))
}

// markCacheSynced takes note that the cache shows all operations of a run.
func (p *operationThrottle) markCacheSynced(uid types.UID) {
	p.updateRun(uid, func(known *throttledRun) { known.cacheSynced = true })
}

// isCacheSynced says whether it does.
func (p *operationThrottle) isCacheSynced(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[uid].cacheSynced
}

// recordWorkFailure returns for how long what follows the operations of a run has failed, which it
// does now.
func (p *operationThrottle) recordWorkFailure(uid types.UID, now time.Time) (since time.Duration) {
	p.updateRun(uid, func(known *throttledRun) {
		if known.firstFailure.IsZero() {
			known.firstFailure = now
		}
		since = now.Sub(known.firstFailure)
	})
	return since
}

// recordStepFailure takes note of how a step failed that is carried out again.
func (p *operationThrottle) recordStepFailure(uid types.UID, step, failure string) {
	p.updateRun(uid, func(known *throttledRun) {
		if known.stepFailures == nil {
			known.stepFailures = map[string]string{}
		}
		known.stepFailures[step] = failure
	})
}

// markStepGivenUp takes note that a step is not carried out again, and reports whether that is news.
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

// lastFailure returns how a step failed last, or "".
func (p *operationThrottle) lastFailure(uid types.UID, step string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[uid].stepFailures[step]
}

// ageOfRun returns how old a run is, and how much of that is sure: all of it, or only what has passed
// since this process saw it first, which is measured with the clock that cannot be set.
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

// setVerifiedAge takes note that a run is so old now, and whether that is sure.
func (p *operationThrottle) setVerifiedAge(uid types.UID, age time.Duration, sure bool, now time.Time) {
	p.updateRun(uid, func(known *throttledRun) {
		known.ageAtFirstSeen, known.ageVerified = age-now.Sub(known.firstSeen), sure
	})
}

// recordIsolationWait returns for how long a run has waited to be tried alone, which it does now.
func (p *operationThrottle) recordIsolationWait(uid types.UID, now time.Time) (since time.Duration) {
	p.updateRun(uid, func(known *throttledRun) {
		if known.isolatedSince.IsZero() {
			known.isolatedSince = now
		}
		since = now.Sub(known.isolatedSince)
	})
	return since
}

// markStepRefused lets a step of a run not begin any more.
func (p *operationThrottle) markStepRefused(uid types.UID, step string) {
	p.updateRun(uid, func(known *throttledRun) { known.refusedStep = step })
}

// isStepRefused reports whether a step of a run may not begin any more.
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

// forgetRun forgets a run.
func (p *operationThrottle) forgetRun(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.runs, uid)
}

// enqueueDelay returns how long a run is let alone after one of its operations has changed, or
// has ended.
func (p *operationThrottle) enqueueDelay(uid types.UID, ended bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	least := minDelayAfterProgress
	if ended {
		least = minDelayAfterFinish
	}
	return max(least, time.Duration(p.runs[uid].operations)*delayPerOperation)
}
