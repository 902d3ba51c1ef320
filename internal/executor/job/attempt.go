// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/tracing"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// attempt is one call of Execute. Everything except the log follower belongs to one goroutine.
type attempt struct {
	Options
	cluster cluster
	call    executor.Call
	log     logr.Logger
	env     []corev1.EnvVar
	files   map[string][]byte

	// waitingSince is when the container could start: its Job and files existed.
	waitingSince time.Time
	// mayHaveJob is set if there may be a Job. adopted is set if the Job existed before this call.
	// secretsRegistered is set if the redactor knows the secret values of the container.
	mayHaveJob, adopted, secretsRegistered bool

	job  *batchv1.Job
	logs *logFollower

	// observed is the last observed state of the Job and its pod.
	observed   jobState
	pod        *corev1.Pod
	stuckSince time.Time
	// apiError is the last error of the API server; nil if the last request succeeded.
	apiError error
	// deniedError is why the last attempt to remove something was denied; nil if it succeeded.
	deniedError error
}

// Execute makes one attempt; see executor.Executor.
func (e *Executor) Execute(ctx context.Context, call executor.Call) (executor.Answer, error) {
	a := e.newAttempt(ctx, call)
	if err := a.prepareInputs(ctx); err != nil {
		return executor.Answer{}, a.newError(&failure{kind: executor.Invalid, text: err.Error(), err: err})
	}
	answer, failed := a.runJob(ctx)
	if failed != nil {
		return executor.Answer{}, a.newError(failed)
	}
	return answer, nil
}

func (e *Executor) newAttempt(ctx context.Context, call executor.Call) *attempt {
	return &attempt{
		Options: e.options, cluster: e.cluster, call: call, log: logr.FromContextOrDiscard(ctx),
	}
}

func (a *attempt) newError(f *failure) error {
	text := a.Redactor.String(f.text)
	if !f.hasObjectName {
		text = a.withoutJobNames(text)
	}
	return executor.NewError(f.kind, a.call, text, f.err)
}

// prepareInputs rejects a call for which no Job can be created.
func (a *attempt) prepareInputs(ctx context.Context) (err error) {
	switch {
	case a.call.Key == "":
		return errors.New("the call has no idempotency key")
	case a.call.Attempt < 1:
		return fmt.Errorf("the call has attempt number %d, attempts are counted from 1", a.call.Attempt)
	}
	if err := hook.ValidateParameters(a.call.Parameters); err != nil {
		return fmt.Errorf("the parameters are not allowed: %w", err)
	}
	if a.env, err = a.newEnvVars(a.call); err != nil {
		return err
	}
	if traceparent := tracing.Traceparent(ctx); traceparent != "" {
		a.env = append(a.env, corev1.EnvVar{Name: tracing.EnvVar, Value: traceparent})
	}
	a.files, err = encodeFiles(a.call)
	return err
}

// runJob starts or finds the Job and follows it to its end. It removes the Job unless the Job
// finished by itself with a result: until that is recorded, a later Execute must be able to find
// it.
func (a *attempt) runJob(ctx context.Context) (executor.Answer, *failure) {
	changed, stop := a.cluster.watchChanges(ctx, keyLabelValue(a.call.Key))
	defer stop()
	err := a.pollUntilDone(ctx, changed, a.findOrCreateJob)
	if err == nil {
		err = a.pollUntilDone(ctx, changed, a.ensureFilesSecret)
	}
	if err == nil {
		err = a.pollUntilDone(ctx, changed, a.observeJob)
	}
	last := a.logs.drainLog(ctx)
	if err != nil && ctx.Err() != nil {
		if !a.recheckEndBeforeDeadline(ctx) {
			return executor.Answer{}, a.handleContextEnd(ctx)
		}
		err = nil
	}
	var (
		answer executor.Answer
		failed *failure
	)
	if err == nil {
		answer, failed = a.jobResult(last)
	} else {
		failed = toFailure(err)
	}
	// If the operator stops at this moment, the request to be called again is not recorded either.
	// If that answer is lost otherwise, the action is only called sooner.
	final := err == nil && a.observed.isFinal && (failed != nil || answer.RetryAfter == 0)
	if !final && !isOperatorStopping(ctx) {
		a.removeJobsBestEffort(ctx, err != nil || a.observed.exit == nil)
	}
	return answer, failed
}

// jobResult returns the result of a finished Job. last is the last line of its log.
func (a *attempt) jobResult(last string) (executor.Answer, *failure) {
	if a.observed.failure != nil {
		return executor.Answer{}, a.observed.failure
	}
	return answerForExit(a.observed.exit, last, a.Redactor.String)
}

// findOrCreateJob finds the Job of the attempt, which a previous operator left, or creates one once
// no other Job of the key remains.
func (a *attempt) findOrCreateJob(ctx context.Context) (again time.Duration, done bool, err error) {
	a.mayHaveJob = true // a previous operator may have created it
	jobs, err := a.cluster.listJobs(ctx, keyLabelValue(a.call.Key))
	if err != nil {
		return 0, false, newRequestFailure("listing the Jobs of earlier attempts failed", err)
	}
	ending := false
	for i := range jobs {
		if !a.matchesCall(&jobs[i], a.call) {
			continue
		}
		own, err := a.adoptOrEndJob(ctx, &jobs[i])
		if err != nil {
			return 0, false, err
		}
		ending = ending || !own
	}
	if ending {
		return 0, false, nil
	}
	if a.job != nil {
		a.markAdopted()
		return 0, true, nil
	}
	return a.createJob(ctx)
}

// adoptOrEndJob adopts a Job of the key if it belongs to this attempt, and otherwise ends it: the
// result of an earlier attempt is recorded, and nothing may run beside this one. The Job of a later
// attempt means that this attempt is obsolete.
func (a *attempt) adoptOrEndJob(ctx context.Context, job *batchv1.Job) (own bool, err error) {
	number := attemptNumber(job)
	switch {
	case number > a.call.Attempt:
		return false, &failure{kind: executor.Unreachable, text: "a later attempt has already begun"}
	case number == a.call.Attempt && job.DeletionTimestamp == nil:
		a.job = job
		return true, nil
	}
	a.observePod(ctx, job)
	a.observed = jobState{waitingReason: appendReason("the Job of an earlier attempt has not finished yet", lostNodeReason(a.pod))}
	if job.DeletionTimestamp != nil {
		return false, nil
	}
	a.log.Info("Deleting the Job of an earlier attempt", "namespace", a.Namespace, "job", job.Name)
	return false, a.removeJob(ctx, job, true)
}

func (a *attempt) markAdopted() {
	a.adopted = true
	a.log.Info("Following an existing Job; its log is repeated from the beginning",
		"namespace", a.Namespace, "job", a.job.Name)
}

// createJob creates the Job, unless one exists that was not listed.
func (a *attempt) createJob(ctx context.Context) (again time.Duration, done bool, err error) {
	if err := a.registerSecretValues(ctx, a.env, a.readSecretIfAllowed); err != nil {
		return 0, false, newCreateFailure("the Secrets of its variables could not be read", err)
	}
	job := a.newJob(ctx, a.call, a.env)
	err = a.cluster.createObject(ctx, job)
	if err == nil {
		a.job = job
		a.log.Info("Created a Job", "namespace", a.Namespace, "job", job.Name)
		return 0, true, nil
	}
	if !isAlreadyExists(err) {
		return 0, false, newCreateFailure("its Job could not be created", err)
	}
	there, err := a.cluster.getJob(ctx, job.Name)
	switch {
	case err != nil:
		return 0, false, newRequestFailure("its Job could not be read", err)
	case there == nil:
		return executor.MinRetryAfter, false, nil
	case !a.matchesCall(there, a.call):
		return 0, false, &failure{kind: executor.Invalid, hasObjectName: true, text: fmt.Sprintf(
			"Job %s in namespace %s already exists and was not created for this action: delete it", job.Name, a.Namespace)}
	}
	if own, err := a.adoptOrEndJob(ctx, there); !own {
		return 0, false, err
	}
	a.markAdopted()
	return 0, true, nil
}

// ensureFilesSecret creates the files of the Job, unless a previous operator did. If that fails, an
// adopted Job that no longer needs the files is left running.
func (a *attempt) ensureFilesSecret(ctx context.Context) (again time.Duration, done bool, err error) {
	again, done, err = a.createFilesSecret(ctx)
	if err == nil || !a.adopted {
		return again, done, err
	}
	pod, unread := a.cluster.findNewestPod(ctx, a.job, keyLabelValue(a.call.Key))
	if unread != nil {
		return 0, false, newRequestFailure("reading its Job failed", unread)
	}
	if seen := newJobState(a.job, pod); seen.started || seen.hasEnded() {
		return 0, true, nil
	}
	return 0, false, err
}

const filesNotStoredText = "the files for its pod could not be stored"

// createFilesSecret creates the files of the Job, whatever runs. A rejected create request does not
// tell whether they exist: a quota or a policy may reject it first.
func (a *attempt) createFilesSecret(ctx context.Context) (again time.Duration, done bool, err error) {
	secret := a.newFilesSecret(a.job, a.call, a.files)
	if a.adopted {
		if done, err := a.hasFilesSecret(ctx, secret.Name); done || err != nil {
			return 0, done, err
		}
	}
	refusal := a.cluster.createObject(ctx, secret)
	if refusal == nil {
		return 0, true, nil
	}
	if done, err := a.hasFilesSecret(ctx, secret.Name); done || err != nil {
		return 0, done, err
	}
	if isAlreadyExists(refusal) {
		return executor.MinRetryAfter, false, nil
	}
	return 0, false, newCreateFailure(filesNotStoredText, refusal)
}

// hasFilesSecret reports whether the files exist.
func (a *attempt) hasFilesSecret(ctx context.Context, name string) (bool, error) {
	there, err := a.cluster.getSecret(ctx, name)
	switch {
	case err != nil:
		return false, newRequestFailure(filesNotStoredText, err)
	case there == nil:
		return false, nil
	case !a.matchesCall(there, a.call):
		return false, &failure{kind: executor.Invalid, hasObjectName: true, text: fmt.Sprintf(
			"Secret %s in namespace %s already exists and was not created for this action: delete it", name, a.Namespace)}
	}
	return true, nil
}

// observeJob reads the Job and its pod, and updates observed.
func (a *attempt) observeJob(ctx context.Context) (again time.Duration, done bool, err error) {
	const what = "reading its Job failed"
	job, err := a.cluster.getJob(ctx, a.job.Name)
	if err != nil {
		return 0, false, newRequestFailure(what, err)
	}
	if job != nil && job.UID != a.job.UID {
		job = nil
	}
	// Read the pod after the Job: if the Job is complete, its pod is then found if it still exists.
	a.pod, err = a.cluster.findNewestPod(ctx, a.job, keyLabelValue(a.call.Key))
	if err != nil {
		return 0, false, newRequestFailure(what, err)
	}
	a.observed = newJobState(job, a.pod)
	if a.observed.started && a.logs == nil {
		if err := a.registerContainerSecretValues(ctx); err != nil {
			return 0, false, err
		}
		a.followLogs(ctx, a.pod.Name)
	}
	if a.observed.hasEnded() {
		return 0, true, nil
	}
	again = a.enforceStartTimeout(ctx)
	return again, a.observed.hasEnded(), nil
}

func (a *attempt) followLogs(ctx context.Context, pod string) {
	a.logs = startLogFollower(ctx, a.log.WithValues("job", a.job.Name), a.Redactor, func(ctx context.Context) (io.ReadCloser, error) {
		return a.Logs.PodLogs(ctx, a.Namespace, pod, containerName, true)
	})
}
